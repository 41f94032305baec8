// One step of all bodies. A position's fourth component is the body's mass.
kernel void move(global const float4 *positions, global const float4 *velocities, global float4 *new_positions,
                 global float4 *new_velocities, int bodies, float seconds)
{
    const size_t i = get_global_id(0);
    const float4 own = positions[i];
    float4 acceleration = 0;
    for (int k = 0; k < bodies; ++k) {
        const float4 way = (float4)(positions[k].xyz - own.xyz, 0);
        const float inverse = rsqrt(dot(way, way) + 0.01f);
        acceleration += positions[k].w * inverse * inverse * inverse * way;
    }
    const float4 velocity = velocities[i] + seconds * acceleration;
    new_velocities[i] = velocity;
    new_positions[i] = own + seconds * velocity;
}
