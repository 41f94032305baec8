#pragma OPENCL FP_CONTRACT OFF

// How the temperatures of a chip change in `steps` steps. A work-group of BLOCK x BLOCK computes as many cells, from those around them up to
// `steps` away: a pyramid of cells, of which each step makes a smaller layer. Nothing leaves the chip at its sides.
kernel __attribute__((reqd_work_group_size(BLOCK, BLOCK, 1)))
void hotspot(global const float *power, global const float *from, global float *to, int width, int height, int steps,
             float across, float up, float out, float outside, local float *cells)
{
    const int side = BLOCK + 2 * steps;
    const int left = (int)get_group_id(0) * BLOCK - steps, bottom = (int)get_group_id(1) * BLOCK - steps;
    const int lx = get_local_id(0), ly = get_local_id(1);
    local float *const heat = cells + 2 * side * side;
    for (int y = ly; y < side; y += BLOCK)
        for (int x = lx; x < side; x += BLOCK)
            if (left + x >= 0 && left + x < width && bottom + y >= 0 && bottom + y < height) {
                cells[y * side + x] = from[(bottom + y) * width + left + x];
                heat[y * side + x] = power[(bottom + y) * width + left + x];
            }
    barrier(CLK_LOCAL_MEM_FENCE);
    int now = 0;
    for (int step = 1; step <= steps; ++step) {
        for (int y = ly; y < side; y += BLOCK)
            for (int x = lx; x < side; x += BLOCK)
                if (x >= step && x < side - step && y >= step && y < side - step && left + x >= 0 && left + x < width &&
                    bottom + y >= 0 && bottom + y < height) {
                    const int at = now + y * side + x;
                    const float own = cells[at];
                    const float west = left + x > 0 ? cells[at - 1] : own;
                    const float east = left + x + 1 < width ? cells[at + 1] : own;
                    const float south = bottom + y > 0 ? cells[at - side] : own;
                    const float north = bottom + y + 1 < height ? cells[at + side] : own;
                    cells[side * side - now + y * side + x] = own + heat[y * side + x] + across * (west + east - 2 * own) +
                                                              up * (south + north - 2 * own) + out * (outside - own);
                }
        barrier(CLK_LOCAL_MEM_FENCE);
        now = side * side - now;
    }
    const int x = get_group_id(0) * BLOCK + lx, y = get_group_id(1) * BLOCK + ly;
    if (x < width && y < height)
        to[y * width + x] = cells[now + (ly + steps) * side + lx + steps];
}
