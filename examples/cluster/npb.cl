// What the kernels after the NAS Parallel Benchmarks share.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

// NPB's random numbers: x becomes 5^13 x modulo 2^46, and x / 2^46 is the number.
#define RANDOM_MASK ((1UL << 46) - 1)

double next_random(ulong *x)
{
    *x = (*x * 1220703125UL) & RANDOM_MASK;
    return (double)*x * 0x1p-46;
}

// What x is after `count` numbers.
ulong random_after(ulong x, ulong count)
{
    for (ulong a = 1220703125UL; count != 0; count >>= 1, a = (a * a) & RANDOM_MASK)
        if (count & 1)
            x = (x * a) & RANDOM_MASK;
    return x;
}

// The sum of one number of each work-item, in the work-group's first one.
double group_sum(double number, local double *numbers)
{
    const size_t lane = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    numbers[lane] = number;
    for (size_t reach = GROUP / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < reach)
            numbers[lane] += numbers[lane + reach];
    }
    return numbers[0];
}

// The dot product of `count` elements from `first` on: GROUP work-groups leave a partial sum each, add_up makes one of them.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void dot_product(global const double *u, global const double *v, global double *partial, ulong first, ulong count)
{
    local double numbers[GROUP];
    double own = 0.0;
    for (ulong i = get_global_id(0); i < count; i += get_global_size(0))
        own += u[first + i] * v[first + i];
    const double sum = group_sum(own, numbers);
    if (get_local_id(0) == 0)
        partial[get_group_id(0)] = sum;
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void add_up(global const double *partial, global double *result)
{
    local double numbers[GROUP];
    const double sum = group_sum(partial[get_local_id(0)], numbers);
    if (get_local_id(0) == 0)
        *result = sum;
}
