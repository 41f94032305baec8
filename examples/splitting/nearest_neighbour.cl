#pragma OPENCL FP_CONTRACT OFF

// How far each place is from (x, y), squared.
kernel void squared_distances(global const float2 *places, global float *distances, float x, float y)
{
    const size_t i = get_global_id(0);
    const float across = places[i].x - x, up = places[i].y - y;
    distances[i] = across * across + up * up;
}
