// The steps of conjugate gradients, each on a device's own rows of the matrix and of the vectors. The direction p alone is
// whole on all devices; `first` is the first of the device's rows.

// product = A p. Row i's elements are from row_begin[i] up to row_begin[i + 1].
kernel void multiply(global const uint *row_begin, global const uint *columns, global const float *elements,
                     global const float *p, global float *product, uint rows)
{
    const size_t i = get_global_id(0);
    if (i >= rows)
        return;
    float sum = 0.0f;
    for (uint n = row_begin[i]; n < row_begin[i + 1]; ++n)
        sum += elements[n] * p[columns[n]];
    product[i] = sum;
}

// The sum of one number of each work-item, in the work-group's first one.
float group_sum(float number, local float *numbers)
{
    const size_t lane = get_local_id(0);
    numbers[lane] = number;
    for (size_t reach = GROUP / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < reach)
            numbers[lane] += numbers[lane + reach];
    }
    return numbers[0];
}

// The dot product of u, from `first` on, and v: GROUP work-groups leave a partial sum each, add_up makes one of them.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void dot_product(global const float *u, uint first, global const float *v, global float *partial, uint rows)
{
    local float numbers[GROUP];
    float own = 0.0f;
    for (size_t i = get_global_id(0); i < rows; i += get_global_size(0))
        own += u[first + i] * v[i];
    const float sum = group_sum(own, numbers);
    if (get_local_id(0) == 0)
        partial[get_group_id(0)] = sum;
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void add_up(global const float *partial, global float *result)
{
    local float numbers[GROUP];
    const float sum = group_sum(partial[get_local_id(0)], numbers);
    if (get_local_id(0) == 0)
        *result = sum;
}

// x += alpha p, residual -= alpha A p
kernel void advance(global float *x, global float *residual, global const float *p, global const float *product, uint first,
                    uint rows, float alpha)
{
    const size_t i = get_global_id(0);
    if (i >= rows)
        return;
    x[i] += alpha * p[first + i];
    residual[i] -= alpha * product[i];
}

// p = residual + beta p
kernel void turn(global float *p, global const float *residual, uint first, uint rows, float beta)
{
    const size_t i = get_global_id(0);
    if (i < rows)
        p[first + i] = residual[i] + beta * p[first + i];
}
