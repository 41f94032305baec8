#include "device_end.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "ceiling_points.hpp"
#include "cluster/world/device_choice.hpp"
#include "measure.hpp"
#include "ocl/query.hpp"
#include "sizes.hpp"

namespace cldist::tool {
namespace {

constexpr std::size_t chunk = 4 * mib;

// Oclgrind is a simulator that checks programs, so its times are meaningless.
bool is_checker(cl_platform_id platform) {
    return query_string(platform, CL_PLATFORM_NAME) == "Oclgrind";
}

std::vector<cl_device_id> devices_of(cl_device_type type) {
    std::vector<cl_device_id> found;
    for (const cl_platform_id platform : all_platforms()) {
        if (is_checker(platform)) continue;
        for (const cl_device_id device : cluster::devices_of(platform))
            if ((cluster::type_of(device) & type) != 0) found.push_back(device);
    }
    return found;
}

std::optional<std::size_t> number_of(const std::string &text) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
    return number;
}

// Each word of the pattern depends on its position.
std::vector<std::byte> make_pattern(std::size_t size) {
    std::vector<std::byte> pattern(size);
    for (std::size_t i = 0; i + 8 <= size; i += 8) {
        const std::uint64_t word = (i / 8 + 1) * 0x9e3779b97f4a7c15U;
        std::memcpy(pattern.data() + i, &word, 8);
    }
    return pattern;
}

std::size_t size_that_fits(cl_device_id device, std::size_t largest) {
    const auto allocation = query<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE).value_or(largest);
    const auto memory = query<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE).value_or(8 * largest);
    return std::min({largest, static_cast<std::size_t>(allocation),
                     static_cast<std::size_t>(memory / 8)}) /
           8 * 8;
}

Context make_context(cl_device_id device) {
    return create("clCreateContext", clCreateContext, nullptr, 1U, &device, nullptr, nullptr);
}

Queue make_queue(cl_context context, cl_device_id device) {
    return create("clCreateCommandQueue", clCreateCommandQueue, context, device, 0U);
}

Mem make_buffer(cl_context context, std::size_t size) {
    return create("clCreateBuffer", clCreateBuffer, context, CL_MEM_READ_WRITE, size, nullptr);
}

}  // namespace

bool names_device(const std::string &text) {
    return text == "cpu" || text == "gpu" || number_of(text).has_value();
}

cl_device_id choose_device(const std::string &wanted, int number_on_host) {
    if (const auto number = number_of(wanted)) {
        const auto all = devices_of(CL_DEVICE_TYPE_ALL);
        if (*number < all.size()) return all[*number];
        throw TuneError(
            fmt::format("this host has no OpenCL device {}; it has {} devices, numbered from 0",
                        wanted, all.size()));
    }
    std::vector<cl_device_id> devices;
    if (wanted != "cpu") devices = devices_of(CL_DEVICE_TYPE_GPU);
    if (wanted == "cpu") devices = devices_of(CL_DEVICE_TYPE_CPU);
    if (wanted.empty() && devices.empty()) devices = devices_of(CL_DEVICE_TYPE_ALL);
    if (devices.empty())
        throw TuneError(
            fmt::format("this host has no OpenCL device{}; run `cldist doctor` for details",
                        wanted.empty() ? "" : fmt::format(" of type {}", wanted)));
    return devices[static_cast<std::size_t>(number_on_host) % devices.size()];
}

void finish(cl_event event, const char *what) {
    const cl_int code = clWaitForEvents(1, &event);
    const cl_int status = execution_status(event);
    clReleaseEvent(event);
    check(status < 0 ? status : code, what);
}

double now_seconds() { return static_cast<double>(now_ns()) * 1e-9; }

DeviceEnd::DeviceEnd(cl_device_id device, std::size_t largest)
    : device_(device),
      context_(make_context(device)),
      queue_(make_queue(context_.get(), device)),
      pattern_(make_pattern(size_that_fits(device, largest))),
      out_(make_buffer(context_.get(), pattern_.size())),
      in_(make_buffer(context_.get(), pattern_.size())),
      resources_(DeviceResources::of(context_.get(), device, {})) {
    check(clEnqueueWriteBuffer(queue(), out(), CL_TRUE, 0, pattern_.size(), pattern_.data(), 0,
                               nullptr, nullptr),
          "clEnqueueWriteBuffer");
    clear_in(pattern_.size());
}

void DeviceEnd::take_way(Route route, const Way &way) const {
    AdviceForRoutes advice;
    advice.at(static_cast<std::size_t>(route)).emplace(way);
    resources_->advise(advice);
}

void DeviceEnd::clear_in(std::size_t size) const {
    const std::uint64_t nothing = 0xa5a5a5a5a5a5a5a5U;
    check(
        clEnqueueFillBuffer(queue(), in(), &nothing, sizeof nothing, 0, size, 0, nullptr, nullptr),
        "clEnqueueFillBuffer");
    check(clFinish(queue()), "clFinish");
}

bool DeviceEnd::pattern_is_in(std::size_t size) const {
    std::vector<std::byte> found(std::min(size, chunk));
    for (std::size_t at = 0; at < size; at += chunk) {
        const std::size_t bytes = std::min(chunk, size - at);
        check(clEnqueueReadBuffer(queue(), in(), CL_TRUE, at, bytes, found.data(), 0, nullptr,
                                  nullptr),
              "clEnqueueReadBuffer");
        if (std::memcmp(found.data(), pattern_.data() + at, bytes) != 0) return false;
    }
    return true;
}

std::vector<Curve::Point> DeviceEnd::copies(bool to_host) const {
    const std::size_t most = std::min(16 * mib, largest());
    const StagingPool::Lease staging = resources_->staging().lease(most);
    std::memset(staging.get(), 0, most);
    return ceiling_points(64U << 10U, most, [&](std::size_t size) {
        const double start = now_seconds();
        check(to_host ? clEnqueueReadBuffer(queue(), out(), CL_TRUE, 0, size, staging.get(), 0,
                                            nullptr, nullptr)
                      : clEnqueueWriteBuffer(queue(), in(), CL_TRUE, 0, size, staging.get(), 0,
                                             nullptr, nullptr),
              to_host ? "clEnqueueReadBuffer" : "clEnqueueWriteBuffer");
        return now_seconds() - start;
    });
}

}  // namespace cldist::tool
