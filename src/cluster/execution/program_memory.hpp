#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "cluster/execution/enqueued.hpp"
#include "cluster/execution/host_copies.hpp"
#include "cluster/execution/host_mode.hpp"
#include "cluster/objects/memory.hpp"

namespace cldist::cluster {

/// The ranges of the program's memory that results will fill, or that commands will read.
class Landings {
public:
    /// Whether results will still arrive in that memory, or commands will still read it.
    [[nodiscard]] bool is_expected(std::span<const std::byte> memory);
    /// Adds a range. `over` returns whether its result has arrived, or it has been read. Returns
    /// true if other expected ranges overlap it.
    bool add(std::span<const std::byte> memory, std::function<bool()> over);
    /// Removes the ranges whose results have arrived, or that have been read.
    void tidy();

private:
    struct Landing {
        const std::byte *end;
        std::function<bool()> over;
    };
    std::multimap<const std::byte *, Landing> landings_;  // by address
    std::size_t longest_ = 0;                             // bytes, at least of the longest landing
    std::size_t tidy_at_ = 64;                            // landings
};

/// Copies between devices and the program's memory in this process. Under the lock.
class ProgramMemory {
public:
    /// `has_discrete`: some device of this process has its own memory.
    ProgramMemory(const HostMode &mode, bool has_discrete)
        : mode_(mode), copies_possible_(HostCopies::possible(has_discrete)) {}

    /// Returns where this process first stores the bytes that a command of the queue reads into the
    /// program's memory, which may have gaps.
    [[nodiscard]] Result result_in(const HostRegion &host, QueueObject &queue);
    /// Returns memory of the library for a copy on the queue, in a process without the program. It
    /// is page-locked if possible.
    std::shared_ptr<std::byte[]> memory_for(QueueObject &queue, std::size_t size);
    /// Keeps the memory that was brought for a command until its event `native` has ended.
    void keep_until_end(const Enqueued &command, cl_event native);
    /// Decides how a read or write of a buffer's range copies its bytes to or from the program's
    /// memory. Call it before Executor::run().
    void stage(Enqueued &command, const void *memory, std::size_t size);
    /// Enqueue the command natively, as stage() has decided. Called by Executor::run().
    cl_int read(Enqueued &command, const NativeRange &range, std::byte *to, const Waits &waits);
    cl_int write(Enqueued &command, const NativeRange &range, const std::byte *from,
                 const Waits &waits);
    /// Gives a mapping memory of the library, with guard bytes behind it. For a buffer, the memory
    /// is page-locked if possible.
    void give_memory(QueueObject &queue, MemObject &object, Mapped &mapped);

    [[nodiscard]] HostCopies &copies() { return copies_; }
    /// Whether some command may use `copies()`.
    [[nodiscard]] bool copies_possible() const { return copies_possible_; }
    /// Notes the command's use of the program's memory, which ends with `end`: a result that a lane
    /// stores or that reaches the memory after the native command, or a lane's read of the memory.
    /// Returns true if a result must wait for earlier uses.
    bool note_use(const Enqueued &command, const std::shared_ptr<Ending> &end);
    /// Whether such uses of the memory are still expected.
    [[nodiscard]] bool is_used(std::span<const std::byte> memory) {
        return landings_.is_expected(memory) || sources_.is_expected(memory);
    }

    /// Whether later commands need to know when this native command's result has arrived.
    [[nodiscard]] bool is_followed(const Enqueued &command) const {
        return command.result.size > 0 && mode_.tracks_results();
    }
    /// Whether a native command stores a result in the program's pageable memory, from which later
    /// writes may be staged.
    [[nodiscard]] bool is_filled(const Enqueued &command) const;
    /// Notes such a command, whose event is `native`.
    void note_filled(const Enqueued &command, cl_event native);
    /// Forgets the native commands that have ended, which keep their native contexts.
    void forget_filled() { filled_.tidy(); }

private:
    [[nodiscard]] bool uses_copies(QueueObject &queue) const {
        return copies_possible_ && queue.is_native() && HostCopies::wanted(queue);
    }
    static cl_int copy_in_blocks(Enqueued &command, const NativeRange &range, std::byte *memory,
                                 Direction direction, const Waits &waits);

    const HostMode &mode_;
    const bool copies_possible_;
    HostCopies copies_;
    Landings landings_;
    Landings sources_;  ///< memory that lanes will read
    Landings filled_;   ///< memory that native commands will fill (note_filled())
};

}  // namespace cldist::cluster
