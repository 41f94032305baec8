#include "common.hpp"

#include <getopt.h>

#include <cmath>
#include <cstdio>

namespace cluster {
namespace {

template <class T>
T device_info(cl_device_id device, cl_device_info property) {
    T value;
    check(clGetDeviceInfo(device, property, sizeof value, &value, nullptr), "clGetDeviceInfo");
    return value;
}

std::string usage(const About &about) {
    std::string text = fmt::format("usage: {} [options]\n\n{}\n\n", about.name, about.what);
    if (about.size)
        text +=
            fmt::format("  --size N          {} (default {})\n", about.size, about.defaults.size);
    if (about.iterations)
        text += fmt::format("  --iterations K    {} (default {})\n", about.iterations,
                            about.defaults.iterations);
    text += "  --devices N       the first N devices of the first platform (default: all)\n";
    text += fmt::format("  --repeat R        measured runs, the median counts (default {})\n",
                        about.defaults.repeat);
    if (about.defaults.check) text += "  --no-check        don't check the result\n";
    return text + "  --help\n";
}

/// Returns false if the arguments ask for help.
bool parse(const About &about, int argc, char **argv, Options &options) {
    static const option names[] = {{"size", required_argument, nullptr, 's'},
                                   {"iterations", required_argument, nullptr, 'i'},
                                   {"devices", required_argument, nullptr, 'd'},
                                   {"repeat", required_argument, nullptr, 'r'},
                                   {"no-check", no_argument, nullptr, 'n'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};
    opterr = 0;  // run_program prints the error
    for (int name; (name = getopt_long(argc, argv, "", names, nullptr)) != -1;) {
        if ((name == 's' && !about.size) || (name == 'i' && !about.iterations) ||
            (name == 'n' && !about.defaults.check))
            name = '?';
        switch (name) {
            case 's': options.size = optarg; break;
            case 'i': options.iterations = number(optarg, 1); break;
            case 'd': options.devices = number(optarg, 1); break;
            case 'r': options.repeat = number(optarg, 1); break;
            case 'n': options.check = false; break;
            case 'h': return false;
            default: refuse(fmt::format("unexpected argument '{}'", argv[optind - 1]));
        }
    }
    if (optind < argc) refuse(fmt::format("unexpected argument '{}'", argv[optind]));
    return true;
}

}  // namespace

int run_program(const About &about, int argc, char **argv,
                const std::function<void(const Options &)> &body) {
    try {
        Options options = about.defaults;
        if (parse(about, argc, argv, options))
            body(options);
        else
            fmt::print("{}", usage(about));
        return 0;
    } catch (const std::invalid_argument &refusal) {
        fmt::print(stderr, "{}: {}\n", about.name, refusal.what());
        return 2;
    } catch (const std::exception &error) {
        fmt::print(stderr, "{}: {}\n", about.name, error.what());
        return 1;
    }
}

int run(const About &about, int argc, char **argv,
        const std::function<Result(const Options &)> &body) {
    return run_program(about, argc, argv, [&](const Options &options) {
        const Result result = body(options);
        fmt::print("{} {}, {} device{}: {:.6f} s, {:.3f} GFLOPS, {}\n", about.name, result.size,
                   result.devices, result.devices > 1 ? "s" : "", result.seconds,
                   result.flop / result.seconds * 1e-9, options.check ? "correct" : "not checked");
    });
}

std::vector<cl_device_id> find_devices(int wanted) {
    cl_platform_id platform;
    check(clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
    cl_uint count = 0;
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count), "clGetDeviceIDs");
    if (wanted > int(count))
        refuse(fmt::format("the first platform has {} devices, not {}", count, wanted));
    std::vector<cl_device_id> devices(count);
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr),
          "clGetDeviceIDs");
    if (wanted) devices.resize(std::size_t(wanted));
    return devices;
}

Devices::Devices(int wanted, std::size_t parts) : ids_(find_devices(wanted)) {
    ids_.resize(std::min(ids_.size(), parts));
    cl_int status;
    context_ =
        Context(clCreateContext(nullptr, cl_uint(count()), ids_.data(), nullptr, nullptr, &status));
    check(status, "clCreateContext");
    for (int device = 0; device < count(); ++device) queues_.push_back(make_queue(device));
}

Queue Devices::make_queue(int device) const {
    cl_int status;
    Queue queue(clCreateCommandQueue(context(), ids_[std::size_t(device)], 0, &status));
    check(status, "clCreateCommandQueue");
    return queue;
}

void Devices::finish() const {
    // Starts the work of all queues before it waits for the first one.
    for (const Queue &queue : queues_) flush(queue.get());
    for (const Queue &queue : queues_) check(clFinish(queue.get()), "clFinish");
}

Range Devices::share(std::size_t items, int device, std::size_t block) const {
    const std::size_t blocks = (items + block - 1) / block;
    const auto begin = [&](int of) {
        return std::min(items, blocks * std::size_t(of) / ids_.size() * block);
    };
    return {begin(device), begin(device + 1) - begin(device)};
}

std::size_t Devices::group_size(std::size_t most) const {
    for (cl_device_id device : ids_)
        while (most > device_info<std::size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE)) most /= 2;
    return most;
}

void Devices::need_double_precision() const {
    for (std::size_t n = 0; n < ids_.size(); ++n)
        if (device_info<cl_device_fp_config>(ids_[n], CL_DEVICE_DOUBLE_FP_CONFIG) == 0)
            throw std::runtime_error(
                fmt::format("device {} has no double precision (cl_khr_fp64)", n));
}

cl_uint Devices::largest(int wanted, cl_device_info property) {
    cl_uint value = 0;
    for (cl_device_id device : find_devices(wanted))
        value = std::max(value, device_info<cl_uint>(device, property));
    return value;
}

Program Devices::build(const char *source, const std::string &options) const {
    cl_int status;
    Program program(clCreateProgramWithSource(context(), 1, &source, nullptr, &status));
    check(status, "clCreateProgramWithSource");
    status = clBuildProgram(program.get(), cl_uint(count()), ids_.data(), options.c_str(), nullptr,
                            nullptr);
    if (status == CL_SUCCESS) return program;
    std::string logs;
    for (cl_device_id device : ids_) {
        std::size_t size = 0;
        clGetProgramBuildInfo(program.get(), device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
        std::string log(size, '\0');
        clGetProgramBuildInfo(program.get(), device, CL_PROGRAM_BUILD_LOG, size, log.data(),
                              nullptr);
        if (log.size() > 1) logs += '\n' + log.substr(0, log.find('\0'));
    }
    throw std::runtime_error(fmt::format("clBuildProgram: OpenCL error {}{}", status, logs));
}

Buffer Devices::buffer(std::size_t bytes, cl_mem_flags flags, void *host) const {
    cl_int status;
    Buffer buffer(clCreateBuffer(context(), flags, bytes, host, &status));
    check(status, "clCreateBuffer");
    return buffer;
}

Kernel make_kernel(const Program &program, const char *name) {
    cl_int status;
    Kernel kernel(clCreateKernel(program.get(), name, &status));
    check(status, "clCreateKernel");
    return kernel;
}

void launch(cl_command_queue queue, const Kernel &kernel, std::initializer_list<std::size_t> global,
            std::initializer_list<std::size_t> local, const Events &after, cl_event *event) {
    check(clEnqueueNDRangeKernel(queue, kernel.get(), cl_uint(global.size()), nullptr,
                                 global.begin(), local.size() ? local.begin() : nullptr,
                                 after.count(), after.data(), event),
          "clEnqueueNDRangeKernel");
}

void fill(cl_command_queue queue, const Buffer &buffer, float value, std::size_t first,
          std::size_t count) {
    check(clEnqueueFillBuffer(queue, buffer.get(), &value, sizeof value, first * sizeof value,
                              count * sizeof value, 0, nullptr, nullptr),
          "clEnqueueFillBuffer");
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void expect_near(const char *what, std::size_t index, double got, double expected,
                 double tolerance) {
    if (!(std::abs(got - expected) <= tolerance))  // also rejects NaN
        throw std::runtime_error(fmt::format("wrong result: {}[{}] is {:.9g}, expected {:.9g}",
                                             what, index, got, expected));
}

}  // namespace cluster
