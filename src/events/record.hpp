#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/status.hpp"
#include "ocl/handle.hpp"

namespace cldist {

/// Which way the bytes go; or, of a command that moves none itself, what it waits for: an MPI request, in place of which
/// the user has an event, or an event, in place of which he has an MPI request; or both ways, among many.
enum class Direction { send, recv, to_file, from_file, request, event, collective };
[[nodiscard]] const char *name_of(Direction direction);
/// Whether the bytes come from the device rather than going to it.
[[nodiscard]] constexpr bool reads_device(Direction direction) {
    return direction == Direction::send || direction == Direction::to_file;
}
[[nodiscard]] constexpr bool is_file(Direction direction) {
    return direction == Direction::to_file || direction == Direction::from_file;
}

enum class Stage : cl_uint {
    wait = CL_STAGE_WAIT,
    match = CL_STAGE_MATCH,
    device = CL_STAGE_DEVICE,
    message = CL_STAGE_MESSAGE,
    file = CL_STAGE_FILE
};
inline constexpr std::size_t stage_count = 5;

/// Null if there are no events.
using WaitList = std::shared_ptr<const std::vector<Event>>;

/// What an event of the library's stands for, or an empty text. Set by src/api, which knows them.
extern std::atomic<std::string (*)(cl_event)> name_of_own_event;

/// What one transfer was asked and what became of it: the one source of clGetTransferInfo, of the stall report and of
/// the trace. Written by the threads that work on the transfer, read
/// by any.
class Record {
public:
    struct StageTimes {
        std::uint64_t start = 0;
        std::uint64_t end = 0;
        cl_uint blocks = 0;
    };
    struct State {
        cl_int phase = CL_QUEUED;  ///< CL_QUEUED, CL_RUNNING or CL_COMPLETE
        Status status;
        int peer;  ///< rank in the communicator; what was asked until a message matched
        int tag;
        std::size_t bytes = 0;  ///< moved so far
        std::size_t size;       ///< asked for, or of the message once it matched
        bool matched = false;   ///< a receive has its message
        Path path = Path::automatic;
        std::size_t block = 0;
        unsigned depth = 0;
        bool direct_io = false;  ///< past the system's page cache
        std::array<StageTimes, stage_count> stages{};
    };

    /// `peer` is a rank of the command's communicator; `world_peer` the same process in MPI_COMM_WORLD, MPI_ANY_SOURCE,
    /// or MPI_UNDEFINED.
    Record(Direction direction, int peer, int world_peer, int tag, std::size_t size,
           const std::shared_ptr<const void> &communicator = nullptr);
    /// Of a transfer to or from a file of that name, or of a collective command.
    Record(Direction direction, std::string far_end, std::size_t size);

    const Direction direction;
    const std::string far_end;  ///< the file, or the collective's name and communicator
    const int world_peer;
    const std::weak_ptr<const void> communicator;  ///< of a message, as src/mpi_interop knows it
    const std::uint64_t id;                        ///< unique in the process; the trace's id
    const std::uint64_t created_ns;

    /// The wait list of its command, kept until started(); may be null.
    void waits_for(WaitList events);
    /// Its command exists: it is in the trace from here to finished().
    void enqueued();
    void started();
    void matched(int peer, int tag, std::size_t size);
    void chosen(Path path, std::size_t block, unsigned depth);
    void uses_direct_io();
    void moved(std::size_t bytes);
    /// A block's part of a stage took from `start_ns` until now.
    void stage_done(Stage stage, std::uint64_t start_ns);
    /// The outcome is known, though the transfer still does what the far end needs.
    void failed(const Status &status);
    void finished(const Status &status);

    [[nodiscard]] State state() const;
    [[nodiscard]] WaitList wait_list() const;
    /// When a part of a stage ended last.
    [[nodiscard]] std::uint64_t last_moved() const;
    /// Whether its phase is CL_COMPLETE.
    [[nodiscard]] bool ended() const;

private:
    [[nodiscard]] std::string far_end_for_trace(const State &state) const;

    mutable std::mutex mutex_;
    State state_;
    WaitList wait_list_;
    bool traced_ = false;  ///< its beginning is in the trace, its end is not
};

/// "send to rank 1, tag 2, 300 bytes".
std::string title(const Record &record);
/// One line: the title, how far it is and for how long.
std::string describe(const Record &record, std::uint64_t now);

/// The records of all commands that have not ended, and when any of them last moved.
class PendingRecords {
public:
    void add(std::shared_ptr<Record> record);
    void remove(const Record &record);
    [[nodiscard]] std::vector<std::shared_ptr<Record>> list() const;

    /// A line each, behind a line's end, for those that are of files, or those that are not.
    [[nodiscard]] std::string account(bool of_files) const;

    /// The lines to print if nothing moved for `stall_seconds` and they were not printed since; else empty.
    std::vector<std::string> stalled(double stall_seconds, std::uint64_t now);

    void note_progress(std::uint64_t now) { last_progress_.store(now, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t last_progress() const { return last_progress_.load(std::memory_order_relaxed); }

private:
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::shared_ptr<Record>> records_;
    std::atomic<std::uint64_t> last_progress_{0};
    std::uint64_t reported_ = 0;  ///< the last_progress_ at which the last report was made
};

PendingRecords &pending_records();

}  // namespace cldist
