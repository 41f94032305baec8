/// For all tests of OpenCL, with or without MPI: owning handles and reproducible bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <CL/cl.h>
#include <doctest/doctest.h>

/// Requires that an OpenCL call succeeds.
#define CL_OK(expression) REQUIRE((expression) == CL_SUCCESS)

namespace cldist_test {

using bytes = std::vector<unsigned char>;

/// Owns one reference of an OpenCL object.
template <typename Handle, cl_int(CL_API_CALL *release)(Handle)>
class owned {
public:
    owned() = default;
    explicit owned(Handle handle_in) : handle(handle_in) {}
    owned(owned &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
    owned &operator=(owned &&other) noexcept {
        std::swap(handle, other.handle);
        return *this;
    }
    ~owned() {
        if (handle != nullptr) {
            release(handle);
        }
    }

    operator Handle() const { return handle; }  // NOLINT: handles are passed to C calls
    Handle get() const { return handle; }
    /// For calls that return a handle by pointer. Releases the current object first.
    Handle *out() {
        *this = owned();
        return &handle;
    }

private:
    Handle handle = nullptr;
};

using context_handle = owned<cl_context, clReleaseContext>;
using queue_handle = owned<cl_command_queue, clReleaseCommandQueue>;
using buffer_handle = owned<cl_mem, clReleaseMemObject>;
using event_handle = owned<cl_event, clReleaseEvent>;
using kernel_handle = owned<cl_kernel, clReleaseKernel>;
using program_handle = owned<cl_program, clReleaseProgram>;
using sampler_handle = owned<cl_sampler, clReleaseSampler>;

constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = 1024 * KiB;

/// `size` bytes that depend on `seed` and the position.
inline bytes pattern(std::uint64_t seed, std::size_t size) {
    bytes data(size);
    std::uint64_t state = (seed + 1) * 0x9e3779b97f4a7c15ULL;
    for (std::size_t i = 0; i < size; i += sizeof(state)) {
        std::uint64_t word = (state += 0xbf58476d1ce4e5b9ULL);
        word = (word ^ (word >> 29)) * 0x94d049bb133111ebULL;
        word ^= word >> 32;
        std::memcpy(data.data() + i, &word, std::min(sizeof(word), size - i));
    }
    return data;
}

/// Whether all devices are CPU devices.
inline bool are_cpus(const std::vector<cl_device_id> &devices) {
    return std::all_of(devices.begin(), devices.end(), [](cl_device_id device) {
        cl_device_type type = 0;
        CL_OK(clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, nullptr));
        return (type & CL_DEVICE_TYPE_CPU) != 0;
    });
}

}  // namespace cldist_test
