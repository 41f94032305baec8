#pragma OPENCL FP_CONTRACT OFF

// A row of `weights` belongs to an input node, a column to a hidden one. A work-group adds up what ROWS input nodes give to all hidden
// nodes: a row of `sums`.
kernel void forward(global const float *input, global const float *weights, global float *sums, int hidden,
                    local float *products)
{
    const int x = get_local_id(0), y = get_local_id(1);
    const size_t row = get_global_id(1);
    products[y * hidden + x] = input[row] * weights[row * hidden + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int n = get_local_size(1) / 2; n > 0; n /= 2) {
        if (y < n)
            products[y * hidden + x] += products[(y + n) * hidden + x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (y == 0)
        sums[get_group_id(1) * hidden + x] = products[x];
}

kernel void adjust(global float *weights, global float *changes, global const float *input, global const float *delta,
                   int hidden, float rate, float momentum)
{
    const size_t x = get_global_id(0), y = get_global_id(1), at = y * hidden + x;
    const float change = rate * delta[x] * input[y] + momentum * changes[at];
    weights[at] += change;
    changes[at] = change;
}
