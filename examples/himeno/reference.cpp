#include "reference.hpp"

#include <algorithm>

namespace himeno {

// Compiled without fused multiply-add, like the kernel, so that the fields have the same bits.
Reference run_reference(const Grid &grid, int iterations) {
    const std::size_t row = grid.kmax, plane = grid.plane(), points = grid.points();
    std::vector<float> a[4], b[3], c[3];
    for (int n = 0; n < 4; ++n) a[n].assign(points, a_values[n]);
    for (int n = 0; n < 3; ++n) {
        b[n].assign(points, b_values[n]);
        c[n].assign(points, c_values[n]);
    }
    std::vector<float> wrk1(points, wrk1_value), bnd(points, bnd_value), p(points);
    for (int i = 0; i < grid.imax; ++i) std::fill_n(&p[i * plane], plane, grid.initial_pressure(i));
    std::vector<float> wrk2 = p;

    double gosa = 0.0;
    for (int n = 0; n < iterations; ++n) {
        gosa = 0.0;
        for (int i = 1; i < grid.imax - 1; ++i)
            for (int j = 1; j < grid.jmax - 1; ++j)
                for (int k = 1; k < grid.kmax - 1; ++k) {
                    const std::size_t at = i * plane + j * row + k;
                    const float s0 = a[0][at] * p[at + plane] + a[1][at] * p[at + row] +
                                     a[2][at] * p[at + 1] +
                                     b[0][at] * (p[at + plane + row] - p[at + plane - row] -
                                                 p[at - plane + row] + p[at - plane - row]) +
                                     b[1][at] * (p[at + row + 1] - p[at - row + 1] -
                                                 p[at + row - 1] + p[at - row - 1]) +
                                     b[2][at] * (p[at + plane + 1] - p[at - plane + 1] -
                                                 p[at + plane - 1] + p[at - plane - 1]) +
                                     c[0][at] * p[at - plane] + c[1][at] * p[at - row] +
                                     c[2][at] * p[at - 1] + wrk1[at];
                    const float ss = (s0 * a[3][at] - p[at]) * bnd[at];
                    gosa += double(ss) * ss;
                    wrk2[at] = p[at] + omega * ss;
                }
        p.swap(wrk2);  // replaces a copy, because the surface is equal in both
    }
    return {std::move(p), gosa};
}

}  // namespace himeno
