// NPB's EP ("embarrassingly parallel"): computes Gaussian deviates from a long sequence of random
// numbers. Each device processes a part of the sequence, and the host adds their results.

#include "npb.hpp"
#include "npb_ep_cl.hpp"

#include <array>

using namespace cluster;

namespace {

struct Class {
    char name;
    unsigned log_pairs;
    double sums[2];
};
constexpr Class classes[] = {{'S', 24, {-3.247834652034740e+3, -6.958407078382297e+3}},
                             {'W', 25, {-2.863319731645753e+3, -6.320053679109499e+3}},
                             {'A', 28, {-4.295875165629892e+3, -1.580732573678431e+4}}};

constexpr std::size_t pairs_per_item = 4096;
using Tally = std::array<double, 2 + 10>;  ///< as in the kernel

Result run_ep(const Options &options) {
    const Class &size = npb::find_class(classes, options.size);
    const std::size_t items = (std::size_t{1} << size.log_pairs) / pairs_per_item;
    const std::size_t most_devices = items / 64;
    const Devices devices(options.devices, most_devices);
    const std::size_t group = devices.group_size(64);
    const Program program =
        npb::build(devices, group, npb_ep_source,
                   fmt::format("-DPAIRS={}UL -DTALLY={}", pairs_per_item, Tally().size()));
    const Kernel kernel = make_kernel(program, "gaussian_pairs");
    std::vector<Buffer> buffers;
    for (int device = 0; device < devices.count(); ++device)
        buffers.push_back(
            devices.buffer(devices.share(items, device, group).count / group * sizeof(Tally)));

    std::vector<Tally> tallies(items / group);
    const double seconds = measure(devices, options.repeat, [&] {
        for (int device = 0; device < devices.count(); ++device) {
            const Range own = devices.share(items, device, group);
            set_arguments(kernel, buffers[std::size_t(device)], cl_ulong(own.first));
            launch(devices.queue(device), kernel, {own.count}, {group});
            flush(devices.queue(device));
        }
        for (int device = 0; device < devices.count(); ++device) {
            const Range own = devices.share(items, device, group);
            read(devices.queue(device), buffers[std::size_t(device)], CL_FALSE,
                 std::span(tallies).subspan(own.first / group, own.count / group));
        }
    });

    Tally all{};
    for (const Tally &tally : tallies)
        for (std::size_t i = 0; i < all.size(); ++i) all[i] += tally[i];
    for (std::size_t ring = 0; ring + 2 < all.size(); ++ring)
        fmt::print("{:.0f} pairs between {} and {}\n", all[2 + ring], ring, ring + 1);
    if (options.check) npb::verify("sum", std::span(all).first(2), size.sums, 1e-8);
    // Like NPB, counts one operation per random number.
    return {fmt::format("class {}", size.name), devices.count(), seconds,
            std::ldexp(2.0, int(size.log_pairs))};
}

}  // namespace

int main(int argc, char **argv) {
    return run({"npb_ep",
                "NPB's EP: Gaussian deviates, with NPB's verification. Counts random numbers as "
                "operations.",
                "S, W or A: the class, 2^24, 2^25 or 2^28 pairs",
                nullptr,
                {.size = "S"}},
               argc, argv, run_ep);
}
