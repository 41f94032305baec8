#define SOFTENING 0.01f

// Computes one step of the bodies with these velocities and new positions. `position` has all
// bodies; `first` is the first of these among them. The fourth component of a position is the mass.
// A work-group copies the bodies to local memory.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void move_bodies(global const float4 *position, global float4 *velocity, global float4 *next, uint first, uint count,
                 uint bodies, float seconds)
{
    local float4 others[GROUP];
    const size_t lane = get_local_id(0), i = get_global_id(0);
    const float4 own = position[min(first + i, (size_t)bodies - 1)];
    float3 acceleration = 0.0f;
    for (size_t begin = 0; begin < bodies; begin += GROUP) {
        // Bodies without mass fill up the last group.
        others[lane] = begin + lane < bodies ? position[begin + lane] : (float4)0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (size_t k = 0; k < GROUP; ++k) {
            const float3 way = others[k].xyz - own.xyz;
            const float inverse = rsqrt(dot(way, way) + SOFTENING);
            acceleration += others[k].w * inverse * inverse * inverse * way;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i < count) {
        velocity[i].xyz += seconds * acceleration;
        next[i] = (float4)(own.xyz + seconds * velocity[i].xyz, own.w);
    }
}
