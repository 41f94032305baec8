#include "cluster/device_choice.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "base/status.hpp"

namespace cldist::cluster {

std::vector<DeviceChoice> parse_device_choice(const std::string &text) {
    constexpr std::array<std::pair<std::string_view, cl_device_type>, 4> types = {
        {{"all", CL_DEVICE_TYPE_ALL},
         {"gpu", CL_DEVICE_TYPE_GPU},
         {"cpu", CL_DEVICE_TYPE_CPU},
         {"accelerator", CL_DEVICE_TYPE_ACCELERATOR}}};
    std::vector<DeviceChoice> choices;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) {
        const std::string name = part.substr(0, part.find(':'));
        const auto type = std::find_if(types.begin(), types.end(), [&](const auto &t) { return t.first == name; });
        std::size_t most = ~std::size_t{0};
        bool well = type != types.end();
        if (name.size() < part.size()) {
            const char *const end = part.data() + part.size();
            const auto [stop, error] = std::from_chars(part.data() + name.size() + 1, end, most);
            well = well && error == std::errc() && stop == end;
        }
        if (!well)
            throw Error(CL_INVALID_VALUE,
                        fmt::format("CLDIST_DEVICES={}: \"{}\" is none of all, gpu, cpu and accelerator, "
                                    "with a count behind a colon or without",
                                    text, part));
        choices.push_back({type->second, most});
    }
    return choices;
}

std::pair<std::size_t, std::size_t> share_of(std::size_t count, std::size_t number, std::size_t processes) {
    if (count == 0) return {0, 0};
    if (count < processes) return {number % count, number % count + 1};
    return {number * count / processes, (number + 1) * count / processes};
}

}  // namespace cldist::cluster
