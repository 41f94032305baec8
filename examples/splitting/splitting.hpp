#pragma once

#include "common.hpp"

#include <fmt/core.h>
#include <cmath>
#include <stdexcept>
#include <string>

/// Shared by the programs that use one device. On the cluster platform it may be the single virtual
/// device that represents all devices (CLDIST_VIEW=aggregate).
namespace splitting {

using namespace cluster;

/// The first device, in a context for this program.
class Device : public Devices {
public:
    Device() : Devices(1, 1) {}
    using Devices::buffer;
    using Devices::queue;
    cl_command_queue queue() const { return Devices::queue(0); }
    /// Enqueues a kernel. Adds the duration of the call to enqueue_seconds().
    void launch(const Kernel &kernel, std::initializer_list<std::size_t> global,
                std::initializer_list<std::size_t> local = {}) const {
        const double start = now();
        cluster::launch(queue(), kernel, global, local);
        enqueue_seconds().push_back(now() - start);
    }
    /// The seconds that each launch() of the process took to enqueue.
    static std::vector<double> &enqueue_seconds() {
        static std::vector<double> seconds;
        return seconds;
    }
    /// Creates a buffer for `count` elements.
    template <class T>
    Buffer room(std::size_t count) const {
        return buffer(count * sizeof(T));
    }
    template <class T>
    Buffer holding(const std::vector<T> &data) const {
        return buffer(data.size() * sizeof(T), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                      const_cast<T *>(data.data()));
    }
    template <class T>
    void put(const Buffer &buffer, const std::vector<T> &data) const {
        write(queue(), buffer, std::span(data));
    }
    template <class T>
    std::vector<T> get(const Buffer &buffer, std::size_t count) const {
        std::vector<T> data(count);
        read(queue(), buffer, CL_TRUE, std::span(data));
        return data;
    }
};

/// Throws at the first element that differs.
template <class T>
void expect_same(const char *what, const std::vector<T> &got, const std::vector<T> &expected) {
    const auto [at, other] =
        std::mismatch(got.begin(), got.end(), expected.begin(), expected.end());
    if (at != got.end() || other != expected.end())
        throw std::runtime_error(fmt::format("wrong result: {}[{}] is {}, expected {}", what,
                                             at - got.begin(), at != got.end() ? *at : T{},
                                             other != expected.end() ? *other : T{}));
}

/// Throws at the first element with a wrong value. It may differ by `tolerance` times the expected
/// value, or by `tolerance` if the expected value is below 1.
inline void expect_close(const char *what, const std::vector<float> &got,
                         const std::vector<double> &expected, double tolerance) {
    for (std::size_t i = 0; i < expected.size(); ++i)
        expect_near(what, i, got.at(i), expected[i],
                    tolerance * std::max(1.0, std::abs(expected[i])));
}

/// Runs a program as its main function. `body` computes, checks the result if asked to, and returns
/// the seconds of one run.
inline int run(const About &about, int argc, char **argv,
               const std::function<double(const Options &)> &body) {
    return run_program(about, argc, argv, [&](const Options &options) {
        const double seconds = body(options);
        fmt::print("{} {}: {:.6f} s, {:.1f} us to enqueue a launch, {}\n", about.name, options.size,
                   seconds, median(Device::enqueue_seconds()) * 1e6,
                   options.check ? "correct" : "not checked");
    });
}

}  // namespace splitting
