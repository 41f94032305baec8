// An Asian option's price: the mean of what it pays over random paths of the share's price. A work-item for each option, which has the
// price of the share, the strike price, volatility and interest for one step.
uint next_random(uint *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

kernel void asian_option(global const float4 *options, global float *prices, int paths, int steps)
{
    const size_t i = get_global_id(0);
    const float4 option = options[i];
    const float drift = option.w - option.z * option.z / 2;
    uint state = 2654435761u * ((uint)i + 1);
    float paid = 0;
    for (int path = 0; path < paths; ++path) {
        float logarithm = 0, sum = 0;
        for (int step = 0; step < steps; ++step) {
            // Twelve equally distributed numbers make nearly a normal one.
            uint random = 0;
            for (int k = 0; k < 12; ++k)
                random += next_random(&state) >> 16;
            logarithm += drift + option.z * (random * 0x1p-16f - 6);
            sum += option.x * exp(logarithm);
        }
        paid += max(0.0f, sum / steps - option.y);
    }
    prices[i] = exp(-option.w * steps) * paid / paths;
}
