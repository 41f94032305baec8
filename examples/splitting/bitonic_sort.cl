// One step of a bitonic sort: element i is compared with the one `distance` behind it, in blocks of 2 * distance elements: get_global_id(1)
// is the block. Blocks of `length` elements go up and down in turn. All are powers of two.
kernel void compare(global uint *data, uint distance, uint length)
{
    const size_t i = get_global_id(1) * distance * 2 + get_global_id(0);
    const uint a = data[i], b = data[i + distance];
    const bool up = (i & length) == 0;
    data[i] = up ? min(a, b) : max(a, b);
    data[i + distance] = up ? max(a, b) : min(a, b);
}
