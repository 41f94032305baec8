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

/// A range of a buffer, or a strided region of one, with its device. Or a range of host memory,
/// which has no device.
struct DeviceRange {
    std::shared_ptr<DeviceResources> resources;  ///< null for host memory
    Mem buffer;                                  ///< null for host memory
    std::size_t offset;                          ///< bytes
    std::size_t size;                            ///< bytes in the message
    /// Address of the range if it is host memory or is mapped while the command runs. Otherwise
    /// null.
    std::byte *mapped = nullptr;
    /// In a blocking call, the queue of the call, in which the calling thread waits. Otherwise
    /// empty, and the private queues are used.
    Queue caller_queue;
    /// The layout of the bytes from `offset` on, unless they are contiguous.
    std::optional<RectRegion> strided = std::nullopt;
    /// `mapped` is staging memory. The user's queue copies the whole range to or from it. It has
    /// space for a message header before the range.
    bool copied = false;

    [[nodiscard]] bool host_memory() const {
        return resources == nullptr || resources->host_memory();
    }
    /// Returns true if single copies should be waited for at once. On a CPU device, polling would
    /// use the cores that copy. On other devices, polling is faster.
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
    /// Takes the result of the enqueue call. The call must not be blocking, because PoCL's blocking
    /// calls wait for the whole queue if it is out-of-order. With `wait` the command has ended on
    /// return.
    void enqueued(cl_int code, const char *call, cl_command_queue queue, bool wait);
    [[nodiscard]] Outcome ended();
    [[nodiscard]] std::uint64_t start_ns() const { return start_ns_; }
    /// Keeps the device memory that the command uses.
    ScratchPool::Lease &scratch() { return scratch_; }

private:
    ScratchPool::Lease scratch_;
    Event event_;
    const char *call_ = "";
    cl_int code_ = CL_SUCCESS;
    std::uint64_t start_ns_ = 0;
};

/// Start a copy between the range and host memory, in one piece. Copies of a strided range need
/// device memory and throw an Error if there is none.
void start_read(DeviceCommand &command, const DeviceRange &range, std::size_t offset,
                std::size_t size, void *to, bool wait);
void start_write(DeviceCommand &command, const DeviceRange &range, std::size_t offset,
                 std::size_t size, const void *from, bool wait);

/// The same for a mapped range. The calling thread copies.
void read_mapped(const DeviceRange &range, std::size_t offset, std::size_t size, std::byte *to);
void write_mapped(const DeviceRange &range, std::size_t offset, std::size_t size,
                  const std::byte *from);

/// The place of the message blocks that two processes of one host exchange.
struct SharedPlace {
    std::shared_ptr<Ring> ring;  ///< null: in memory of this process
    /// On path direct: memory of the sender's device, in the context of the range.
    Mem device = {};
    std::size_t offset = 0;  ///< bytes before the first block in `device`
    /// All bytes of the message are in `device`, not only the blocks in flight.
    bool whole = false;
};

/// Creates the endpoint for `range`. On path mapped it works in place. Otherwise it copies through
/// the shared place or through staging memory.
std::unique_ptr<DeviceEndpoint> make_device_endpoint(const DeviceRange &range, Direction direction,
                                                     const Plan &plan,
                                                     std::shared_ptr<Record> record,
                                                     SharedPlace shared = {});

}  // namespace cldist
