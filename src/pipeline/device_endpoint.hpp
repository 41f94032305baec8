#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "events/record.hpp"
#include "pipeline/device_resources.hpp"
#include "pipeline/endpoint.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/rect.hpp"
#include "pipeline/ring.hpp"
#include "pipeline/scratch.hpp"

namespace cldist {

/// A contiguous range or a strided region of a device's buffer. Or a range of host memory, which
/// has no device.
struct DeviceRange {
    std::shared_ptr<DeviceResources> resources;  ///< null for host memory
    Mem buffer;                                  ///< null for host memory
    std::size_t offset;                          ///< bytes
    std::size_t size;                            ///< bytes that are transferred
    /// Address of the range while the command runs, if it is host memory or mapped. Otherwise null.
    std::byte *mapped = nullptr;
    /// In a blocking call, the call's queue, in which the calling thread waits for its copies.
    /// Otherwise empty, and the device's private queues are used.
    Queue caller_queue;
    /// The layout of a strided region, which begins at `offset`. Empty if the range is contiguous.
    std::optional<RectRegion> strided = std::nullopt;
    /// `mapped` is staging memory to or from which the user's queue copies the whole range. It has
    /// space for a message header before the range.
    bool copied = false;

    [[nodiscard]] bool host_memory() const {
        return resources == nullptr || resources->host_memory();
    }
    [[nodiscard]] Exports exports() const;
    /// Returns true if the calling thread should block until a single copy ends. On a CPU device,
    /// polling would use the cores that copy. On other devices, polling is faster.
    [[nodiscard]] bool waits_for_copies() const { return caller_queue && resources->is_cpu(); }
    [[nodiscard]] cl_command_queue read_queue() const {
        return caller_queue ? caller_queue.get() : resources->read_queue();
    }
    [[nodiscard]] cl_command_queue write_queue() const {
        return caller_queue ? caller_queue.get() : resources->write_queue();
    }
};

/// An enqueued device command and its end.
class DeviceCommand {
public:
    /// Returns the pointer to pass as event of the enqueue call.
    cl_event *begin();
    /// Takes the result of the enqueue call, and flushes. The call must not be blocking, because a
    /// blocking call may wait for the whole out-of-order queue. With `wait`, returns when the
    /// command has ended.
    void enqueued(cl_int code, const char *call, cl_command_queue queue, bool wait);
    [[nodiscard]] Outcome ended();
    [[nodiscard]] std::uint64_t start_ns() const { return start_ns_; }
    /// The device memory that the command uses, released with the command.
    ScratchPool::Lease &scratch() { return scratch_; }

private:
    ScratchPool::Lease scratch_;
    Event event_;
    const char *call_ = "";
    cl_int code_ = CL_SUCCESS;
    std::uint64_t start_ns_ = 0;
};

/// Start a copy of a part of the range to or from host memory. For a strided range, the copy needs
/// device memory and throws an Error if there is none.
void start_read(DeviceCommand &command, const DeviceRange &range, std::size_t offset,
                std::size_t size, void *to, bool wait);
void start_write(DeviceCommand &command, const DeviceRange &range, std::size_t offset,
                 std::size_t size, const void *from, bool wait);

/// Starts a copy of the first `size` bytes of the range from a buffer of the same context.
/// `from_offset` is a multiple of 16 bytes.
void start_copy(DeviceCommand &command, const DeviceRange &range, std::size_t size, cl_mem from,
                std::size_t from_offset);

/// The same for a mapped range, on the calling thread.
void read_mapped(const DeviceRange &range, std::size_t offset, std::size_t size, std::byte *to);
void write_mapped(const DeviceRange &range, std::size_t offset, std::size_t size,
                  const std::byte *from);

/// Where the blocks of a message are if two processes of one host share them.
struct SharedPlace {
    std::shared_ptr<Ring> ring;  ///< null: the blocks are in memory of this process
    /// On path peer-to-peer: memory of the sender's device, as a buffer in the range's context.
    Mem device = {};
    std::size_t offset = 0;  ///< bytes before the first block in `device`
    /// `device` contains all bytes of the message, not only the blocks in flight.
    bool is_range = false;
};

/// Creates the endpoint for `range`, which must outlive it. On path mapped it works in place.
/// Otherwise it copies through the shared place or through staging memory.
std::unique_ptr<DeviceEndpoint> make_device_endpoint(const DeviceRange &range, Direction direction,
                                                     const Plan &plan,
                                                     std::shared_ptr<Record> record,
                                                     SharedPlace shared = {});

}  // namespace cldist
