/// How messages of the cluster platform get to other processes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "cluster/objects/ending.hpp"
#include "cluster/schedule/schedule.hpp"
#include "events/operation.hpp"
#include "events/progress_thread.hpp"
#include "pipeline/device_endpoint.hpp"

namespace cldist::cluster {

/// The traits of a memory by which transfers are planned. All processes know those of all memories.
struct MemoryTraits {
    bool host_memory;  ///< it is its host's
    /// Advice from its profile; only for messages if the memory is another process's. Null if there
    /// is no profile.
    std::shared_ptr<const AdviceForRoutes> advice;

    [[nodiscard]] const Advice *messages(bool same_host) const {
        if (advice == nullptr) return nullptr;
        const auto &advised = advice->at(static_cast<std::size_t>(message_route(same_host)));
        return advised ? &*advised : nullptr;
    }
};

/// The largest message that kernels carry out.
inline constexpr std::size_t most_bytes_by_kernel = std::size_t{32} << 20U;

/// The properties that both ends of a transfer know, so that they cut it alike, and the traits of
/// this end's memory.
struct Link {
    bool same_host;
    const MemoryTraits &sender;
    const MemoryTraits &here;
    bool in_process;  ///< between two memories of this process
    /// Kernels may carry out the message. If the sender's host does, it says so in a header before
    /// the bytes.
    bool by_kernels = false;

    [[nodiscard]] const Advice *advice_here() const { return here.messages(same_host); }
};

/// The times of a command that has ended: nothing if no process wants them, empty where another
/// process's device ran it.
using TimesOfCommand = std::optional<std::function<Times()>>;

/// A message about a command's end: the status and, if that is CL_COMPLETE and some process wants
/// them, the times.
struct EndMessage {
    cl_int code = CL_SUCCESS;
    Times times{};
};

/// Bytes that a command brings into the host memory of every process.
struct Result {
    /// Where, in this process; if the device is here, by the native command.
    std::byte *data = nullptr;
    std::size_t size = 0;
    /// Called when all bytes are there, before the event ends; may be empty.
    std::function<void()> arrived;
    /// Of a box, without the gaps that it has in the program's memory.
    bool packed = false;
    std::shared_ptr<const void> kept{};  ///< the memory, where it is needed
    /// The program's memory that `arrived` brings them to; else that is `data`.
    std::span<std::byte> target{};

    [[nodiscard]] std::span<std::byte> memory() const {
        return target.empty() ? std::span(data, size) : target;
    }
};

/// A message between devices of one host that a kernel may carry out.
struct KernelMessage {
    const DeviceRange &range;
    std::shared_ptr<const QueueInfo> queue;  ///< in-order, for the kernel alone
    std::span<const cl_event> wait_list;
    Direction direction;
    Message message;
    const Link &link;
};

/// Makes the operations by which messages go and come. Both ends know what a message is, and name
/// it alike. Each operation starts when what is sent is there, or when there is room for what is
/// received, and ends with its part of the message.
class Transport {
public:
    Transport() = default;
    Transport(const Transport &) = delete;
    Transport &operator=(const Transport &) = delete;
    virtual ~Transport() = default;

    /// Moves a range of a buffer from or to another process, or to itself. If the sender's wait
    /// list failed, the receiver learns it.
    virtual std::unique_ptr<Operation> transfer(DeviceRange range, Direction direction,
                                                const Message &message, const Link &link) = 0;
    /// Enqueues a kernel that carries out one end of a message. Returns its event, or null if no
    /// kernel can. Then transfer() can.
    virtual Event transfer_by_kernel(const KernelMessage & /*message*/) { return {}; }
    /// Sends a status to another process and, if it is CL_COMPLETE, the times.
    virtual std::unique_ptr<Operation> send_status(const Message &message,
                                                   TimesOfCommand times) = 0;
    /// Receives such a status, and ends `ending` with it.
    virtual std::unique_ptr<Operation> receive_status(const Message &message,
                                                      std::shared_ptr<Ending> ending) = 0;
    /// Passes a result on: it comes from `relay.from`, if that is one, and goes to each of
    /// `relay.to`. Then ends `ending`. If the bytes failed to come, so do those who wait for them.
    /// Times, if any, come last. `by_caller`: drive() will drive it.
    virtual std::unique_ptr<Operation> relay(Result result, const Relay &relay,
                                             std::shared_ptr<Ending> ending, TimesOfCommand times,
                                             bool by_caller) = 0;

    /// Whether transfer() carries bytes between two memories of this process.
    [[nodiscard]] virtual bool reaches_itself() const { return true; }

    /// Drives the operations that nobody else does.
    virtual ProgressThread &progress_thread() = 0;
    /// Drives what was made for the calling thread to its end.
    virtual void drive(Command &command) = 0;
};

}  // namespace cldist::cluster
