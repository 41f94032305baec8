#include "cluster/world/device_choice.hpp"

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
        const auto type =
            std::ranges::find_if(types, [&](const auto &t) { return t.first == name; });
        std::size_t most = ~std::size_t{0};
        bool well = type != types.end();
        if (name.size() < part.size()) {
            const char *const end = part.data() + part.size();
            const auto [stop, error] = std::from_chars(part.data() + name.size() + 1, end, most);
            well = well && error == std::errc() && stop == end;
        }
        if (!well)
            throw Error(
                CL_INVALID_VALUE,
                fmt::format("CLDIST_DEVICES={}: \"{}\" is invalid; expected auto, all, gpu, cpu or "
                            "accelerator, of which all except auto may be followed by a colon and "
                            "a number, such as gpu:2",
                            text, part));
        choices.push_back({type->second, most});
    }
    if (choices.empty())
        throw Error(CL_INVALID_VALUE,
                    "CLDIST_DEVICES is set, but lists no devices; set it to a list such as "
                    "gpu:2,cpu, or unset it");
    return choices;
}

std::pair<std::size_t, std::size_t> share_of(std::size_t count, std::size_t number,
                                             std::size_t processes) {
    if (count == 0) return {0, 0};
    if (count < processes) return {number % count, number % count + 1};
    return {number * count / processes, (number + 1) * count / processes};
}

std::vector<cl_device_id> devices_of(cl_platform_id platform) {
    cl_uint count = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS ||
        count == 0)
        return {};
    std::vector<cl_device_id> devices(count);
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr) != CL_SUCCESS)
        return {};
    return devices;
}

cl_device_type type_of(cl_device_id device) {
    cl_device_type type = 0;
    clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, nullptr);
    return type;
}

std::vector<std::vector<cl_device_id>> choose_devices(const std::vector<cl_platform_id> &platforms,
                                                      const std::string &choice, std::size_t number,
                                                      std::size_t processes) {
    std::vector<std::vector<cl_device_id>> chosen;
    bool some_gpu = false;
    for (const cl_platform_id platform : platforms) {
        std::vector<cl_device_id> mine;
        std::vector<cl_device_id> others;
        for (const cl_device_id device : devices_of(platform))
            ((type_of(device) & CL_DEVICE_TYPE_CPU) != 0 ? mine : others).push_back(device);
        const auto [begin, end] = share_of(others.size(), number, processes);
        some_gpu = some_gpu || end > begin;
        mine.insert(mine.end(), others.begin() + static_cast<std::ptrdiff_t>(begin),
                    others.begin() + static_cast<std::ptrdiff_t>(end));
        chosen.push_back(std::move(mine));
    }
    auto choices = parse_device_choice(choice != "auto" ? choice
                                       : some_gpu       ? "gpu,accelerator"
                                                        : "cpu");
    for (auto &devices : chosen) {
        std::erase_if(devices, [&](cl_device_id device) {
            for (DeviceChoice &one : choices) {
                if ((one.type & type_of(device)) == 0 || one.most == 0) continue;
                --one.most;
                return false;
            }
            return true;
        });
    }
    std::erase_if(chosen, [](const auto &devices) { return devices.empty(); });
    return chosen;
}

}  // namespace cldist::cluster
