#pragma once

#include "collective.hpp"
#include "npb_cl.hpp"

#include <cmath>
#include <string>

/// Shared by the programs after the NAS Parallel Benchmarks (NPB 3). Their kernels share npb.cl.
namespace npb {

using namespace cluster;

/// NPB's random numbers in (0, 1).
class Random {
public:
    explicit Random(cl_ulong seed) : x_(seed) {}
    double next() {
        x_ = x_ * 1'220'703'125 & ((cl_ulong{1} << 46) - 1);
        return double(x_) * 0x1p-46;
    }

private:
    cl_ulong x_;
};

template <class Class, std::size_t n>
const Class &find_class(const Class (&classes)[n], const std::string &name) {
    for (const Class &one : classes)
        if (name == std::string(1, one.name)) return one;
    refuse(fmt::format("unknown class '{}'; classes: S, W, A", name));
}

/// Builds kernels in double precision, together with npb.cl.
inline Program build(const Devices &devices, std::size_t group, const char *source,
                     const std::string &options = "") {
    devices.need_double_precision();
    const std::string all = std::string(npb_source) + source;
    return devices.build(all.c_str(), fmt::format("-DGROUP={} {}", group, options));
}

inline void make_kernels(const Program &program,
                         std::initializer_list<std::pair<Kernel *, const char *>> kernels) {
    for (const auto &[kernel, name] : kernels) *kernel = make_kernel(program, name);
}

/// Prints the values, NPB's values and the result. Throws if they differ by more than `relative`.
inline void verify(const char *what, std::span<const double> got, std::span<const double> expected,
                   double relative) {
    bool right = true;
    for (std::size_t i = 0; i < got.size(); ++i) {
        right = right && std::abs(got[i] - expected[i]) <= relative * std::abs(expected[i]);
        fmt::print("{}[{}] = {:.13e}, expected by NPB: {:.13e}\n", what, i, got[i], expected[i]);
    }
    fmt::print("Verification: {}\n", right ? "SUCCESSFUL" : "UNSUCCESSFUL");
    for (std::size_t i = 0; i < got.size(); ++i)
        expect_near(what, i, got[i], expected[i], relative * std::abs(expected[i]));
}

}  // namespace npb
