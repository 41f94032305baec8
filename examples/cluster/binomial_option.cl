// The value of an American put, one a work-group: the lattice of the stock's prices, in which a price goes up or down by a
// factor in each step, is walked back from its end. `lattice` holds two rows of steps + 1 values.
kernel void binomial_option(global const float *price, global const float *strike, global float *value, local float *lattice,
                            uint steps, float up, float chance_up, float chance_down)
{
    const size_t option = get_group_id(0), lane = get_local_id(0), lanes = get_local_size(0);
    const float log_up = log(up);
    local float *later = lattice, *now = lattice + steps + 1;
    for (uint node = lane; node <= steps; node += lanes)
        later[node] = fmax(strike[option] - price[option] * exp(log_up * ((float)(2 * node) - steps)), 0.0f);
    for (uint step = steps; step-- > 0;) {
        barrier(CLK_LOCAL_MEM_FENCE);
        // Either kept or exercised now. Chances are discounted.
        for (uint node = lane; node <= step; node += lanes) {
            const float kept = chance_up * later[node + 1] + chance_down * later[node];
            const float exercised = strike[option] - price[option] * exp(log_up * ((float)(2 * node) - step));
            now[node] = fmax(kept, exercised);
        }
        local float *const swapped = later;
        later = now;
        now = swapped;
    }
    if (lane == 0)
        value[option] = later[0];
}
