#include "reference.hpp"

#include <cmath>

namespace nanopowder {

std::vector<double> run_reference(const Aerosol &aerosol, int steps) {
    const int bins = aerosol.bins;
    const std::vector<float> initial = aerosol.initial();
    std::vector<double> now(initial.begin(), initial.end());

    for (int step = 0; step < steps; ++step) {
        const Gas gas(aerosol.temperature(step));
        std::vector<double> diameter(bins), slip(bins);
        for (int i = 1; i < bins; ++i) {
            diameter[i] = gas.diameter(i);
            slip[i] = gas.slip(i);
        }
        std::vector<double> next = now;
        for (int i = 1; i < bins; ++i)
            for (int j = i; j < bins; ++j) {
                const double reach = diameter[i] + diameter[j];
                const double fast =
                    gas.free_molecular * std::sqrt(1.0 / i + 1.0 / j) * reach * reach;
                const double slow = gas.continuum * (slip[i] + slip[j]) * reach;
                const double met =
                    (i == j ? 0.5 : 1.0) * now[i] * now[j] / (1.0 / fast + 1.0 / slow);
                next[i] -= met;
                next[j] -= met;
                if (i + j < bins) next[i + j] += met;
            }
        now = next;
    }
    return now;
}

}  // namespace nanopowder
