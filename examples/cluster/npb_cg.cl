// The steps of NPB's CG, each on a device's own rows of the matrix and of the vectors. Numbers that all devices have made
// together are in memory, where the host need not know them.

// q = A v. Row i's elements are from row_begin[i] up to row_begin[i + 1]; v is whole.
kernel void multiply(global const uint *row_begin, global const uint *columns, global const double *elements,
                     global const double *v, global double *q, uint rows)
{
    const size_t i = get_global_id(0);
    if (i >= rows)
        return;
    double sum = 0.0;
    for (uint n = row_begin[i]; n < row_begin[i + 1]; ++n)
        sum += elements[n] * v[columns[n]];
    q[i] = sum;
}

// z = 0, r = p = x
kernel void start(global const double *x, global double *z, global double *r, global double *p, uint rows)
{
    const size_t i = get_global_id(0);
    if (i >= rows)
        return;
    z[i] = 0.0;
    r[i] = p[i] = x[i];
}

// z += alpha p, r -= alpha q
kernel void advance(global double *z, global double *r, global const double *p, global const double *q,
                    global const double *square, global const double *p_q, uint rows)
{
    const size_t i = get_global_id(0);
    if (i >= rows)
        return;
    const double alpha = *square / *p_q;
    z[i] += alpha * p[i];
    r[i] -= alpha * q[i];
}

// p = r + beta p
kernel void turn(global double *p, global const double *r, global const double *square, global const double *last_square,
                 uint rows)
{
    const size_t i = get_global_id(0);
    if (i < rows)
        p[i] = r[i] + *square / *last_square * p[i];
}

// q = x - q
kernel void subtract_from(global const double *x, global double *q, uint rows)
{
    const size_t i = get_global_id(0);
    if (i < rows)
        q[i] = x[i] - q[i];
}

// x = z / |z|
kernel void make_unit(global const double *z, global const double *square, global double *x, uint rows)
{
    const size_t i = get_global_id(0);
    if (i < rows)
        x[i] = z[i] / sqrt(*square);
}
