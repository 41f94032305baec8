#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace himeno {

/// A problem size of Himeno: imax x jmax x kmax points, k fastest. The surface never changes.
struct Grid {
    std::string_view name;
    int imax, jmax, kmax;

    std::size_t plane() const { return std::size_t(jmax) * kmax; }
    std::size_t points() const { return imax * plane(); }

    /// The benchmark counts 34 operations per inner point.
    double flop_per_iteration() const { return 34.0 * (imax - 2) * (jmax - 2) * (kmax - 2); }

    /// The initial pressure of all points of plane i.
    float initial_pressure(int i) const { return float(i * i) / float((imax - 1) * (imax - 1)); }
};

inline constexpr Grid grids[] = {{"XS", 32, 32, 64},
                                 {"S", 64, 64, 128},
                                 {"M", 128, 128, 256},
                                 {"L", 256, 256, 512},
                                 {"XL", 512, 512, 1024}};

inline std::optional<Grid> find_grid(std::string_view name) {
    for (const Grid &grid : grids)
        if (grid.name == name) return grid;
    return std::nullopt;
}

/// The coefficients, equal at all points.
inline constexpr float a_values[] = {1.0f, 1.0f, 1.0f, 1.0f / 6.0f};
inline constexpr float b_values[] = {0.0f, 0.0f, 0.0f};
inline constexpr float c_values[] = {1.0f, 1.0f, 1.0f};
inline constexpr float wrk1_value = 0.0f;
inline constexpr float bnd_value = 1.0f;
inline constexpr float omega = 0.8f;

}  // namespace himeno
