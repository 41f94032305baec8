// Some rows of C = A B; A and C are these rows, B is n x n. A work-group computes a tile of C, from a row of tiles of A
// and a column of tiles of B, through local memory. What hangs over the edges counts as zero.
kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void matrix_multiplication(global const float *a, global const float *b, global float *c, uint rows, uint n)
{
    local float a_tile[TILE][TILE], b_tile[TILE][TILE];
    const size_t x = get_local_id(0), y = get_local_id(1);
    const size_t column = get_global_id(0), row = get_global_id(1);
    float sum = 0.0f;
    for (size_t first = 0; first < n; first += TILE) {
        a_tile[y][x] = row < rows && first + x < n ? a[row * n + first + x] : 0.0f;
        b_tile[y][x] = first + y < n && column < n ? b[(first + y) * n + column] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (size_t k = 0; k < TILE; ++k)
            sum += a_tile[y][k] * b_tile[k][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < rows && column < n)
        c[row * n + column] = sum;
}
