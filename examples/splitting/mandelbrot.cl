#pragma OPENCL FP_CONTRACT OFF

// After how many rounds z leaves the circle of radius 2; at most `most`.
kernel void mandelbrot(global int *rounds, int width, float left, float bottom, float step, int most)
{
    const int x = get_global_id(0), y = get_global_id(1);
    const float re = left + step * x, im = bottom + step * y;
    float a = 0, b = 0;
    int n = 0;
    while (n < most && a * a + b * b <= 4) {
        const float next = a * a - b * b + re;
        b = 2 * a * b + im;
        a = next;
        ++n;
    }
    rounds[y * width + x] = n;
}
