#include "cluster/execution/program_memory.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "cluster/execution/host_region.hpp"
#include "cluster/execution/operations.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"
#include "pipeline/file_operation.hpp"
#include "pipeline/memory_access.hpp"

namespace cldist::cluster {
namespace {

// The call that enqueues a staged write copies up to this many bytes itself. Other threads copy the
// bytes of larger non-blocking writes.
constexpr std::size_t copied_at_once = 16384;

cl_ulong system_ns() {
    using namespace std::chrono;
    return static_cast<cl_ulong>(
        duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count());
}

/// Records the times of its carrier's start and end.
class TimedOperation final : public Carried {
public:
    TimedOperation(std::unique_ptr<Operation> carrier, std::shared_ptr<Times> times)
        : Carried(std::move(carrier)), times_(std::move(times)) {}

private:
    void before() override { (*times_)[2] = system_ns(); }
    void after() override { (*times_)[3] = system_ns(); }

    const std::shared_ptr<Times> times_;
};

}  // namespace

bool Landings::is_expected(std::span<const std::byte> memory) {
    if (memory.empty() || landings_.empty()) return false;
    const std::byte *const begin = memory.data();
    const auto first = reinterpret_cast<std::uintptr_t>(begin);
    const auto from = reinterpret_cast<const std::byte *>(first - std::min(first, longest_));
    for (auto at = landings_.lower_bound(from);
         at != landings_.end() && at->first < begin + memory.size();) {
        if (at->second.end <= begin)
            ++at;
        else if (at->second.over())
            at = landings_.erase(at);
        else
            return true;
    }
    return false;
}

void Landings::tidy() {
    std::erase_if(landings_, [](const auto &entry) { return entry.second.over(); });
}

bool Landings::add(std::span<const std::byte> memory, std::function<bool()> over) {
    if (landings_.size() >= tidy_at_) {
        tidy();
        tidy_at_ = std::max<std::size_t>(64, 2 * landings_.size());
    }
    if (landings_.empty()) longest_ = 0;
    const bool overlaps = is_expected(memory);
    longest_ = std::max(longest_, memory.size());
    landings_.emplace(memory.data(), Landing{memory.data() + memory.size(), std::move(over)});
    return overlaps;
}

bool ProgramMemory::is_filled(const Enqueued &command) const {
    return command.result.size > 0 && copies_possible_ && command.staging == nullptr &&
           !copies_.is_page_locked(command.result.data, command.result.size);
}

void ProgramMemory::note_filled(const Enqueued &command, cl_event native) {
    filled_.add(command.result.memory(),
                [event = std::make_shared<const Event>(Event::share(native))] {
                    return execution_status(event->get()) <= CL_COMPLETE;
                });
}

bool ProgramMemory::note_use(const Enqueued &command, const std::shared_ptr<Ending> &end) {
    const auto over = [end] { return end->over(); };
    if (command.result.size == 0) {
        sources_.add({command.source->begin, command.source->shape.extent()}, over);
        return false;
    }
    const std::span<const std::byte> memory = command.result.memory();
    return landings_.add(memory, over) || sources_.is_expected(memory);
}

std::shared_ptr<std::byte[]> ProgramMemory::memory_for(QueueObject &queue, std::size_t size) {
    std::shared_ptr<std::byte[]> memory;
    if (uses_copies(queue)) memory = copies_.memory(queue, size);
    // A call that copies pageable memory could wait for a user event that a later call sets.
    const bool would_wait = size >= pageable_copied_in_call && queue.context->open_user_events != 0;
    if (memory == nullptr && would_wait && queue.is_native() && !queue.resources()->host_memory())
        memory = HostCopies::page_locked(*queue.resources(), size);
    return memory != nullptr ? memory : own_memory(size);
}

void ProgramMemory::keep_until_end(const Enqueued &command, cl_event native) {
    if (uses_copies(command.queue))
        copies_.keep_until(Event::share(native), command.brought);
    else
        keep_until(native, command.brought);
}

Result ProgramMemory::result_in(const HostRegion &host, QueueObject &queue) {
    const std::size_t size = host.shape.size();
    const bool has_gaps = !host.shape.contiguous();
    if (!mode_.has_program()) {
        if (!queue.is_native()) return {nullptr, size, {}, true};
        const auto memory = memory_for(queue, std::max<std::size_t>(size, 1));
        return {memory.get(), size, {}, true, memory};
    }
    const std::span<std::byte> target =
        has_gaps ? std::span(host.begin, host.shape.extent()) : std::span<std::byte>();
    if (mode_.keeps_results(queue) || !has_gaps) return {host.begin, size, {}, false, {}, target};
    const auto packed = own_memory(size);
    return {packed.get(),
            size,
            [host, size, packed] { unpack(host.shape, host.begin, 0, size, packed.get()); },
            true,
            {},
            target};
}

void ProgramMemory::stage(Enqueued &command, const void *memory, std::size_t size) {
    QueueObject &queue = command.queue;
    if (!mode_.has_program() || size == 0 || !uses_copies(queue) ||
        copies_.is_page_locked(memory, size))
        return;
    const std::span bytes{static_cast<const std::byte *>(memory), size};
    const bool user_events_open = queue.context->open_user_events != 0;
    const bool is_filled_later = command.reads_host_memory && filled_.is_expected(bytes);
    // A native write may read memory within the call, so the memory must not be about to change.
    const bool changes = user_events_open || is_filled_later ||
                         (command.reads_host_memory && landings_.is_expected(bytes));
    const std::size_t largest_native =
        command.reads_host_memory ? largest_native_write : largest_native_read;
    if (config().host_copies == cldist::HostCopies::automatic && size <= largest_native && !changes)
        return;
    // The program's memory may change while a write waits for a user event, or for a native command
    // that fills the memory. If the user event fails, the memory may have been freed. Blocks are
    // read only when the command begins.
    const bool may_be_late = command.reads_host_memory && (user_events_open || is_filled_later);
    if (size <= HostCopies::largest_whole() && !may_be_late)
        command.staging = copies_.memory(queue, size);
    command.in_blocks = command.staging == nullptr;
}

// CommandRun::pass_result() copies staged bytes to the program's memory.
cl_int ProgramMemory::read(Enqueued &command, const NativeRange &range, std::byte *to,
                           const Waits &waits) {
    if (command.in_blocks) return copy_in_blocks(command, range, to, Direction::to_file, waits);
    std::byte *const memory = command.staging != nullptr ? command.staging.get() : to;
    return command.call_driver([&] {
        return clEnqueueReadBuffer(command.queue.native.get(), range.buffer, CL_FALSE, range.offset,
                                   range.size, memory, waits.count, waits.events, waits.event);
    });
}

cl_int ProgramMemory::write(Enqueued &command, const NativeRange &range, const std::byte *from,
                            const Waits &waits) {
    if (command.in_blocks) {
        auto *const memory = const_cast<std::byte *>(from);  // it is only read
        return copy_in_blocks(command, range, memory, Direction::from_file, waits);
    }
    const cl_command_queue queue = command.queue.native.get();
    if (command.staging == nullptr)
        return command.call_driver([&] {
            return clEnqueueWriteBuffer(queue, range.buffer, CL_FALSE, range.offset, range.size,
                                        from, waits.count, waits.events, waits.event);
        });
    const bool now =
        !is_open(command.incoming) && (command.blocking || range.size <= copied_at_once);
    std::vector<cl_event> all(waits.events, waits.events + waits.count);
    Event copied;
    if (now) {
        command.call_driver([&] {
            copy_with_threads(command.staging.get(), from, range.size);
            return CL_SUCCESS;
        });
    } else {
        copied = create("clCreateUserEvent", clCreateUserEvent, command.queue.space->context.get());
        all.push_back(copied.get());
    }
    const WaitArguments list(all);
    const cl_int code = command.call_driver([&] {
        return clEnqueueWriteBuffer(queue, range.buffer, CL_FALSE, range.offset, range.size,
                                    command.staging.get(), list.count, list.events, waits.event);
    });
    if (code != CL_SUCCESS) return code;
    copies_.keep_until(Event::share(*waits.event), command.staging);
    if (now) return code;
    const auto copy = [from, size = range.size, memory = command.staging,
                       event = std::make_shared<const Event>(std::move(copied))] {
        io_threads().run([=] {
            copy_with_threads(memory.get(), from, size);
            clSetUserEventStatus(event->get(), CL_COMPLETE);
        });
    };
    if (is_open(command.incoming))
        command.incoming->then([copy](cl_int) { copy(); });
    else
        copy();
    return code;
}

// As for file commands, the native queue gets internal commands for the start and the end.
cl_int ProgramMemory::copy_in_blocks(Enqueued &command, const NativeRange &range, std::byte *memory,
                                     Direction direction, const Waits &waits) {
    QueueObject &queue = command.queue;
    const std::shared_ptr<DeviceResources> &resources = queue.resources();
    QueueInfo info{queue.native.get(), queue.space->context.get(), queue.device->native,
                   queue.in_order()};
    resources->describe(info);
    auto bridge =
        std::make_unique<Bridge>(info, std::span(waits.events, waits.count), std::span<Mapping>());
    const auto times = std::make_shared<Times>();
    times->fill(system_ns());
    command.own_times = times;
    *waits.event = Event::share(bridge->user_visible_event()).give();
    MemoryAccess::Written forward;
    if (command.result.forward != nullptr)
        forward = [to = command.result.forward](std::size_t offset, std::byte *from,
                                                std::size_t size) { to->copy(offset, from, size); };
    auto operation = std::make_unique<TimedOperation>(
        make_file_transfer(
            {resources, Mem::share(range.buffer), range.offset, range.size, nullptr, {}}, direction,
            std::make_shared<MemoryAccess>(memory, forward), false),
        times);
    file_progress_thread().start_when_ready(command_of(std::move(operation), std::move(bridge)),
                                            {nullptr, waits.count != 0, !resources->is_cpu()});
    return CL_SUCCESS;
}

void ProgramMemory::give_memory(QueueObject &queue, MemObject &object, Mapped &mapped) {
    mapped.guard = guard_size(object, mapped);
    const std::size_t size = mapped.size + mapped.guard;
    if (!object.is_image() && uses_copies(queue)) mapped.own = copies_.memory(queue, size);
    mapped.is_page_locked = mapped.own != nullptr;
    if (mapped.own == nullptr) mapped.own = own_memory(size);
    set_guard(mapped);
    mapped.memory = mapped.own.get();
    if (mapped.is_page_locked) copies_.add_page_locked(mapped.memory, mapped.size);
}

}  // namespace cldist::cluster
