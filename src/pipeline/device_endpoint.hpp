#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "events/record.hpp"
#include "pipeline/device_resources.hpp"
#include "pipeline/endpoint.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/rect.hpp"
#include "pipeline/ring.hpp"
#include "pipeline/scratch.hpp"

namespace cldist {

/// A range of a buffer, or a strided region of one, and how its device is spoken to; or a range of host memory, which
/// has no device.
struct DeviceRange {
    std::shared_ptr<DeviceResources> resources;  ///< null for host memory
    Mem buffer;                                  ///< null for host memory
    std::size_t offset;                          ///< bytes
    std::size_t size;                            ///< bytes of the message
    /// Where the range lies, if it is host memory or mapped for the length of the command; else null.
    std::byte *mapped = nullptr;
    /// Set in a blocking call: the queue of the call, which the calling thread waits in; else the private queues serve.
    Queue caller_queue;
    /// How the bytes lie from `offset` on, unless they are contiguous.
    std::optional<RectRegion> strided = std::nullopt;
    /// `mapped` is staging memory that the user's queue copies the range to or from, as a whole, with room for an envelope
    /// before it.
    bool copied = false;

    [[nodiscard]] bool host_memory() const { return resources == nullptr || resources->host_memory(); }
    /// Whether single copies are waited for at once. On the processor polling would take the cores that are to copy;
    /// other devices are polled, which is faster.
    [[nodiscard]] bool waits_for_copies() const { return caller_queue && resources->processor(); }
    [[nodiscard]] cl_command_queue read_queue() const {
        return caller_queue ? caller_queue.get() : resources->read_queue();
    }
    [[nodiscard]] cl_command_queue write_queue() const {
        return caller_queue ? caller_queue.get() : resources->write_queue();
    }
};

/// One command on a device that was enqueued and is to be waited for.
class DeviceCommand {
public:
    /// The event to enqueue with.
    cl_event *begin();
    /// Takes the result of the enqueue call, which must not block: in an out-of-order queue PoCL's blocking calls wait
    /// for all of the queue. With `wait` the command has ended on return.
    void enqueued(cl_int code, const char *call, cl_command_queue queue, bool wait);
    [[nodiscard]] Outcome ended();
    [[nodiscard]] std::uint64_t start_ns() const { return start_ns_; }
    /// Keeps the device's memory that the command uses.
    ScratchPool::Lease &scratch() { return scratch_; }

private:
    ScratchPool::Lease scratch_;
    Event event_;
    const char *call_ = "";
    cl_int code_ = CL_SUCCESS;
    std::uint64_t start_ns_ = 0;
};

/// Copies between a range's bytes and host memory, in one piece. Those of a strided range need memory of the device, and
/// throw an Error if there is none.
void start_read(DeviceCommand &command, const DeviceRange &range, std::size_t offset, std::size_t size, void *to,
                bool wait);
void start_write(DeviceCommand &command, const DeviceRange &range, std::size_t offset, std::size_t size,
                 const void *from, bool wait);

/// The same by the host, for a range that is mapped.
void read_mapped(const DeviceRange &range, std::size_t offset, std::size_t size, std::byte *to);
void write_mapped(const DeviceRange &range, std::size_t offset, std::size_t size, const std::byte *from);

/// Where the blocks of a message lie that processes of one host exchange.
struct SharedPlace {
    std::shared_ptr<Ring> ring;  ///< null: in memory of this process
    Mem device = {};             ///< on path direct: memory of the sender's device, in the context of the range
    std::size_t offset = 0;      ///< bytes, of the first of them there
    bool whole = false;          ///< all bytes of the message lie there, rather than the blocks in flight
};

/// The endpoint for `range` on the plan's path: in place (the range is mapped), else by copies through what is shared, or
/// staging memory.
std::unique_ptr<DeviceEndpoint> make_device_endpoint(const DeviceRange &range, Direction direction, const Plan &plan,
                                                     std::shared_ptr<Record> record, SharedPlace shared = {});

}  // namespace cldist
