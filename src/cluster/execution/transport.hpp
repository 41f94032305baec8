/// The interface through which the cluster platform exchanges messages with other processes.
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

/// The properties of a device memory from which its transfers are planned. Every process knows them
/// for all memories.
struct MemoryTraits {
    bool host_memory;  ///< the device uses its host's memory
    /// The profile's advice for messages. Null if there is no profile.
    std::shared_ptr<const AdviceForRoutes> advice;

    [[nodiscard]] const Advice *messages(bool same_host) const {
        if (advice == nullptr) return nullptr;
        const auto &advised = advice->at(static_cast<std::size_t>(message_route(same_host)));
        return advised ? &*advised : nullptr;
    }
};

/// The largest message that kernels carry out.
inline constexpr std::size_t most_bytes_by_kernel = std::size_t{32} << 20U;

/// The properties from which one end plans a transfer. Both ends know all of them except `here`, so
/// they divide the bytes into the same blocks.
struct Link {
    bool same_host;
    const MemoryTraits &sender;
    const MemoryTraits &here;  ///< the memory at this end
    bool in_process;           ///< both memories belong to this process
    /// Kernels may carry out the message. Then a header precedes the bytes, which shows the
    /// receiver whether a kernel or the sender's host sends them.
    bool by_kernels = false;
    /// With a central host: process 0 sends the program's memory, which the receiver may read
    /// directly.
    bool sends_program_memory = false;

    [[nodiscard]] const Advice *advice_here() const { return here.messages(same_host); }
};

/// Returns an ended command's profiling times. No value if no process needs them; an empty function
/// if this process has no native event of the command.
using TimesOfCommand = std::optional<std::function<Times()>>;

/// The message that reports a command's end. The times are zero unless the command succeeded and
/// some process needs them.
struct EndMessage {
    cl_int code = CL_SUCCESS;
    Times times{};
};

/// Copies the blocks of a result to other processes while the native command runs. Thread-safe.
class ResultForward {
public:
    ResultForward() = default;
    ResultForward(const ResultForward &) = delete;
    ResultForward &operator=(const ResultForward &) = delete;
    virtual ~ResultForward() = default;

    /// `offset`: bytes from the start of the result.
    virtual void copy(std::size_t offset, std::byte *from, std::size_t size) = 0;
};

/// Bytes that a command delivers to every process that runs the program.
struct Result {
    /// Where this process first stores the bytes; the native command does so if the device is here.
    std::byte *data = nullptr;
    std::size_t size = 0;
    /// Called when all bytes are at `data`, before the event ends. Copies them to the program's
    /// memory; may be empty.
    std::function<void()> arrived;
    /// The bytes are a box, and `data` has no gaps between its rows and slices.
    bool packed = false;
    std::shared_ptr<const void> kept{};  ///< keeps the memory alive; may be null
    /// The program's memory that the bytes fill, with gaps. Empty if it is `data`.
    std::span<std::byte> target{};
    /// If not null, gets each block, and the transport's relay() sends only what it has not copied.
    std::shared_ptr<ResultForward> forward{};

    [[nodiscard]] std::span<std::byte> memory() const {
        return target.empty() ? std::span(data, size) : target;
    }
};

/// A message between devices of one host that a kernel may carry out.
struct KernelMessage {
    const DeviceRange &range;
    std::shared_ptr<const QueueInfo> queue;  ///< in-order, used only for this kernel
    std::span<const cl_event> wait_list;
    Direction direction;
    Message message;
    const Link &link;
};

/// Creates the operations that send and receive messages. Both ends know a message's name and
/// contents from the schedule. An operation is started when the bytes to send are available, or the
/// memory for the received bytes is free. It ends when this process's part is done.
class Transport {
public:
    Transport() = default;
    Transport(const Transport &) = delete;
    Transport &operator=(const Transport &) = delete;
    virtual ~Transport() = default;

    /// Sends a range of a buffer to another process, or to this one, or receives it. If the
    /// sender's wait list failed, the receive fails, too.
    virtual std::unique_ptr<Operation> transfer(DeviceRange range, Direction direction,
                                                const Message &message, const Link &link) = 0;
    /// Enqueues a kernel that carries out one end of a message, and returns its event. Returns null
    /// if no kernel can; then use transfer().
    virtual Event transfer_by_kernel(const KernelMessage & /*message*/) { return {}; }
    /// Sends the status with which the operation starts and, if that is CL_COMPLETE, the times.
    virtual std::unique_ptr<Operation> send_status(const Message &message,
                                                   TimesOfCommand times) = 0;
    /// Receives such a status, and ends `ending` with it.
    virtual std::unique_ptr<Operation> receive_status(const Message &message,
                                                      std::shared_ptr<Ending> ending) = 0;
    /// Prepares to copy a result of this process to the others in blocks, before relay(). Returns
    /// null if this is impossible.
    virtual std::shared_ptr<ResultForward> forward(const Relay & /*relay*/, std::size_t /*size*/) {
        return nullptr;
    }
    /// Forwards a result. Receives it from `relay.from`, if there is one, sends it to each of
    /// `relay.to`, and then ends `ending`. If the bytes do not arrive here, the receives of
    /// `relay.to` fail, too. The times, if any, follow the bytes. `by_caller`: the caller passes
    /// the operation to drive() instead of the progress thread.
    virtual std::unique_ptr<Operation> relay(Result result, const Relay &relay,
                                             std::shared_ptr<Ending> ending, TimesOfCommand times,
                                             bool by_caller) = 0;

    /// Whether transfer() carries bytes between two memories of this process.
    [[nodiscard]] virtual bool reaches_itself() const { return true; }

    /// Drives all operations except those for drive().
    virtual ProgressThread &progress_thread() = 0;
    /// Drives the command of a relay() with `by_caller` to its end on the calling thread.
    virtual void drive(Command &command) = 0;
};

}  // namespace cldist::cluster
