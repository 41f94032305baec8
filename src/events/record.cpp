#include "events/record.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/error_code.hpp"
#include "base/mpi_values.hpp"
#include "base/trace.hpp"
#include "ocl/query.hpp"

namespace cldist {
namespace {

std::uint64_t next_id() {
    static std::atomic<std::uint64_t> next{1};
    return next++;
}

constexpr std::array<const char *, stage_count> stage_names{"wait", "match", "device", "message",
                                                            "file"};

std::string peer_name(int rank) {
    return rank == mpi_any_source ? "any source" : fmt::format("rank {}", rank);
}
// Describes the command behind a pending event, as far as OpenCL reports it.
std::string name_of_event(cl_event event) {
    if (const auto name_of_own = name_of_own_event.load(); name_of_own != nullptr)
        if (std::string own = name_of_own(event); !own.empty()) return own;
    const auto type = query<cl_command_type>(event, CL_EVENT_COMMAND_TYPE).value_or(0);
    if (type == CL_COMMAND_USER) return "a user event that is not set";
    const cl_int status = execution_status(event);
    return fmt::format("{} that is {}",
                       type == CL_COMMAND_NDRANGE_KERNEL
                           ? "a kernel"
                           : fmt::format("a command of type 0x{:X}", type),
                       status == CL_RUNNING ? "running" : "not started");
}

std::string what_holds_up(const WaitList &events) {
    std::string names;
    if (events != nullptr)
        for (const Event &event : *events)
            if (execution_status(event.get()) > CL_COMPLETE)
                names += (names.empty() ? "its wait list: " : "; ") + name_of_event(event.get());
    return names.empty() ? "the commands before it in its queue" : names;
}

}  // namespace

std::atomic<std::string (*)(cl_event)> name_of_own_event = nullptr;

const char *name_of(Direction direction) {
    constexpr std::array names{"send",      "recv",        "file write",
                               "file read", "MPI request", "MPI request of an event",
                               "collective"};
    return names.at(static_cast<std::size_t>(direction));
}

Record::Record(Direction the_direction, int peer, int the_world_peer, int tag, std::size_t size,
               const std::shared_ptr<const void> &the_communicator)
    : direction(the_direction),
      world_peer(the_world_peer),
      communicator(the_communicator),
      id(next_id()),
      created_ns(now_ns()) {
    state_.peer = peer;
    state_.tag = tag;
    state_.size = size;
}

Record::Record(Direction the_direction, std::string the_far_end, std::size_t size)
    : direction(the_direction),
      far_end(std::move(the_far_end)),
      world_peer(mpi_undefined),
      id(next_id()),
      created_ns(now_ns()) {
    state_.peer = mpi_proc_null;
    state_.tag = mpi_any_tag;
    state_.size = size;
}

std::string Record::far_end_for_trace(const State &state) const {
    if (is_file(direction)) return fmt::format(R"("file":"{}")", trace::json_escaped(far_end));
    if (direction == Direction::collective)
        return fmt::format(R"("call":"{}")", trace::json_escaped(far_end));
    return fmt::format(R"("peer":{},"tag":{})", state.peer, state.tag);
}

void Record::enqueued() {
    if (!trace::enabled()) return;
    const std::lock_guard lock(mutex_);
    traced_ = true;
    trace::begin(name_of(direction), id, created_ns,
                 fmt::format(R"({},"size":{})", far_end_for_trace(state_), state_.size));
}

void Record::waits_for(WaitList events) {
    const std::lock_guard lock(mutex_);
    wait_list_ = std::move(events);
}

void Record::started() {
    // Freed without the lock, because an event may hold the last reference to its queue and
    // context.
    WaitList released;
    const std::lock_guard lock(mutex_);
    released.swap(wait_list_);
    state_.phase = CL_RUNNING;
}

void Record::matched(int peer, int tag, std::size_t size) {
    const std::lock_guard lock(mutex_);
    state_.peer = peer;
    state_.tag = tag;
    state_.size = size;
    state_.matched = true;
}

void Record::chosen(Path path, std::size_t block, unsigned depth) {
    const std::lock_guard lock(mutex_);
    state_.path = path;
    state_.block = block;
    state_.depth = depth;
}

void Record::uses_direct_io() {
    const std::lock_guard lock(mutex_);
    state_.direct_io = true;
}

void Record::moved(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    state_.bytes += bytes;
}

void Record::stage_done(Stage stage, std::uint64_t start_ns) {
    const std::uint64_t now = now_ns();
    pending_records().note_progress(now);
    {
        const std::lock_guard lock(mutex_);
        StageTimes &times = state_.stages.at(static_cast<std::size_t>(stage));
        times.start = times.blocks == 0 ? start_ns : std::min(times.start, start_ns);
        times.end = now;
        ++times.blocks;
    }
    trace::stage(stage_names.at(static_cast<std::size_t>(stage)), id, start_ns, now);
}

void Record::failed(const Status &status) {
    const std::lock_guard lock(mutex_);
    if (state_.status.ok()) state_.status = status;
}

void Record::finished(const Status &status) {
    failed(status);
    const std::uint64_t now = now_ns();
    pending_records().note_progress(now);
    const std::lock_guard lock(mutex_);
    state_.phase = CL_COMPLETE;
    if (!std::exchange(traced_, false)) return;
    trace::end(name_of(direction), id, now,
               fmt::format(R"({},"bytes":{},"path":"{}","status":{})", far_end_for_trace(state_),
                           state_.bytes, cldist::name_of(state_.path), status.code));
}

Record::State Record::state() const {
    const std::lock_guard lock(mutex_);
    return state_;
}

WaitList Record::wait_list() const {
    const std::lock_guard lock(mutex_);
    return wait_list_;
}

std::uint64_t Record::last_moved() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t last = created_ns;
    for (const StageTimes &times : state_.stages) last = std::max(last, times.end);
    return last;
}

bool Record::ended() const {
    const std::lock_guard lock(mutex_);
    return state_.phase == CL_COMPLETE;
}

std::string tag_name(int tag) {
    return tag == mpi_any_tag ? "any tag" : fmt::format("tag {}", tag);
}

std::string title(const Record &record) {
    if (record.direction == Direction::request || record.direction == Direction::event)
        return name_of(record.direction);
    const Record::State s = record.state();
    if (!record.far_end.empty())
        return fmt::format("{}, {}, {} bytes", name_of(record.direction), record.far_end, s.size);
    return fmt::format("{} {} {}, {}, {} bytes", name_of(record.direction),
                       record.direction == Direction::send ? "to" : "from", peer_name(s.peer),
                       tag_name(s.tag), s.size);
}

std::string hold_up(const Record &record) {
    if (record.state().phase != CL_QUEUED) return {};
    return "waits for " + what_holds_up(record.wait_list());
}

std::string describe(const Record &record, std::uint64_t now) {
    const Record::State s = record.state();
    const double seconds = static_cast<double>(now - record.created_ns) * 1e-9;
    if (record.direction == Direction::request || record.direction == Direction::event)
        return fmt::format("{}, pending for {:.1f} s", title(record), seconds);
    std::string progress;
    if (s.phase == CL_COMPLETE && !s.status.ok())
        progress = fmt::format("failed: {}: {}", s.status.message, code_text(s.status.code));
    else if (s.phase == CL_QUEUED)
        progress = hold_up(record);
    else if (record.direction == Direction::recv && !s.matched)
        progress = "waits for a matching send";
    else if (record.direction == Direction::collective && s.bytes == 0)
        progress = "waits for other processes";
    else
        progress = fmt::format("moved {} of {} bytes", s.bytes, s.size);
    return fmt::format("{}: {}, for {:.1f} s", title(record), progress, seconds);
}

void PendingRecords::add(std::shared_ptr<Record> record) {
    const std::lock_guard lock(mutex_);
    if (records_.empty()) note_progress(record->created_ns);
    const std::uint64_t id = record->id;
    records_.emplace_hint(records_.end(), id, std::move(record));
}

void PendingRecords::remove(const Record &record) {
    const std::lock_guard lock(mutex_);
    records_.erase(record.id);
}

std::vector<std::shared_ptr<Record>> PendingRecords::list() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Record>> result;
    result.reserve(records_.size());
    for (const auto &[id, record] : records_) result.push_back(record);
    return result;
}

std::string PendingRecords::account(bool of_files) const {
    std::string text;
    for (const auto &record : list())
        if (is_file(record->direction) == of_files) text += "\n  " + describe(*record, now_ns());
    return text;
}

std::vector<std::string> PendingRecords::stalled(double stall_seconds, std::uint64_t now) {
    const std::uint64_t last = last_progress();
    if (stall_seconds <= 0 || now < last || static_cast<double>(now - last) * 1e-9 < stall_seconds)
        return {};
    {
        const std::lock_guard lock(mutex_);
        if (records_.empty() || reported_ == last) return {};
        reported_ = last;
    }
    std::vector<std::string> lines;
    constexpr std::size_t most = 20;
    const auto records = list();
    for (const auto &record : records) {
        if (lines.size() == most) {
            lines.push_back(fmt::format("... and {} more", records.size() - most));
            break;
        }
        lines.push_back(describe(*record, now));
    }
    return lines;
}

PendingRecords &pending_records() {
    // Never destroyed, because commands may be pending at exit.
    static auto &instance = *new PendingRecords;
    return instance;
}

}  // namespace cldist
