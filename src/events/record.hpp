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

/// The direction of the bytes. `request` is a user's event that waits for an MPI request, and
/// `event` is a user's MPI request that waits for an event. A `collective` moves bytes in both
/// directions.
enum class Direction { send, recv, to_file, from_file, request, event, collective };
[[nodiscard]] const char *name_of(Direction direction);
/// Returns true if the bytes come from the device.
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

/// Describes an event of this library. Returns an empty text for other events. Set by src/api.
extern std::atomic<std::string (*)(cl_event)> name_of_own_event;

/// The parameters and the result of one transfer, for clGetTransferInfo, the stall report and the
/// trace. The threads that work on the transfer write it, and any thread may read it.
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
        int peer;  ///< rank in the communicator; until a message has matched, the requested rank
        int tag;
        std::size_t bytes = 0;  ///< bytes moved
        std::size_t size;       ///< requested size, or the size of the matched message
        bool matched = false;   ///< a receive has its message
        Path path = Path::automatic;
        std::size_t block = 0;
        unsigned depth = 0;
        bool direct_io = false;  ///< bypasses the system's page cache
        std::array<StageTimes, stage_count> stages{};
    };

    /// `peer` is a rank of the command's communicator. `world_peer` is the same process's rank in
    /// MPI_COMM_WORLD, MPI_ANY_SOURCE, or MPI_UNDEFINED.
    Record(Direction direction, int peer, int world_peer, int tag, std::size_t size,
           const std::shared_ptr<const void> &communicator = nullptr);
    /// For a transfer to or from the file `far_end`, or for a collective command.
    Record(Direction direction, std::string far_end, std::size_t size);

    const Direction direction;
    const std::string far_end;  ///< the file, or the collective's name and communicator
    const int world_peer;
    /// The communicator of a message, in the form that src/mpi_interop uses.
    const std::weak_ptr<const void> communicator;
    const std::uint64_t id;  ///< unique in the process; also the id in the trace
    const std::uint64_t created_ns;

    /// Sets the wait list of the command, which may be null. It is kept until started().
    void waits_for(WaitList events);
    /// Begins the transfer in the trace. finished() ends it.
    void enqueued();
    void started();
    void matched(int peer, int tag, std::size_t size);
    void chosen(Path path, std::size_t block, unsigned depth);
    void uses_direct_io();
    void moved(std::size_t bytes);
    /// A block passed a stage, which took from `start_ns` until now.
    void stage_done(Stage stage, std::uint64_t start_ns);
    /// Sets the result, if it is the first error. The transfer may continue for the far end.
    void failed(const Status &status);
    void finished(const Status &status);

    [[nodiscard]] State state() const;
    [[nodiscard]] WaitList wait_list() const;
    /// The time of the last stage_done(), or of the construction.
    [[nodiscard]] std::uint64_t last_moved() const;
    /// Returns true if the phase is CL_COMPLETE.
    [[nodiscard]] bool ended() const;

private:
    [[nodiscard]] std::string far_end_for_trace(const State &state) const;

    mutable std::mutex mutex_;
    State state_;
    WaitList wait_list_;
    bool traced_ = false;  ///< the trace contains the beginning of the transfer but not the end
};

/// For example "tag 2" or "any tag".
std::string tag_name(int tag);
/// For example "send to rank 1, tag 2, 300 bytes".
std::string title(const Record &record);
/// For example "waits for its wait list: a user event that is not set". Empty after the start.
std::string hold_up(const Record &record);
/// One line with the title, the progress and the duration.
std::string describe(const Record &record, std::uint64_t now);

/// The records of all unfinished commands, and the time of their last progress. Thread-safe.
class PendingRecords {
public:
    void add(std::shared_ptr<Record> record);
    void remove(const Record &record);
    [[nodiscard]] std::vector<std::shared_ptr<Record>> list() const;

    /// Describes pending file transfers, or all other pending commands, each after a line feed.
    [[nodiscard]] std::string account(bool of_files) const;

    /// Returns the lines of a stall report if there was no progress for `stall_seconds` and this
    /// stall has not been reported. Otherwise returns no lines.
    std::vector<std::string> stalled(double stall_seconds, std::uint64_t now);

    void note_progress(std::uint64_t now) { last_progress_.store(now, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t last_progress() const {
        return last_progress_.load(std::memory_order_relaxed);
    }

private:
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::shared_ptr<Record>> records_;
    std::atomic<std::uint64_t> last_progress_{0};
    std::uint64_t reported_ = 0;  ///< last_progress_ at the last report
};

PendingRecords &pending_records();

}  // namespace cldist
