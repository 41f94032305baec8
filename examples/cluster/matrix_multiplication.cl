// Adds to some rows of C what a panel of `depth` rows of B, from row `first` on, gives: A and C have these rows, C is new if
// `first` is 0. A work-group computes a tile of C, from a row of tiles of A and a column of tiles of B, through local memory.
// What hangs over the edges counts as zero.
kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void matrix_multiplication(global const float *a, global const float *b, global float *c, uint rows, uint n, uint first,
                           uint depth)
{
    local float a_tile[TILE][TILE], b_tile[TILE][TILE];
    const size_t x = get_local_id(0), y = get_local_id(1);
    const size_t column = get_global_id(0), row = get_global_id(1);
    const bool is_inside = row < rows && column < n;
    float sum = is_inside && first != 0 ? c[row * n + column] : 0.0f;
    for (size_t from = 0; from < depth; from += TILE) {
        a_tile[y][x] = row < rows && from + x < depth ? a[row * n + first + from + x] : 0.0f;
        b_tile[y][x] = from + y < depth && column < n ? b[(from + y) * n + column] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (size_t k = 0; k < TILE; ++k)
            sum += a_tile[y][k] * b_tile[k][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (is_inside)
        c[row * n + column] = sum;
}
