#pragma OPENCL FP_CONTRACT OFF

// Which centre is nearest to each point; of several the first. Points and centres are rows of `features` numbers.
kernel void nearest_centres(global const float *points, global const float *centres, global int *nearest, int features,
                            int clusters)
{
    const size_t i = get_global_id(0);
    float least = INFINITY;
    int at = 0;
    for (int c = 0; c < clusters; ++c) {
        float square = 0;
        for (int f = 0; f < features; ++f) {
            const float way = points[i * features + f] - centres[c * features + f];
            square += way * way;
        }
        if (square < least) {
            least = square;
            at = c;
        }
    }
    nearest[i] = at;
}
