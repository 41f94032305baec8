kernel void vector_addition(global const float *a, global const float *b, global float *c, uint count)
{
    const uint i = get_global_id(0);
    if (i < count)
        c[i] = a[i] + b[i];
}
