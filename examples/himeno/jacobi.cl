// One sweep of Himeno's 19-point Jacobi stencil over some planes of a slab.
//
// The host defines ROWS and COLUMNS, the extents of the grid along j and k, and GROUP, the size of
// a work-group along k.
//
// The order of operations at a point does not depend on the launched part of the slab, and the
// compiler must not contract operations. So the field is the same to the last bit for any
// decomposition, host program and device.
#pragma OPENCL FP_CONTRACT OFF

#define ROW ((size_t)COLUMNS)
#define PLANE ((size_t)ROWS * COLUMNS)
#define OMEGA 0.8f

// `matrix` is the number of points in the slab. a, b and c hold four, three and three coefficients,
// one after another.
kernel void jacobi(global const float *restrict a, global const float *restrict b, global const float *restrict c,
                   global const float *restrict wrk1, global const float *restrict bnd, global const float *restrict p,
                   global float *restrict next, global float *restrict partial, ulong matrix, uint first)
{
    local float squares[GROUP];
    const size_t k = get_global_id(0), j = get_global_id(1) + 1, i = get_global_id(2) + first;
    const size_t lane = get_local_id(0);
    const size_t at = i * PLANE + j * ROW + k;

    // Also computes the ends of the row, from numbers of the adjacent rows, and discards them. On
    // CPUs this is much faster than a branch, which would prevent vectorisation.
    const bool inner = k > 0 && k < COLUMNS - 1;
    const float s0 = a[at] * p[at + PLANE] + a[at + matrix] * p[at + ROW] + a[at + 2 * matrix] * p[at + 1]
                   + b[at] * (p[at + PLANE + ROW] - p[at + PLANE - ROW] - p[at - PLANE + ROW] + p[at - PLANE - ROW])
                   + b[at + matrix] * (p[at + ROW + 1] - p[at - ROW + 1] - p[at + ROW - 1] + p[at - ROW - 1])
                   + b[at + 2 * matrix] * (p[at + PLANE + 1] - p[at - PLANE + 1] - p[at + PLANE - 1] + p[at - PLANE - 1])
                   + c[at] * p[at - PLANE] + c[at + matrix] * p[at - ROW] + c[at + 2 * matrix] * p[at - 1] + wrk1[at];
    const float ss = (s0 * a[at + 3 * matrix] - p[at]) * bnd[at];
    next[at] = inner ? p[at] + OMEGA * ss : p[at];

    // gosa is the sum of all squares. Each work-group leaves one number, in a fixed order, and the
    // host adds them.
    squares[lane] = inner ? ss * ss : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane == 0) {
        float16 sum = 0.0f;
        for (size_t n = 0; n < GROUP / 16; ++n)
            sum += vload16(n, squares);
        const float8 eight = sum.lo + sum.hi;
        const float4 four = eight.lo + eight.hi;
        const float2 two = four.lo + four.hi;
        partial[((i - 1) * get_global_size(1) + j - 1) * get_num_groups(0) + get_group_id(0)] = two.lo + two.hi;
    }
}
