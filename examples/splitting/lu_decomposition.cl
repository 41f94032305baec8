// LU decomposition in place, in blocks of BLOCK x BLOCK, of a matrix with `size` rows; `k` is the first row and column of the block on the
// diagonal that is next. Its block row and block column come after it, then all blocks behind these.
kernel __attribute__((reqd_work_group_size(BLOCK, 1, 1)))
void lu_diagonal(global float *matrix, int size, int k)
{
    local float block[BLOCK][BLOCK];
    const int row = get_local_id(0);
    for (int x = 0; x < BLOCK; ++x)
        block[row][x] = matrix[(k + row) * size + k + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < BLOCK - 1; ++i) {
        if (row > i) {
            block[row][i] /= block[i][i];
            for (int x = i + 1; x < BLOCK; ++x)
                block[row][x] -= block[row][i] * block[i][x];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int x = 0; x < BLOCK; ++x)
        matrix[(k + row) * size + k + x] = block[row][x];
}

kernel void lu_row(global float *matrix, int size, int k)
{
    const int x = k + BLOCK + get_global_id(0);
    for (int i = 1; i < BLOCK; ++i) {
        float sum = matrix[(k + i) * size + x];
        for (int j = 0; j < i; ++j)
            sum -= matrix[(k + i) * size + k + j] * matrix[(k + j) * size + x];
        matrix[(k + i) * size + x] = sum;
    }
}

kernel void lu_column(global float *matrix, int size, int k)
{
    const int y = k + BLOCK + get_global_id(0);
    for (int i = 0; i < BLOCK; ++i) {
        float sum = matrix[y * size + k + i];
        for (int j = 0; j < i; ++j)
            sum -= matrix[y * size + k + j] * matrix[(k + j) * size + k + i];
        matrix[y * size + k + i] = sum / matrix[(k + i) * size + k + i];
    }
}

kernel void lu_inner(global float *matrix, int size, int k)
{
    const int x = k + BLOCK + get_global_id(0), y = k + BLOCK + get_global_id(1);
    float sum = matrix[y * size + x];
    for (int j = 0; j < BLOCK; ++j)
        sum -= matrix[y * size + k + j] * matrix[(k + j) * size + x];
    matrix[y * size + x] = sum;
}
