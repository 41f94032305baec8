#include "transfers.hpp"

namespace cldist_test {

std::vector<std::size_t> box::places() const {
    const std::size_t row = row_pitch != 0 ? row_pitch : region[0];
    const std::size_t slice = slice_pitch != 0 ? slice_pitch : region[1] * row;
    std::vector<std::size_t> all;
    all.reserve(size());
    for (std::size_t z = origin[2]; z < origin[2] + region[2]; ++z) {
        for (std::size_t y = origin[1]; y < origin[1] + region[1]; ++y) {
            for (std::size_t x = origin[0]; x < origin[0] + region[0]; ++x) {
                all.push_back(z * slice + y * row + x);
            }
        }
    }
    return all;
}

}  // namespace cldist_test
