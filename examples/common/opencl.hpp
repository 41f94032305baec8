#pragma once

#include "handles.hpp"

#include <mpi.h>

#include <cstddef>
#include <string>
#include <utility>

namespace examples {

/// An OpenCL device, as a process of an MPI job picks it: the ranks of one host share its devices
/// evenly.
struct Device {
    cl_device_id id;
    bool is_gpu;
    std::string name;

    /// GPUs if there are any, else CPUs; `index` counts them over all platforms, -1 picks by the
    /// rank on this host.
    static Device choose(int index, MPI_Comm comm);
};

Context make_context(const Device &device);
/// An in-order queue with profiling.
Queue make_queue(const Context &context, const Device &device);
/// The only kernel of a program.
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
