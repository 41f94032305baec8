// Adds the potential of some atoms to the points of a slice of a cubic grid: its planes from `first` on. An atom is its
// place and its charge.
kernel void coulombic_potential(constant float4 *atoms, uint count, global float *potential, uint first, float spacing)
{
    const size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    const float3 point = spacing * (float3)(x, y, z + first);
    float sum = 0.0f;
    for (uint n = 0; n < count; ++n) {
        const float3 way = point - atoms[n].xyz;
        sum += atoms[n].w * rsqrt(dot(way, way));
    }
    potential[(z * get_global_size(1) + y) * get_global_size(0) + x] += sum;
}
