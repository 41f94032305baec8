#include "api/transfer_info.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/event_table.hpp"
#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "base/job.hpp"
#include "base/mpi_values.hpp"
#include "base/trace.hpp"
#include "ocl/query.hpp"
#include "pipeline/file_operation.hpp"

using namespace cldist;

namespace {

// The place where clGetTransferInfo writes a value.
struct Answer {
    std::size_t size;
    void *value;
    std::size_t *size_ret;

    void give(const void *data, std::size_t bytes) const {
        if (value != nullptr && size < bytes)
            throw Error(
                CL_INVALID_VALUE,
                fmt::format("param_value_size is {}, but the value has {} bytes", size, bytes));
        if (value != nullptr && bytes != 0) std::memcpy(value, data, bytes);
        if (size_ret != nullptr) *size_ret = bytes;
    }
    template <typename T>
    void give(const T &data) const {
        give(&data, sizeof data);
    }
    void give_text(const std::string &text) const { give(text.c_str(), text.size() + 1); }
};

std::vector<cl_transfer_stage> stages_of(const std::vector<Record::State> &states) {
    std::vector<cl_transfer_stage> stages;
    for (std::size_t i = 0; i < stage_count; ++i) {
        cl_transfer_stage sum{static_cast<cl_uint>(i), 0, 0, 0};
        for (const Record::State &state : states) {
            const Record::StageTimes &times = state.stages.at(i);
            if (times.blocks == 0) continue;
            sum.start = sum.blocks == 0 ? times.start : std::min<cl_ulong>(sum.start, times.start);
            sum.end = std::max<cl_ulong>(sum.end, times.end);
            sum.blocks += times.blocks;
        }
        if (sum.blocks != 0) stages.push_back(sum);
    }
    return stages;
}

// `records` belong to one command: a send, a receive, a send and a receive, a file transfer, a
// collective, or an MPI request.
void answer(cl_event event, const EventTable::Records &records, cl_transfer_info param,
            const Answer &out) {
    // A device-ordered command's event completes before the progress thread notices. A callback on
    // that thread cannot wait for it.
    if (!ProgressThread::polls_here() &&
        query<cl_command_type>(event, CL_EVENT_COMMAND_TYPE) == CL_COMMAND_NDRANGE_KERNEL &&
        execution_status(event) == CL_COMPLETE)
        for (Backoff backoff; !std::all_of(records.begin(), records.end(),
                                           [](const auto &r) { return r->ended(); });)
            backoff.rest(true);
    std::vector<Record::State> states;
    for (const auto &record : records) states.push_back(record->state());
    const Record::State &main = states.back();
    const auto failed = std::find_if(states.begin(), states.end(),
                                     [](const Record::State &s) { return !s.status.ok(); });
    const Status status = failed == states.end() ? Status{} : failed->status;
    const auto phase =
        std::max_element(states.begin(), states.end(), [](const auto &a, const auto &b) {
            return a.phase < b.phase;
        })->phase;
    const bool sends = records.front()->direction == Direction::send;
    const bool receives = records.back()->direction != Direction::send;

    switch (param) {
        // A transfer that has ended, or had nothing to do, may still wait in the queue.
        case CL_TRANSFER_STATUS:
            if (!status.ok()) return out.give<cl_int>(status.code);
            return out.give<cl_int>(phase == CL_COMPLETE ? execution_status(event) : phase);
        case CL_TRANSFER_BYTES: return out.give<std::size_t>(main.bytes);
        case CL_TRANSFER_SOURCE: return out.give<int>(receives ? main.peer : mpi_proc_null);
        case CL_TRANSFER_DESTINATION:
            return out.give<int>(sends ? states.front().peer : mpi_proc_null);
        case CL_TRANSFER_TAG: return out.give<int>(main.tag);
        case CL_TRANSFER_PATH:
            return out.give_text(main.path == Path::automatic ? "" : name_of(main.path));
        case CL_TRANSFER_BLOCK_SIZE: return out.give<std::size_t>(main.block);
        case CL_TRANSFER_DEPTH: return out.give<cl_uint>(main.depth);
        case CL_TRANSFER_MPI_ERROR: return out.give<int>(status.mpi_error);
        case CL_TRANSFER_ERRNO: return out.give<int>(status.system_error);
        case CL_TRANSFER_DIRECT_IO: return out.give<cl_bool>(main.direct_io ? CL_TRUE : CL_FALSE);
        case CL_TRANSFER_ERROR_MESSAGE: return out.give_text(status.message);
        case CL_TRANSFER_STAGES: {
            const std::vector<cl_transfer_stage> stages = stages_of(states);
            return out.give(stages.data(), stages.size() * sizeof(cl_transfer_stage));
        }
        default:
            throw Error(CL_INVALID_VALUE,
                        fmt::format("param_name 0x{:x} is not one of CL_TRANSFER_*", param));
    }
}

// Converts a time of the platform's profiling clock, which may start at another time than the
// host's clock. Callbacks run shortly after a command's end, so the smallest observed difference is
// the best estimate of the offset.
std::uint64_t host_time(std::uint64_t device_ns, std::uint64_t device_end_ns) {
    static std::mutex mutex;
    static std::int64_t smallest = INT64_MAX;
    const std::lock_guard lock(mutex);
    smallest = std::min(
        smallest, static_cast<std::int64_t>(now_ns()) - static_cast<std::int64_t>(device_end_ns));
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(device_ns) + smallest);
}

void CL_CALLBACK on_traced_event(cl_event event, cl_int status, void *data) {
    const std::unique_ptr<std::string> name(static_cast<std::string *>(data));
    cl_ulong start = 0;
    cl_ulong end = 0;
    if (status != CL_COMPLETE ||
        clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr) !=
            CL_SUCCESS ||
        clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) !=
            CL_SUCCESS)
        return;
    const auto queue = query<cl_command_queue>(event, CL_EVENT_COMMAND_QUEUE).value_or(nullptr);
    const std::uint64_t host_end = host_time(end, end);
    trace::kernel(*name, queue, host_end - (end - start), host_end);
}

}  // namespace

void cldist::get_transfer_info(cl_event event, cl_transfer_info name, std::size_t size, void *value,
                               std::size_t *size_ret) {
    const EventTable::Records records = event_table().find(event);
    if (records.empty())
        throw Error(CL_INVALID_EVENT, "no command of this library created the event");
    const bool failed = execution_status(event) < 0;
    if (const Job *const with_mpi = job; with_mpi != nullptr) with_mpi->note_failures(failed);
    if (ProgressThread *const files = find_file_progress_thread()) files->note_failures(failed);
    answer(event, records, name, {size, value, size_ret});
}

void cldist::trace_event(cl_event event, const char *name) {
    if (event == nullptr || !query<cl_context>(event, CL_EVENT_CONTEXT))
        throw Error(CL_INVALID_EVENT, "the event is not valid");
    if (name == nullptr) throw Error(CL_INVALID_VALUE, "name is NULL");
    if (!trace::enabled()) return;
    const auto queue = query<cl_command_queue>(event, CL_EVENT_COMMAND_QUEUE).value_or(nullptr);
    const auto properties =
        query<cl_command_queue_properties>(queue, CL_QUEUE_PROPERTIES).value_or(0);
    if (queue == nullptr || (properties & CL_QUEUE_PROFILING_ENABLE) == 0)
        throw Error(CL_PROFILING_INFO_NOT_AVAILABLE,
                    "the event's queue was created without CL_QUEUE_PROFILING_ENABLE");
    auto copy = std::make_unique<std::string>(name);
    check(clSetEventCallback(event, CL_COMPLETE, &on_traced_event, copy.get()),
          "clSetEventCallback");
    // The callback owns it now.
    [[maybe_unused]] const std::string *owned_by_callback = copy.release();
}
