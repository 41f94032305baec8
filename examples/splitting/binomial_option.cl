// Prices of European call options on binomial trees; a work-group for each, with a work-item for each node of the last level, whose
// number is `steps` + 1. An option has the price of the share, the strike price, volatility and interest for one step.
kernel void binomial_option(global const float4 *options, global float *prices, int steps, local float *values)
{
    const int node = get_local_id(0);
    const float4 option = options[get_group_id(0)];
    const float up = exp(option.z), down = 1 / up, grown = exp(option.w);
    const float rising = (grown - down) / (up - down);
    values[node] = max(0.0f, option.x * exp(option.z * (2 * node - steps)) - option.y);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int level = steps; level > 0; --level) {
        float value = 0;
        if (node < level)
            value = (rising * values[node + 1] + (1 - rising) * values[node]) / grown;
        barrier(CLK_LOCAL_MEM_FENCE);
        values[node] = value;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (node == 0)
        prices[get_group_id(0)] = values[0];
}
