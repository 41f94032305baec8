#include "events/bridge.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/error_code.hpp"
#include "base/log.hpp"
#include "events/host_addresses.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist {
namespace {

// Flushes the other queues. A command that waits for an unflushed queue may wait forever.
void flush_producers(std::span<const cl_event> events, cl_command_queue own) {
    cl_command_queue last = own;
    for (const cl_event event : events) {
        const auto queue = query<cl_command_queue>(event, CL_EVENT_COMMAND_QUEUE).value_or(nullptr);
        if (queue == nullptr || queue == own || queue == last) continue;
        flush_if_needed(queue);
        last = queue;
    }
}

Event user_event(cl_context context) {
    return create("clCreateUserEvent", clCreateUserEvent, context);
}

std::atomic<std::uint64_t> last_failure_ns = 0;

// Waits until settling_time after the last failure. Call it before a command is enqueued.
void let_failures_settle(const QueueInfo &info) {
    if (!info.in_order || info.is_cpu) return;
    const auto since = std::chrono::nanoseconds(now_ns() - last_failure_ns);
    if (since < settling_time) std::this_thread::sleep_for(settling_time - since);
}

Event enqueue_marker(const QueueInfo &info, std::span<const cl_event> wait_list) {
    const WaitArguments waits(wait_list);
    Event event;
    check(clEnqueueMarkerWithWaitList(info.queue, waits.count, waits.events, event.out()),
          "clEnqueueMarkerWithWaitList");
    return event;
}

// Only events of kernels and copies fail so rarely that a read may wait for them: a read that fails
// may fail later commands of the queue, too (settling_time).
bool may_fail(cl_event event) {
    switch (query<cl_command_type>(event, CL_EVENT_COMMAND_TYPE).value_or(CL_COMMAND_USER)) {
        case CL_COMMAND_USER:
        case CL_COMMAND_MARKER:
        case CL_COMMAND_BARRIER: return true;
        default: return false;
    }
}

bool never_fails_copies(const QueueInfo &info) {
    return quirks_of(info.device).hangs_after_failed_writes;
}

// Returns true if the platform has processed the commands that wait for this one. It then drops
// its reference, and only the bridge's is left.
bool has_passed_on(cl_event command) {
    return query<cl_uint>(command, CL_EVENT_REFERENCE_COUNT).value_or(1) <= 1;
}

// For Quirks::uses_ended_events: waits until the commands that wait for these have been processed.
// This takes microseconds. The limit is for events to which the program holds references.
void await_passing_on(std::span<const Event> commands) {
    constexpr std::uint64_t limit_ns = 20'000'000;
    const std::uint64_t since_ns = now_ns();
    for (const Event &e : commands) {
        if (query<cl_command_type>(e.get(), CL_EVENT_COMMAND_TYPE).value_or(CL_COMMAND_USER) ==
            CL_COMMAND_USER)
            continue;
        if (execution_status(e.get()) > CL_COMPLETE) continue;
        while (!has_passed_on(e.get()) && now_ns() - since_ns < limit_ns) std::this_thread::yield();
    }
}

// Throws an Error if the user forced path `mapped`. Otherwise the data is copied.
void refused(const QueueInfo &info, std::span<const Mapping> mappings, cl_int code) {
    if (config().path == Path::mapped) {
        enqueue_unmap(info, nullptr, mappings);
        throw Error(code, fmt::format("CLDIST_PATH=mapped is not possible here: clEnqueueMapBuffer "
                                      "returned {}. Use CLDIST_PATH=auto",
                                      code_text(code)));
    }
    static std::atomic_flag said;
    if (!said.test_and_set())
        log_info("clEnqueueMapBuffer returned {}; the bytes are copied instead (logged once)",
                 code_text(code));
}

// Makes a mapping's memory available after `waits`. `event` stays empty if no command is necessary.
cl_int enqueue_map(const QueueInfo &info, Mapping &m, const WaitArguments &waits, Event &event) {
    cl_int code = CL_SUCCESS;
    if (m.staging == nullptr) {
        if (find_persistent(info, {&m, 1})) return CL_SUCCESS;
        m.memory = clEnqueueMapBuffer(info.queue, m.buffer, CL_FALSE, m.flags, m.offset, m.size,
                                      waits.count, waits.events, event.out(), &code);
        if (info.addresses_persist && code == CL_SUCCESS)
            host_addresses().learn(m.buffer, static_cast<std::byte *>(m.memory) - m.offset);
        return code;
    }
    m.memory = m.staging.get();
    if (m.flags == CL_MAP_READ)
        code = clEnqueueReadBuffer(info.queue, m.buffer, CL_FALSE, m.offset, m.size, m.memory,
                                   waits.count, waits.events, event.out());
    return code;
}

// Returns an event that completes when the earlier commands of the queue have ended, for commands
// that copy back current bytes if they fail. Their start event does not show this if the wait list
// fails. Null for other commands.
Event commands_before(const QueueInfo &info, std::span<const cl_event> wait_list,
                      std::span<const Mapping> mappings) {
    const bool copies_back = never_fails_copies(info) &&
                             std::any_of(mappings.begin(), mappings.end(), [](const Mapping &m) {
                                 return m.staging != nullptr && m.flags == CL_MAP_WRITE;
                             });
    return copies_back && info.in_order && !wait_list.empty() ? enqueue_marker(info, {}) : Event();
}

Event enqueue_barrier(const QueueInfo &info, cl_event done) {
    Event event;
    check(clEnqueueBarrierWithWaitList(info.queue, 1, &done, event.out()),
          "clEnqueueBarrierWithWaitList");
    return event;
}

// Like enqueue_start(), but does not flush. If there are no mappings, `first` may replace the
// internal command.
Start begin(const QueueInfo &info, std::span<const cl_event> wait_list, std::span<Mapping> mappings,
            const EnqueueFirst &first = {}) {
    let_failures_settle(info);
    Start start;
    start.target = info.start_target;
    if (!wait_list.empty()) {
        std::vector<Event> events;
        for (const cl_event event : wait_list) events.push_back(Event::share(event));
        start.wait_list = std::make_shared<const std::vector<Event>>(std::move(events));
    }
    // Instead of an event that failed earlier, the command waits for a user event that fails after
    // the command is enqueued (Quirks::loses_commands_behind_failures).
    Event failing = first_failure(wait_list) < 0 ? user_event(info.context) : Event();
    cl_event last = failing.get();
    if (failing) wait_list = {&last, 1};
    std::span<const cl_event> waits = wait_list;
    for (Mapping &m : mappings) {
        Event event;
        if (const cl_int code = enqueue_map(info, m, waits, event); code != CL_SUCCESS) {
            m.memory = nullptr;
            // If a copy is refused, the progress thread repeats it, and the repeated call reports
            // the error.
            if (m.staging == nullptr) refused(info, mappings, code);
            continue;
        }
        if (!event) continue;
        last = event.get();
        waits = {&last, 1};
        start.events.push_back(std::move(event));
    }
    if (start.events.empty()) {
        auto [event, running] =
            first ? first(wait_list) : std::pair(enqueue_stand_in(info, wait_list), nullptr);
        start.events.push_back(std::move(event));
        start.running = running;
    }
    // On a CPU device the second mapping moves nothing, but it may be queued behind a kernel.
    start.gate = info.is_cpu ? start.events.front().get() : start.events.back().get();
    start.last = start.events.back().get();
    flush_producers(wait_list, info.queue);
    if (failing) {
        check(flush_if_needed(info.queue), "clFlush");
        set_user_event(failing.get(), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        start.events.insert(start.events.begin(), std::move(failing));
    } else {
        start.failed = first_failure(wait_list) < 0;
    }
    return start;
}

}  // namespace

cl_int enqueue_marker_behind(const QueueInfo &info, const WaitArguments &waits, cl_event *event) {
    if (!info.in_order && info.placeholder != nullptr)
        return clEnqueueMigrateMemObjects(info.queue, 1, &info.placeholder, 0, waits.count,
                                          waits.events, event);
    if (info.in_order || waits.count != 0)
        return clEnqueueMarkerWithWaitList(info.queue, waits.count, waits.events, event);
    // A marker without wait list would wait for all earlier commands. A marker that waits for a
    // complete event waits, like any command, only for earlier barriers.
    const Event complete = user_event(info.context);
    clSetUserEventStatus(complete.get(), CL_COMPLETE);
    const cl_event instead = complete.get();
    return clEnqueueMarkerWithWaitList(info.queue, 1, &instead, event);
}

Event enqueue_stand_in(const QueueInfo &info, std::span<const cl_event> wait_list) {
    const WaitArguments waits(wait_list);
    if (info.start_source != nullptr &&
        std::none_of(wait_list.begin(), wait_list.end(), may_fail)) {
        Event event;
        check(clEnqueueReadBuffer(info.queue, info.start_source, CL_FALSE, 0, sizeof(cl_uint),
                                  info.start_target.get(), waits.count, waits.events, event.out()),
              "clEnqueueReadBuffer");
        return event;
    }
    Event event;
    check(enqueue_marker_behind(info, waits, event.out()), "clEnqueueMarkerWithWaitList");
    return event;
}

FailureLock lock_failures() {
    // Recursive, because callbacks may run on the calling thread.
    static auto &mutex = *new std::recursive_mutex;
    return FailureLock(mutex);
}

FailureLock lock_failures(const QueueInfo &info) {
    // With `abort`, the first failure ends the job.
    const bool needed =
        config().on_error != OnError::abort && quirks_of(info.device).uses_ended_events;
    return needed ? lock_failures() : FailureLock();
}

void set_user_event(cl_event event, cl_int status) {
    const auto held = lock_failures();
    clSetUserEventStatus(event, status);
    if (status < 0) last_failure_ns = now_ns();
}

bool find_persistent(const QueueInfo &info, std::span<Mapping> mappings) {
    if (!info.addresses_persist) return false;
    for (Mapping &m : mappings) {
        if (m.staging != nullptr) return false;
        std::byte *const address = host_addresses().find(m.buffer);
        if (address == nullptr) return false;
        m.memory = address + m.offset;
        m.persistent = true;
    }
    return true;
}

Start enqueue_start(const QueueInfo &info, std::span<const cl_event> wait_list,
                    std::span<Mapping> mappings) {
    const FailureLock held = lock_failures(info);
    Start start = begin(info, wait_list, mappings);
    check(flush_if_needed(info.queue), "clFlush");
    return start;
}

std::vector<Event> enqueue_unmap(const QueueInfo &info, cl_event after,
                                 std::span<const Mapping> mappings) {
    std::vector<Event> events;
    for (const Mapping &m : mappings) {
        if (m.memory == nullptr || m.persistent) continue;
        if (m.staging != nullptr && m.flags == CL_MAP_READ) continue;
        Event event;
        const cl_uint count = after != nullptr ? 1 : 0;
        const cl_event *const waits = after != nullptr ? &after : nullptr;
        if (m.staging == nullptr)
            check(
                clEnqueueUnmapMemObject(info.queue, m.buffer, m.memory, count, waits, event.out()),
                "clEnqueueUnmapMemObject");
        else
            check(clEnqueueWriteBuffer(info.queue, m.buffer, CL_FALSE, m.offset, m.size, m.memory,
                                       count, waits, event.out()),
                  "clEnqueueWriteBuffer");
        after = event.get();
        events.push_back(std::move(event));
    }
    if (!events.empty()) check(flush_if_needed(info.queue), "clFlush");
    return events;
}

Bridge::Bridge(const QueueInfo &info, std::span<const cl_event> wait_list,
               std::span<Mapping> mappings, const EnqueueFirst &first, const EnqueueLast &last)
    : device_(Device::share(info.device)),
      context_(Context::share(info.context)),
      queue_(Queue::share(info.queue)),
      before_(commands_before(info, wait_list, mappings)),
      start_(begin(info, wait_list, mappings, first)),
      done_(user_event(info.context)) {
    const cl_event done = done_.get();
    if (last) {
        end_.push_back(last(done));
        check(flush_if_needed(info.queue), "clFlush");
        return;
    }
    std::vector<Mapping> undone;
    for (const Mapping &m : mappings) {
        if (m.staging != nullptr) staging_.push_back(m.staging);
        const bool moves_nothing =
            start_.failed && m.staging != nullptr && never_fails_copies(info);
        if (!moves_nothing) undone.push_back(m);
    }
    end_ = enqueue_unmap(info, done, undone);
    for (const Mapping &m : undone) {
        if (m.staging == nullptr || m.flags != CL_MAP_WRITE) continue;
        copies_back_ = true;
        if (never_fails_copies(info) && m.memory != nullptr)
            written_back_.push_back({Mem::share(m.buffer), m.offset, m.size, m.memory});
    }
    if (!end_.empty() && written_back_.empty()) return;
    std::vector<cl_event> ends{done};
    if (!written_back_.empty()) {
        result_ = user_event(info.context);
        ends = {end_.back().get(), result_.get()};
    }
    end_.push_back(info.in_order ? enqueue_barrier(info, ends.back())
                                 : enqueue_stand_in(info, ends));
    check(flush_if_needed(info.queue), "clFlush");
}

Bridge::Bridge(cl_context context, Start start)
    : context_(Context::share(context)), start_(std::move(start)), done_(user_event(context)) {
    end_.push_back(Event::share(done_.get()));
}

Bridge::Bridge(cl_event start) {
    start_.events.push_back(Event::share(start));
    start_.gate = start_.last = start;
}

void Bridge::end_now() {
    complete(CL_TRANSFER_ABANDONED);
    if (failure_ == CL_SUCCESS) return;
    if (!copying_) copy_back();
    set_user_event(result_.get(), std::exchange(failure_, CL_SUCCESS));
}

void Bridge::complete(cl_int code) {
    if (completed_ || !done_) return;
    completed_ = true;
    if (code < 0 && device_ && quirks_of(device_.get()).uses_ended_events)
        await_passing_on(start_.events);
    if (!result_) {
        set_user_event(done_.get(), code);
    } else if (code >= 0) {
        clSetUserEventStatus(done_.get(), CL_COMPLETE);
        set_user_event(result_.get(), code);
    } else {
        failure_ = code;
    }
}

bool Bridge::ended() {
    if (failure_ == CL_SUCCESS) return true;
    const auto pending = [](const Event &e) { return execution_status(e.get()) > CL_COMPLETE; };
    if (before_ && pending(before_)) return false;
    if (!copying_) copy_back();
    if (std::any_of(end_.begin(), std::prev(end_.end()), pending)) return false;
    set_user_event(result_.get(), std::exchange(failure_, CL_SUCCESS));
    return true;
}

void Bridge::copy_back() {
    copying_ = true;
    set_user_event(done_.get(), read_what_is_written_back() ? CL_COMPLETE : failure_);
}

// Reads the current bytes of the buffers into the memory that is copied back. Blocks, on a separate
// queue. Returns true on success.
bool Bridge::read_what_is_written_back() const {
    cl_int code = CL_SUCCESS;
    const Queue queue = Queue::adopt(clCreateCommandQueue(context_.get(), device_.get(), 0, &code));
    return code == CL_SUCCESS &&
           std::all_of(written_back_.begin(), written_back_.end(), [&](const CopyBack &c) {
               return clEnqueueReadBuffer(queue.get(), c.buffer.get(), CL_TRUE, c.offset, c.size,
                                          c.memory, 0, nullptr, nullptr) == CL_SUCCESS;
           });
}

cl_int Bridge::start_status() const {
    if (start_.running != nullptr && start_.running->load(std::memory_order_acquire) != 0)
        return CL_COMPLETE;
    return start_.failed ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
                         : execution_status(start_.gate);
}

bool Bridge::may_end() const {
    return start_.failed || start_.last == start_.gate ||
           execution_status(start_.last) <= CL_COMPLETE;
}

bool Bridge::settled() const {
    const auto has_ended = [](const Event &e) { return execution_status(e.get()) <= CL_COMPLETE; };
    if (end_.empty()) return true;
    return written_back_.empty() ? has_ended(end_.back())
                                 : std::all_of(end_.begin(), end_.end(), has_ended);
}

}  // namespace cldist
