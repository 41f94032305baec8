#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ocl/handle.hpp"
#include "pipeline/descriptor.hpp"

namespace cldist {

/// Identifies a device (CL_DEVICE_UUID_KHR). All zero if the platform does not provide it.
using DeviceUuid = std::array<unsigned char, 16>;
[[nodiscard]] DeviceUuid uuid_of(cl_device_id device);

class ImportedMemory;

/// Returns another descriptor of the same file, which the caller closes. Throws an Error.
[[nodiscard]] int duplicate(int descriptor);
/// Allocates host memory that other processes can map. Throws an Error.
[[nodiscard]] Descriptor allocate_shared_memory(std::size_t size);
/// Maps such memory. Throws an Error.
[[nodiscard]] void *map_shared_memory(int descriptor, std::size_t size);
/// Returns a number other than 0 that identifies memory of this process.
[[nodiscard]] std::uint32_t new_memory_id();

/// IPC-shareable device memory, which other processes of the host can import. It needs NVIDIA's
/// OpenCL driver and CUDA's driver library, which is loaded at run time and allocates the memory.
/// On CPU devices whose driver uses host memory itself, shared host memory replaces it.
/// Thread-safe.
class ExportedMemory {
public:
    /// Returns true if the device has such memory. `stand_in`: also for such CPU devices.
    static bool possible(cl_device_id device, bool stand_in);
    /// Throws an Error that describes the missing feature.
    static std::shared_ptr<ExportedMemory> create(cl_context context, cl_device_id device,
                                                  cl_mem_flags flags, std::size_t size);
    /// The memory of a buffer from create_buffer(). Null for other buffers.
    static std::shared_ptr<ExportedMemory> of(cl_mem buffer);
    /// Creates a buffer with its own IPC-shareable memory, which of() finds until the buffer is
    /// destroyed. Throws an Error.
    static Mem create_buffer(cl_context context, cl_device_id device, cl_mem_flags flags,
                             std::size_t size);

    ExportedMemory(Descriptor descriptor, std::size_t size, const DeviceUuid &device, Mem buffer);
    ExportedMemory(const ExportedMemory &) = delete;
    ExportedMemory &operator=(const ExportedMemory &) = delete;

    /// The same memory, for other contexts and devices of this process. Throws an Error.
    [[nodiscard]] std::shared_ptr<ImportedMemory> imported() const;

    [[nodiscard]] std::uint32_t id() const { return id_; }
    /// Allocated bytes, which may be more than requested.
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] int descriptor() const { return descriptor_.get(); }
    [[nodiscard]] const DeviceUuid &device() const { return device_; }
    /// The buffer from create(). Null for create_buffer(), whose caller owns the buffer.
    [[nodiscard]] cl_mem buffer() const { return buffer_.get(); }

private:
    const std::uint32_t id_;
    const Descriptor descriptor_;
    const std::size_t size_;
    const DeviceUuid device_;
    Mem buffer_;
};

/// IPC-shareable memory of another process or device, imported into contexts of this process.
/// Thread-safe.
class ImportedMemory {
public:
    ImportedMemory(Descriptor descriptor, std::size_t size, const DeviceUuid &device);

    /// Throws an Error if the device can't import the memory.
    Mem buffer(cl_context context, cl_device_id device);
    [[nodiscard]] std::size_t size() const { return size_; }
    /// Returns true if it is memory of `device`.
    [[nodiscard]] bool is_of(cl_device_id device) const {
        return device_ != DeviceUuid{} && device_ == uuid_of(device);
    }
    /// Returns true if release_idle() has released the memory.
    [[nodiscard]] bool closed() const;
    /// Returns !closed(). If so, the memory counts as used now.
    [[nodiscard]] bool use();
    /// Releases imported memory for which buffer() was not called for `idle_seconds`, because an
    /// import keeps the other process's memory allocated.
    static void release_idle(double idle_seconds);
    /// Releases the imports in `context`. No transfer in flight may use them.
    static void forget(cl_context context);

    /// Registers `imported` for release_idle() and forget(), and returns it.
    static std::shared_ptr<ImportedMemory> keep(std::shared_ptr<ImportedMemory> imported);

private:
    static std::vector<std::shared_ptr<ImportedMemory>> all();

    mutable std::mutex mutex_;
    Descriptor descriptor_;
    const std::size_t size_;
    const DeviceUuid device_;
    std::uint64_t last_used_ns_;
    std::map<std::pair<cl_context, cl_device_id>, Mem> buffers_;
};

}  // namespace cldist
