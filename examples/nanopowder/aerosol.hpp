#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace nanopowder {

/// Iron particles in quenched argon, which collide by Brownian motion and stick (Smoluchowski).
///
/// Bin i contains the concentration of particles of i atoms; bin 0 is always empty. Concentrations
/// are relative to that of all iron atoms, so that the mass, the sum of i times bin i, is 1 at the
/// start. All other values are in SI units.
struct Aerosol {
    int bins;

    /// The number of bins is a multiple of this block size.
    static constexpr int block = 8;
    static constexpr double atoms = 3.6e22;       ///< iron atoms in a cubic metre
    static constexpr double time_step = 1e-7;     ///< seconds
    static constexpr double hottest = 2400.0;     ///< kelvin, in the first step
    static constexpr double cooling = 10.0;       ///< kelvin per step
    static constexpr double coldest = 300.0;      ///< kelvin
    static constexpr double pressure = 101325.0;  ///< pascal

    double temperature(int step) const;

    /// The concentrations at the start. They decrease exponentially with size; the mean size is a
    /// sixteenth of the largest.
    std::vector<float> initial() const;

    /// Computes the collisions of sizes i and j in one step, for concentrations of 1, as entry
    /// i * bins + j of `matrix`. Calls `meanwhile` after every few rows.
    void collisions(int step, float *matrix, const std::function<void()> &meanwhile) const;
};

/// The constants of the collision rate at one temperature. The rate of a pair of sizes is 1 / (1 /
/// f + 1 / c), where f is the rate in the free molecular regime, and c the rate in the continuum.
struct Gas {
    explicit Gas(double temperature);

    double diameter(int size) const;   ///< metres
    double slip(int size) const;       ///< Cunningham's correction, divided by the diameter: 1/m
    double free_molecular, continuum;  ///< factors common to all pairs, for one time step

private:
    double mean_free_path_;  // metres
};

/// The mass in all bins: 1 at the start.
double mass(const std::vector<float> &concentrations);

}  // namespace nanopowder
