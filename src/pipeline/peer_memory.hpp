#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "ocl/handle.hpp"
#include "pipeline/exported_memory.hpp"
#include "pipeline/free_ranges.hpp"

namespace cldist {

/// Memory of one device that commands of another device of this process write. Two copies through
/// it replace the driver's copy through host memory (decision 46). Thread-safe.
class PeerMemory : public std::enable_shared_from_this<PeerMemory> {
public:
    /// The largest lease, in bytes.
    static constexpr std::size_t capacity = std::size_t{64} << 20U;

    struct End {
        cl_context context;
        cl_device_id device;
    };
    /// Null if the devices can't share memory (which is logged if it fails), or if CLDIST_PATH
    /// requests a path through host memory. CPU devices share memory only with
    /// CLDIST_PATH=peer-to-peer.
    static std::shared_ptr<PeerMemory> create(const End &writer, const End &owner);
    /// Throws an Error if the devices can't share memory.
    PeerMemory(const End &writer, const End &owner);

    [[nodiscard]] cl_mem for_writer() const { return for_writer_.get(); }
    /// For commands of the device that owns the memory.
    [[nodiscard]] cl_mem for_owner() const { return memory_->buffer(); }

    /// Reserves `size` bytes until the pointer is released. Returns their offset, or null if no
    /// range is free.
    [[nodiscard]] std::shared_ptr<const std::size_t> lease(std::size_t size);

private:
    const std::shared_ptr<ExportedMemory> memory_;
    const Mem for_writer_;
    std::mutex mutex_;
    FreeRanges free_{0, capacity};
};

}  // namespace cldist
