#pragma once

#include "handles.hpp"

#include <mpi.h>

#include <cstddef>
#include <string>
#include <utility>

namespace examples {

/// The OpenCL device of a process.
struct Device {
    cl_device_id id;
    bool is_gpu;
    std::string name;

    /// Selects a GPU, or a CPU if there is no GPU. `index` counts these devices over all platforms.
    /// With -1, the ranks of `comm` on this host share them evenly; the call is then collective.
    static Device choose(int index, MPI_Comm comm);
};

Context make_context(const Device &device);
/// An in-order queue with profiling.
Queue make_queue(const Context &context, const Device &device);
/// Builds a program and returns its kernel `name`.
Kernel build_kernel(const Context &context, const Device &device, const char *source,
                    const std::string &options, const char *name);
Buffer make_buffer(const Context &context, std::size_t bytes,
                   cl_mem_flags flags = CL_MEM_READ_WRITE);

/// Page-locked host memory.
class PinnedMemory {
public:
    PinnedMemory() = default;
    PinnedMemory(const Context &context, const Device &device, std::size_t bytes);
    ~PinnedMemory();
    PinnedMemory(PinnedMemory &&) noexcept = default;
    PinnedMemory &operator=(PinnedMemory &&other) noexcept {
        std::swap(queue_, other.queue_);
        std::swap(buffer_, other.buffer_);
        std::swap(data_, other.data_);
        return *this;
    }

    std::byte *data() const { return data_; }
    float *floats() const { return reinterpret_cast<float *>(data_); }

private:
    Queue queue_;
    Buffer buffer_;
    std::byte *data_ = nullptr;
};

int rank_of(MPI_Comm comm);
int size_of(MPI_Comm comm);

}  // namespace examples
