float below(float x)
{
    return 0.5f * erfc(-M_SQRT1_2_F * x);
}

// What European options are worth, by Black and Scholes. An option is its stock's price, its strike price and the years
// that it runs; its value is that of a call and of a put.
kernel void black_scholes(global const float *price, global const float *strike, global const float *years,
                          global float2 *value, uint count, float rate, float volatility)
{
    const size_t i = get_global_id(0);
    if (i >= count)
        return;
    const float deviation = volatility * sqrt(years[i]);
    const float d1 = (log(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / deviation;
    const float discounted = strike[i] * exp(-rate * years[i]);
    const float call = price[i] * below(d1) - discounted * below(d1 - deviation);
    value[i] = (float2)(call, call - price[i] + discounted);
}
