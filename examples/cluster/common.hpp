#pragma once

#include "arguments.hpp"
#include "handles.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// Shared by the example programs that use several devices in one context.
namespace cluster {

using examples::Buffer;
using examples::check;
using examples::Context;
using examples::Kernel;
using examples::number;
using examples::Program;
using examples::Queue;
using examples::refuse;

// ---- The command line and the result ----------------------------------------------------------

struct Options {
    std::string size{};  ///< the program defines the unit
    int iterations = 0;  ///< a default of 0: the program has no such option
    int devices = 0;     ///< 0: all devices
    int repeat = 1;      ///< number of measured runs; the program prints the median
    bool check = true;   ///< a default of false: the program has no such option
};

struct About {
    const char *name, *what;
    /// The meaning of these options; nullptr if the program lacks them.
    const char *size, *iterations;
    Options defaults;
};

struct Result {
    std::string size;  ///< as printed
    int devices;
    double seconds, flop;  ///< duration and number of operations of one run
};

/// Runs a program as its main function. The exit status is 1 after an error or a wrong result, and
/// 2 after a wrong command line.
int run_program(const About &about, int argc, char **argv,
                const std::function<void(const Options &)> &body);
/// Runs a program whose `body` computes and checks, and prints its result on one line.
int run(const About &about, int argc, char **argv,
        const std::function<Result(const Options &)> &body);

// ---- Devices ----------------------------------------------------------------------------------

/// A range of `count` items from `first` on.
struct Range {
    std::size_t first, count;
    std::size_t end() const { return first + count; }
};

/// Returns the first `wanted` devices of the first platform, or all devices if `wanted` is 0.
std::vector<cl_device_id> find_devices(int wanted);

/// The first devices of the first platform in one context. Each has an in-order queue.
class Devices {
public:
    /// Takes `wanted` devices (0: all), but at most `parts`, so that each device has work.
    Devices(int wanted, std::size_t parts);

    int count() const { return int(ids_.size()); }
    cl_context context() const { return context_.get(); }
    cl_command_queue queue(int device) const { return queues_[std::size_t(device)].get(); }
    Queue make_queue(int device) const;
    void finish() const;  ///< clFinish on all queues

    /// Returns the share of `device` in `items`, in blocks of `block` items. Only the last block
    /// may be smaller.
    Range share(std::size_t items, int device, std::size_t block = 1) const;
    /// Returns the largest power of two up to `most` that all devices support as work-group size.
    std::size_t group_size(std::size_t most) const;
    /// Throws an error with the device's name if a device lacks double precision.
    void need_double_precision() const;
    /// Returns the largest value of an unsigned property over all devices.
    static cl_uint largest(int wanted, cl_device_info property);

    Program build(const char *source, const std::string &options = "") const;
    Buffer buffer(std::size_t bytes, cl_mem_flags flags = CL_MEM_READ_WRITE,
                  void *host = nullptr) const;

private:
    std::vector<cl_device_id> ids_;
    Context context_;
    std::vector<Queue> queues_;
};

Kernel make_kernel(const Program &program, const char *name);

inline std::size_t round_up(std::size_t value, std::size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/// Local memory as an argument of a kernel.
struct Local {
    std::size_t bytes;
};

/// Sets all arguments of a kernel: buffers, local memory and plain values.
template <class... Arguments>
void set_arguments(const Kernel &kernel, const Arguments &...arguments) {
    cl_uint index = 0;
    const auto set = [&]<class T>(const T &argument) {
        if constexpr (std::is_same_v<T, Local>) {
            check(clSetKernelArg(kernel.get(), index++, argument.bytes, nullptr), "clSetKernelArg");
        } else if constexpr (std::is_same_v<T, Buffer>) {
            const cl_mem buffer = argument.get();
            check(clSetKernelArg(kernel.get(), index++, sizeof buffer, &buffer), "clSetKernelArg");
        } else {
            check(clSetKernelArg(kernel.get(), index++, sizeof argument, &argument),
                  "clSetKernelArg");
        }
    };
    (set(arguments), ...);
}

/// Owns the events of several commands, for a wait list.
class Events {
public:
    Events() = default;
    Events(Events &&other) noexcept : events_(std::exchange(other.events_, {})) {}
    Events &operator=(Events &&other) noexcept {
        events_.swap(other.events_);
        return *this;
    }
    ~Events() { clear(); }

    /// For the output argument of an enqueue call.
    cl_event *put() { return &events_.emplace_back(nullptr); }
    cl_uint count() const { return cl_uint(events_.size()); }
    const cl_event *data() const { return events_.empty() ? nullptr : events_.data(); }
    void wait() const {
        if (count()) check(clWaitForEvents(count(), data()), "clWaitForEvents");
    }
    void clear() {
        for (cl_event event : events_)
            if (event) clReleaseEvent(event);
        events_.clear();
    }

private:
    std::vector<cl_event> events_;
};

/// Enqueues a kernel. If `local` is empty, the platform chooses the work-group size.
void launch(cl_command_queue queue, const Kernel &kernel, std::initializer_list<std::size_t> global,
            std::initializer_list<std::size_t> local = {}, const Events &after = {},
            cl_event *event = nullptr);
/// Enqueues a non-blocking write. `data` must exist until it is complete.
template <class T>
void write(cl_command_queue queue, const Buffer &buffer, std::span<const T> data,
           cl_event *event = nullptr) {
    check(clEnqueueWriteBuffer(queue, buffer.get(), CL_FALSE, 0, data.size_bytes(), data.data(), 0,
                               nullptr, event),
          "clEnqueueWriteBuffer");
}
/// Reads the first bytes of a buffer.
template <class T>
void read(cl_command_queue queue, const Buffer &buffer, cl_bool blocking, std::span<T> data,
          cl_event *event = nullptr) {
    check(clEnqueueReadBuffer(queue, buffer.get(), blocking, 0, data.size_bytes(), data.data(), 0,
                              nullptr, event),
          "clEnqueueReadBuffer");
}
void fill(cl_command_queue queue, const Buffer &buffer, float value, std::size_t first,
          std::size_t count);
inline void flush(cl_command_queue queue) { check(clFlush(queue), "clFlush"); }

// ---- Time -------------------------------------------------------------------------------------

/// Returns the seconds of a monotonic clock.
inline double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

double median(std::vector<double> values);

/// Returns the median seconds of `repeat` runs of `work`, after one run that warms up (it compiles
/// kernels and allocates buffers). Calls `prepare` before each run, outside the timing.
template <class Prepare, class Work>
double measure(const Devices &devices, int repeat, Prepare &&prepare, Work &&work) {
    std::vector<double> seconds;
    for (int run = 0; run <= repeat; ++run) {
        prepare();
        devices.finish();
        const double start = now();
        work();
        devices.finish();
        if (run > 0) seconds.push_back(now() - start);
    }
    return median(std::move(seconds));
}

template <class Work>
double measure(const Devices &devices, int repeat, Work &&work) {
    return measure(
        devices, repeat, [] {}, work);
}

// ---- Data and results -------------------------------------------------------------------------

/// Returns the n-th of a fixed sequence of pseudo-random numbers in [0, 1).
inline float noise(std::uint32_t n) {
    n = (n ^ (n >> 16)) * 0x7feb352du;
    n = (n ^ (n >> 15)) * 0x846ca68bu;
    return float((n ^ (n >> 16)) >> 8) * 0x1p-24f;
}

/// Throws if `got`, element `index` of `what`, differs from `expected` by more than `tolerance`.
void expect_near(const char *what, std::size_t index, double got, double expected,
                 double tolerance);

/// Compares about `most` evenly spaced elements, including the first and the last one, with
/// expected(index). Throws at the first wrong element.
template <class Expected>
void check_elements(const char *what, std::span<const float> got, std::size_t most,
                    double tolerance, Expected &&expected) {
    // An odd stride reaches all columns of a matrix whose width is a power of two.
    const std::size_t stride = got.size() <= most ? 1 : got.size() / most | 1;
    for (std::size_t n = 0; n < got.size(); n += stride)
        expect_near(what, n, got[n], expected(n), tolerance);
    expect_near(what, got.size() - 1, got.back(), expected(got.size() - 1), tolerance);
}

}  // namespace cluster
