#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace nanopowder {

/// Iron particles in argon that is quenched: they meet by Brownian motion and stick together
/// (Smoluchowski's equation).
///
/// Bin i holds the particles of i atoms; bin 0 is always empty. Concentrations are relative to that
/// of all iron atoms, so that the mass, the sum of i times bin i, is 1 at the start. SI units
/// everywhere else.
struct Aerosol {
    int bins;

    /// Bins come in blocks; their number is a multiple of this.
    static constexpr int block = 8;
    static constexpr double atoms = 3.6e22;       ///< iron atoms in a cubic metre
    static constexpr double time_step = 1e-7;     ///< seconds
    static constexpr double hottest = 2400.0;     ///< kelvin, in the first step
    static constexpr double cooling = 10.0;       ///< kelvin a step
    static constexpr double coldest = 300.0;      ///< kelvin
    static constexpr double pressure = 101325.0;  ///< pascal

    double temperature(int step) const;

    /// Sizes fall off exponentially; the mean is a sixteenth of the largest.
    std::vector<float> initial() const;

    /// Collisions of sizes i and j in one step, for concentrations of 1: entry i * bins + j of
    /// `matrix`. `meanwhile` is called now and then.
    void collisions(int step, float *matrix, const std::function<void()> &meanwhile) const;
};

/// The constants of the collision rate at one temperature: for sizes in the free molecular regime,
/// for those in the continuum, and their harmonic mean for all between them.
struct Gas {
    explicit Gas(double temperature);

    double diameter(int size) const;   ///< metres
    double slip(int size) const;       ///< Cunningham's correction, divided by the diameter: 1/m
    double free_molecular, continuum;  ///< the factors that all pairs share, for one time step

private:
    double mean_free_path_;  // metres
};

/// The mass in all bins: 1 at the start.
double mass(const std::vector<float> &concentrations);

}  // namespace nanopowder
