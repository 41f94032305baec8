// Computes Black-Scholes values of European options. Each device has a part of the options. Options
// and values pass through mapped buffers.

#include "black_scholes_cl.hpp"
#include "common.hpp"

#include <array>
#include <cmath>

using namespace cluster;

namespace {

constexpr float rate = 0.02f, volatility = 0.3f;

using Values = std::vector<std::array<float, 2>>;  ///< of calls and puts

std::array<double, 2> reference(double price, double strike, double years) {
    const auto below = [](double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); };
    const double deviation = double(volatility) * std::sqrt(years);
    const double d1 =
        (std::log(price / strike) + (rate + 0.5 * volatility * volatility) * years) / deviation;
    const double discounted = strike * std::exp(-rate * years);
    const double call = price * below(d1) - discounted * below(d1 - deviation);
    return {call, call - price + discounted};
}

void *map(cl_command_queue queue, const Buffer &buffer, cl_bool blocking, cl_map_flags flags,
          std::size_t bytes, cl_event *event = nullptr) {
    cl_int status;
    void *memory = clEnqueueMapBuffer(queue, buffer.get(), blocking, flags, 0, bytes, 0, nullptr,
                                      event, &status);
    check(status, "clEnqueueMapBuffer");
    return memory;
}

void unmap(cl_command_queue queue, const Buffer &buffer, void *memory) {
    check(clEnqueueUnmapMemObject(queue, buffer.get(), memory, 0, nullptr, nullptr),
          "clEnqueueUnmapMemObject");
}

Result price(const Options &options) {
    const auto size = std::size_t(number(options.size.c_str(), 1));
    std::array<std::vector<float>, 3> inputs;  // price, strike, years
    for (std::size_t i = 0; i < size; ++i) {
        inputs[0].push_back(5.0f + 25.0f * noise(cl_uint(3 * i)));
        inputs[1].push_back(1.0f + 99.0f * noise(cl_uint(3 * i + 1)));
        inputs[2].push_back(0.25f + 9.75f * noise(cl_uint(3 * i + 2)));
    }
    Values values(size);

    const Devices devices(options.devices, size);
    const Program program = devices.build(black_scholes_source);
    struct Part {
        Range range;
        Buffer inputs[3], values;
        Kernel kernel;
        void *mapped = nullptr;
    };
    std::vector<Part> parts(std::size_t(devices.count()));
    for (int device = 0; device < devices.count(); ++device) {
        Part &part = parts[std::size_t(device)];
        part.range = devices.share(size, device);
        for (Buffer &input : part.inputs)
            input = devices.buffer(part.range.count * sizeof(float), CL_MEM_READ_ONLY);
        part.values = devices.buffer(part.range.count * sizeof values[0], CL_MEM_WRITE_ONLY);
        part.kernel = make_kernel(program, "black_scholes");
        set_arguments(part.kernel, part.inputs[0], part.inputs[1], part.inputs[2], part.values,
                      cl_uint(part.range.count), rate, volatility);
    }

    const double seconds = measure(devices, options.repeat, [&] {
        Events mapped;
        for (int device = 0; device < devices.count(); ++device) {
            Part &part = parts[std::size_t(device)];
            const cl_command_queue queue = devices.queue(device);
            for (std::size_t n = 0; n < 3; ++n) {
                // Reads nothing from the device, because the program overwrites the whole buffer.
                void *memory = map(queue, part.inputs[n], CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION,
                                   part.range.count * sizeof(float));
                std::copy_n(&inputs[n][part.range.first], part.range.count,
                            static_cast<float *>(memory));
                unmap(queue, part.inputs[n], memory);
            }
            launch(queue, part.kernel, {round_up(part.range.count, 64)});
            part.mapped = map(queue, part.values, CL_FALSE, CL_MAP_READ,
                              part.range.count * sizeof values[0], mapped.put());
            flush(queue);
        }
        mapped.wait();
        for (int device = 0; device < devices.count(); ++device) {
            const Part &part = parts[std::size_t(device)];
            std::copy_n(static_cast<const Values::value_type *>(part.mapped), part.range.count,
                        &values[part.range.first]);
            unmap(devices.queue(device), part.values, part.mapped);
        }
    });

    if (options.check)
        check_elements("value", {values.data()->data(), 2 * size}, 100'000, 1e-4,
                       [&](std::size_t n) {
                           const std::size_t i = n / 2;
                           return reference(inputs[0][i], inputs[1][i], inputs[2][i])[n % 2];
                       });
    // Counts 25 operations per option; a root, logarithm, exponential or error function is one.
    // Deviation 2, d1 8, discount 3, d2 1, the two distributions 6, call 3, put 2.
    return {fmt::format("{}", size), devices.count(), seconds, 25.0 * double(size)};
}

}  // namespace

int main(int argc, char **argv) {
    return run(
        {"black_scholes", "Values European options.", "options", nullptr, {.size = "400000"}}, argc,
        argv, price);
}
