// One kernel for each construct that is or is not supported; ROW is a build option.
typedef struct {
    uint first, count;
} Part;

int inside(int x, int y, int n) { return x > 0 && x < n - 1 && y > 0; }

kernel void stencil(global const float *from, global float *to, int n)
{
    const int x = get_global_id(0), y = get_global_id(1);
    if (inside(x, y, n)) to[y * ROW + x] = from[(y - 1) * ROW + x] + from[y * ROW + x + 1];
}

kernel void matrix_row(global const float *matrix, global const float *v, global float *out, uint n)
{
    const uint row = get_global_id(0);
    float sum = 0;
    for (uint k = 0; k < n; ++k) sum += matrix[row * n + k] * v[k];
    out[row] = sum;
}

kernel void strided(global const float4 *in, global float *out, Part part)
{
    for (uint i = get_global_id(0); i < part.count; i += get_global_size(0)) vstore4(in[part.first + i], i, out);
}

kernel void looked_up(global const int *index, global const float *in, global float *out)
{
    out[get_global_id(0)] = in[index[get_global_id(0)]];
}

kernel void scattered(global const int *index, global float *out) { out[index[get_global_id(0)]] = 1; }

kernel void counted(global int *counter, global int *out) { out[get_global_id(0)] = atomic_inc(counter); }

kernel void chosen(global const int *a, global const int *b, global int *out)
{
    global const int *from = out[get_global_id(0)] > 0 ? a : b;
    out[get_global_id(0)] = from[get_global_id(0)];
}

kernel void chosen_to(global int *a, global int *b)
{
    global int *to = a[get_global_id(0)] > 0 ? a : b;
    to[get_global_id(0)] = 0;
}

kernel void printing(global int *a) { printf("%d", a[get_global_id(0)]); }

kernel void picture(read_only image2d_t image, global float *out) { out[get_global_id(0)] = get_image_width(image); }

kernel void in_groups(global const int *in, global int *out, local int *mine)
{
    mine[get_local_id(0)] = in[get_group_id(0) * get_local_size(0) + get_local_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) out[get_group_id(0)] = mine[0];
}

kernel void copied_to_groups(global int *to, const global int *from) {
    local int part[16];
    event_t copied = async_work_group_copy(part, from + get_group_id(0) * 16, (size_t)16, (event_t)0);
    wait_group_events(1, &copied);
    to[get_global_id(0)] = part[15 - get_local_id(0)];
}

kernel void fractions(global float *data) {
    float whole;
    data[get_global_id(0)] = fract(data[get_global_id(0)], &whole) + whole;
}

kernel void clamped(global const float *in, global float *out, int n)
{
    const int i = get_global_id(0);
    out[i] = in[clamp(i - 1, 0, n - 1)] + in[select(i, i + 1, i + 1 < n)];
}

kernel void by_components(global const float *in, global float *out, int width)
{
    const int2 at = (int2)(get_global_id(0), get_global_id(1)) + (int2)(1);
    out[mad24(at.y, width, at.x)] = in[mul24(at.y - 1, width) + at.x];
}

kernel void halving_and_doubling(global const int *in, global int *out, int n)
{
    int sum = 0;
    for (int step = 64; step > 0; step >>= 1) sum += in[get_global_id(0) + step];
    for (int step = 1; step < n; step *= 2) sum += in[get_global_id(0) + step];
    out[get_global_id(0)] = sum;
}

kernel void any_dimension(global int *out)
{
    size_t at = 0;
    for (int d = 1; d >= 0; --d) at = at * get_global_size(d) + get_global_id(d);
    out[at] = 1;
}

constant int offsets[] = {-1, 2, 1};
kernel void from_a_table(global const int *in, global int *out)
{
    int sum = 0;
    for (int k = 0; k < 3; ++k) sum += in[(int)get_global_id(0) + offsets[k]];
    out[get_global_id(0)] = sum;
}

kernel void by_fractions(global int *out) { out[(int)(get_global_id(0) * 0.5f)] = 1; }

kernel void by_chance(global int *out)
{
    uint state = get_global_id(0);
    for (int i = 0; i < 4; ++i) {
        state = state * 1664525 + 1013904223;
        out[state % get_global_size(0)] = 1;
    }
}
