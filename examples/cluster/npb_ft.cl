// NPB's FT. A device has some planes of z of the field, and some rows of y of its transform. In
// both, x is innermost. Complex numbers are double2.
//
// Between the two layouts, the data is in blocks, one for each device. A block contains the rows of
// the other device in all planes of this one. On the other device, the blocks of all devices in
// order are all planes of its rows.

// Each work-item fills a row of the field from the sequence of random numbers. `first` is the
// number of the first row.
kernel void fill_rows(global double2 *field, ulong first, uint rows)
{
    const size_t row = get_global_id(0);
    if (row >= rows)
        return;
    ulong x = random_after(314159265UL, 2 * NX * (first + row));
    for (uint i = 0; i < NX; ++i) {
        const double re = next_random(&x);
        field[row * NX + i] = (double2)(re, next_random(&x));
    }
}

double2 multiply(double2 a, double2 b)
{
    return (double2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// Stockham's transform of LINES lines of n points by a work-group of LINES columns; the line is the
// innermost index. roots[k] is the LONGEST-th root of unity to the power of -k. Returns where the
// result is, `here` or `there`; all work-items may read it then.
local double2 *transform(local double2 *here, local double2 *there, global const double2 *roots, uint n, uint inverse)
{
    const uint line = get_local_id(0);
    for (uint stride = 1; stride < n; stride *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = get_local_id(1); k < n / 2; k += get_local_size(1)) {
            const uint turn = k & ~(stride - 1);
            double2 root = roots[turn * (LONGEST / n)];
            if (inverse)
                root.y = -root.y;
            const double2 a = here[k * LINES + line], b = here[(k + n / 2) * LINES + line];
            there[(k + turn) * LINES + line] = a + b;
            there[(k + turn + stride) * LINES + line] = multiply(a - b, root);
        }
        local double2 *const last = here;
        here = there;
        there = last;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return here;
}

// Transforms along x, in place.
kernel void along_x(global double2 *field, global const double2 *roots, local double2 *memory, uint inverse)
{
    field += get_group_id(0) * LINES * NX;
    const uint item = get_local_id(1) * LINES + get_local_id(0), items = get_local_size(1) * LINES;
    for (uint i = item; i < LINES * NX; i += items)
        memory[i % NX * LINES + i / NX] = field[i];
    local const double2 *const result = transform(memory, memory + LINES * NX, roots, NX, inverse);
    for (uint i = item; i < LINES * NX; i += items)
        field[i] = result[i % NX * LINES + i / NX];
}

// Returns where row y of plane z is among the blocks of a device with `planes` planes. Device k has
// the rows from NY k / devices on.
size_t in_blocks(uint z, uint y, uint planes, uint devices)
{
    const uint device = ((y + 1) * devices - 1) / NY;
    const uint first = NY * device / devices, rows = NY * (device + 1) / devices - first;
    return ((size_t)first * planes + z * rows + (y - first)) * NX;
}

// Transforms along y, from the field to the blocks, or back with `inverse`.
kernel void along_y(global const double2 *from, global double2 *to, global const double2 *roots, local double2 *memory,
                    uint planes, uint devices, uint inverse)
{
    const uint line = get_local_id(0), at = get_group_id(0) * LINES + line;
    const uint x = at % NX, z = at / NX;
    for (uint y = get_local_id(1); y < NY; y += get_local_size(1))
        memory[y * LINES + line] = from[(inverse ? in_blocks(z, y, planes, devices) : ((size_t)z * NY + y) * NX) + x];
    local const double2 *const result = transform(memory, memory + LINES * NY, roots, NY, inverse);
    for (uint y = get_local_id(1); y < NY; y += get_local_size(1))
        to[(inverse ? ((size_t)z * NY + y) * NX : in_blocks(z, y, planes, devices)) + x] = result[y * LINES + line];
}

// Transforms along z, in place, on a device with `rows` rows.
kernel void along_z(global double2 *waves, global const double2 *roots, local double2 *memory, uint rows, uint inverse)
{
    const uint line = get_local_id(0);
    const size_t at = get_group_id(0) * LINES + line, plane = (size_t)rows * NX;
    for (uint z = get_local_id(1); z < NZ; z += get_local_size(1))
        memory[z * LINES + line] = waves[z * plane + at];
    local const double2 *const result = transform(memory, memory + LINES * NZ, roots, NZ, inverse);
    for (uint z = get_local_id(1); z < NZ; z += get_local_size(1))
        waves[z * plane + at] = result[z * LINES + line];
}

// Computes a time step: damps all waves and copies them. `damping` has the factors of x, then y,
// then z.
kernel void evolve(global double2 *waves, global double2 *copy, global const double *damping, uint first, uint rows)
{
    const size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    const size_t at = (z * rows + y) * NX + x;
    copy[at] = waves[at] *= damping[x] * damping[NX + first + y] * damping[NX + NY + z];
}

// Adds those of 1024 points that are in the device's planes, and stores the sum as number `step`.
// Runs in one work-group.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void add_points(global const double2 *field, global double2 *sums, uint first, uint planes, uint step)
{
    local double numbers[GROUP];
    double2 own = 0.0;
    for (uint n = get_local_id(0) + 1; n <= 1024; n += GROUP) {
        const uint x = n % NX, y = 3 * n % NY, z = 5 * n % NZ;
        if (z >= first && z < first + planes)
            own += field[((size_t)(z - first) * NY + y) * NX + x];
    }
    const double re = group_sum(own.x, numbers), im = group_sum(own.y, numbers);
    if (get_local_id(0) == 0)
        sums[step] = (double2)(re, im) / ((double)NX * NY * NZ);
}
