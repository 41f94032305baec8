#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ocl/handle.hpp"
#include "pipeline/descriptor.hpp"

namespace cldist {

/// Tells devices of a host apart; all zero where the platform does not say.
using DeviceUuid = std::array<unsigned char, 16>;
[[nodiscard]] DeviceUuid uuid_of(cl_device_id device);

/// Memory of a device that other processes of the host can import: NVIDIA's driver can, and CUDA's driver library, loaded at
/// run time, allocates it. Where the device's memory is the host's, shared memory stands in. Thread-safe.
class ExportedMemory {
public:
    /// Whether the device has such memory. `stand_in`: shared memory counts.
    static bool possible(cl_device_id device, bool stand_in);
    /// Throws an Error that says what is missing.
    static std::shared_ptr<ExportedMemory> create(cl_context context, cl_device_id device, cl_mem_flags flags,
                                                  std::size_t size);
    /// That of a buffer made by create_buffer(), or null.
    static std::shared_ptr<ExportedMemory> of(cl_mem buffer);
    /// A buffer whose memory lives as long as it does, and is found by of(). Throws an Error.
    static Mem create_buffer(cl_context context, cl_device_id device, cl_mem_flags flags, std::size_t size);

    ExportedMemory(Descriptor descriptor, std::size_t size, const DeviceUuid &device, Mem buffer);
    ExportedMemory(const ExportedMemory &) = delete;
    ExportedMemory &operator=(const ExportedMemory &) = delete;

    [[nodiscard]] std::uint32_t id() const { return id_; }
    /// Bytes of the memory, which may be more than asked for.
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] int descriptor() const { return descriptor_.get(); }
    [[nodiscard]] const DeviceUuid &device() const { return device_; }
    /// In the context that it was created for; null of a program's own buffer.
    [[nodiscard]] cl_mem buffer() const { return buffer_.get(); }

private:
    const std::uint32_t id_;
    const Descriptor descriptor_;
    const std::size_t size_;
    const DeviceUuid device_;
    Mem buffer_;
};

/// Such memory of another process, in the contexts of this one. Thread-safe.
class ImportedMemory {
public:
    ImportedMemory(Descriptor descriptor, std::size_t size, const DeviceUuid &device);

    /// Throws an Error if the device can't have it.
    Mem buffer(cl_context context, cl_device_id device);
    [[nodiscard]] std::size_t size() const { return size_; }
    /// Whether it is memory of that device.
    [[nodiscard]] bool is_of(cl_device_id device) const {
        return device_ != DeviceUuid{} && device_ == uuid_of(device);
    }
    /// Whether it was let go of.
    [[nodiscard]] bool closed() const;
    /// Lets go of all that buffer() was not called for since so long: it keeps the other process's memory.
    static void release_idle(double idle_seconds);
    /// Lets go of what is of that context, which nothing in flight uses.
    static void forget(cl_context context);

    /// To be called for every one that is made.
    static std::shared_ptr<ImportedMemory> keep(std::shared_ptr<ImportedMemory> imported);

private:
    static std::vector<std::shared_ptr<ImportedMemory>> all();

    mutable std::mutex mutex_;
    Descriptor descriptor_;
    const std::size_t size_;
    const DeviceUuid device_;
    std::uint64_t last_used_ns_;
    std::map<cl_context, Mem> buffers_;
};

}  // namespace cldist
