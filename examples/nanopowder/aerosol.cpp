#include "aerosol.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nanopowder {
namespace {

constexpr double boltzmann = 1.380649e-23;
constexpr double gas_constant = 8.314462618;
constexpr double iron_atom = 9.273e-26;  // kg
constexpr double iron_density = 7000.0;  // kg/m³, liquid
constexpr double argon_mass = 0.039948;  // kg/mol
constexpr int rows_at_once = 64;

// Sutherland's law.
double viscosity(double temperature) {
    return 2.125e-5 * std::pow(temperature / 273.15, 1.5) * (273.15 + 144.4) /
           (temperature + 144.4);
}

}  // namespace

Gas::Gas(double temperature) {
    constexpr double pi = std::numbers::pi;
    const double scale = Aerosol::atoms * Aerosol::time_step;
    mean_free_path_ = viscosity(temperature) / Aerosol::pressure *
                      std::sqrt(pi * gas_constant * temperature / (2.0 * argon_mass));
    free_molecular = scale * std::sqrt(pi * boltzmann * temperature / (2.0 * iron_atom));
    continuum = scale * 2.0 * boltzmann * temperature / (3.0 * viscosity(temperature));
}

double Gas::diameter(int size) const {
    return std::cbrt(6.0 * iron_atom * size / (std::numbers::pi * iron_density));
}

double Gas::slip(int size) const {
    const double knudsen = 2.0 * mean_free_path_ / diameter(size);
    return (1.0 + knudsen * (1.257 + 0.4 * std::exp(-1.1 / knudsen))) / diameter(size);
}

double Aerosol::temperature(int step) const { return std::max(hottest - cooling * step, coldest); }

std::vector<float> Aerosol::initial() const {
    std::vector<double> sizes(bins, 0.0);
    double total = 0.0;
    for (int i = 1; i < bins; ++i) {
        sizes[i] = std::exp(-16.0 * i / bins);
        total += i * sizes[i];
    }
    std::vector<float> concentrations(bins);
    for (int i = 0; i < bins; ++i) concentrations[i] = float(sizes[i] / total);
    return concentrations;
}

// Compiled without fused multiply-add. Divisions and roots are correctly rounded. Therefore the
// matrix has the same bits on equal hosts, however the compiler vectorises the loops.
void Aerosol::collisions(int step, float *matrix, const std::function<void()> &meanwhile) const {
    const Gas gas(temperature(step));
    const float free_molecular = float(gas.free_molecular), continuum = float(gas.continuum);
    std::vector<float> diameter(bins, 0.0f), slip(bins, 0.0f), per_atom(bins, 0.0f);
    for (int i = 1; i < bins; ++i) {
        diameter[i] = float(gas.diameter(i));
        slip[i] = float(gas.slip(i));
        per_atom[i] = 1.0f / float(i);
    }
    std::fill_n(matrix, bins, 0.0f);
    for (int i = 1; i < bins; ++i) {
        float *row = matrix + std::size_t(i) * bins;
        row[0] = 0.0f;
        for (int j = 1; j < bins; ++j) {
            const float reach = diameter[i] + diameter[j];
            const float fast =
                free_molecular * std::sqrt(per_atom[i] + per_atom[j]) * (reach * reach);
            const float slow = continuum * (slip[i] + slip[j]) * reach;
            row[j] = fast * slow / (fast + slow);
        }
        if (i % rows_at_once == 0) meanwhile();
    }
}

double mass(const std::vector<float> &concentrations) {
    double sum = 0.0;
    for (std::size_t i = 0; i < concentrations.size(); ++i) sum += double(i) * concentrations[i];
    return sum;
}

}  // namespace nanopowder
