// The commands that launch kernels.
#include <CL/cl_ext_dist.h>

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "base/config.hpp"
#include "base/per_thread.hpp"
#include "base/trace.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/program_infos.hpp"
#include "cluster/split/check_access.hpp"
#include "cluster/split/splitting.hpp"
#include "cluster/world/exchange.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

// ---- Ranges ----

bool divides_evenly(cl_uint dimensions, const size_t *global, const size_t *local) {
    for (cl_uint i = 0; i < dimensions; ++i)
        if (global[i] % local[i] != 0) return false;
    return true;
}

constexpr cl_uint most_dimensions = 3;  // CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS of any device

// Checks in the order of the specification.
void check_range(const KernelObject &kernel, const DeviceObject &device, cl_uint dimensions,
                 const size_t *offset, const size_t *global, const size_t *local) {
    if (dimensions < 1 ||
        dimensions > std::min<std::size_t>(most_dimensions, device.work_item_sizes.size()))
        fail(CL_INVALID_WORK_DIMENSION, "work_dim is {}; expected 1 to {}", dimensions,
             std::min<std::size_t>(most_dimensions, device.work_item_sizes.size()));
    for (cl_uint i = 0; offset != nullptr && i < dimensions; ++i)
        require(offset[i] <= ~std::size_t{0} - global[i], CL_INVALID_GLOBAL_OFFSET,
                "global_work_offset[{0}] is {1} and global_work_size[{0}] is {2}; their sum "
                "exceeds size_t",
                i, offset[i], global[i]);
    const OnDevice on = limits_on_device(kernel, device);
    require(on.work_group_size != 0, CL_INVALID_PROGRAM_EXECUTABLE,
            "the kernel's program was not built for the queue's device");
    const auto &required = on.compile_work_group_size;
    if (local == nullptr) {
        require(
            required[0] == 0, CL_INVALID_WORK_GROUP_SIZE,
            "local_work_size is NULL, but the kernel requires a work-group size of {} x {} x {}",
            required[0], required[1], required[2]);
        return;
    }
    std::size_t items = 1;
    for (cl_uint i = 0; i < dimensions; ++i) {
        const std::size_t most = device.work_item_sizes[i];
        require(local[i] != 0, CL_INVALID_WORK_GROUP_SIZE,
                "local_work_size[{}] is 0; expected at least 1", i);
        if (local[i] > most)
            fail(CL_INVALID_WORK_ITEM_SIZE,
                 "local_work_size[{}] is {}, but the device has at most {}", i, local[i], most);
        items *= local[i];
    }
    for (cl_uint i = 0; required[0] != 0 && i < required.size(); ++i) {
        const std::size_t given = i < dimensions ? local[i] : 1;
        if (given != required[i])
            fail(CL_INVALID_WORK_GROUP_SIZE,
                 "local_work_size[{}] is {}, but the kernel requires {}", i, given, required[i]);
    }
    if (items > on.work_group_size &&
        (device.enforces_limits || items > device.info<std::size_t>(CL_DEVICE_MAX_WORK_GROUP_SIZE)))
        fail(CL_INVALID_WORK_GROUP_SIZE,
             "local_work_size requests {} work-items, but the kernel allows at most {} on the "
             "device",
             items, on.work_group_size);
    require(divides_evenly(dimensions, global, local) || device.non_uniform_groups,
            CL_INVALID_WORK_GROUP_SIZE,
            "local_work_size does not divide global_work_size, and the device does not support "
            "non-uniform work-groups");
}

// ---- Launches on an aggregate device ----

splitting::Launch launch_of(const QueueObject &queue, const KernelObject &kernel,
                            cl_uint dimensions, const size_t *offset, const size_t *global,
                            const size_t *local) {
    splitting::Launch launch;
    launch.dimensions = dimensions;
    for (cl_uint i = 0; i < dimensions; ++i) {
        launch.offset.at(i) = offset != nullptr ? offset[i] : 0;
        launch.global.at(i) = global[i];
        if (local != nullptr) launch.local.at(i) = local[i];
    }
    if (local != nullptr) return launch;
    const std::size_t most = limits_on_device(kernel, *queue.device).work_group_size;
    return kernel.splitting->with_local(launch, most);
}

double work_items_of(const splitting::SubRange &range) {
    double items = 1;
    for (unsigned i = 0; i < most_dimensions; ++i)
        items *= static_cast<double>(range.end.at(i) - range.begin.at(i));
    return items;
}

/// The reads among the accesses.
std::vector<Access> reads_of(std::span<const Access> accesses) {
    std::vector<Access> reads;
    for (const Access &access : accesses)
        if (access.mode != AccessMode::write)
            reads.push_back({access.buffer, access.begin, access.end, AccessMode::read});
    return reads;
}

/// A part of a launch, on a lane of this process.
struct OwnPart {
    QueueObject *lane;
    const SplitLaunch::PartOfLaunch *part;
};

Enqueued part_of_launch(QueueObject &lane, cl_command_type type, std::span<const Access> accesses) {
    Enqueued command{lane, type, accesses, {}};
    command.is_part = true;
    return command;
}

/// Checks the accesses before a launch: runs its parts on copies of the bytes that they read, once
/// these have arrived. Leaves the lock.
void try_parts(Joint &joint, const KernelObject &kernel, const SplitLaunch &split,
               std::span<const OwnPart> parts, const OpenUserEvents &behind, bool with_local) {
    for (const auto &[lane, part] : parts)
        check_contents(kernel, split, *part, executor().schedule());
    std::vector<std::vector<Access>> reads;
    std::vector<CommandPart> all;
    for (const CommandPart &part : split.all) {
        reads.push_back(reads_of(part.accesses));
        all.push_back({part.memory, reads.back()});
    }
    KnownParts of_this_launch;
    executor().begin_parts(all, split.buffers, of_this_launch, behind);
    std::vector<Event> ready(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        QueueObject &lane = *parts[i].lane;
        const std::vector<Access> accesses = reads_of(parts[i].part->accesses);
        joint.run(part_of_launch(lane, CL_COMMAND_MARKER, accesses), [&](Enqueued &,
                                                                         const Waits &w) {
            const cl_int code = enqueue_marker_behind(lane, {w.count, w.events, ready[i].out()});
            if (code == CL_SUCCESS && w.event != nullptr)
                *w.event = Event::share(ready[i].get()).give();
            return code;
        });
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (ready[i]) {
            const Unlocked unlocked;
            wait_for(ready[i].get());
        }
        check_part(*parts[i].lane, kernel, split, *parts[i].part, with_local);
    }
}

/// Adapts the shares to the speeds that all processes have measured. Called after a launch, when
/// the program has its event. Waits, without the lock, for processes that have not made the call
/// yet. Waits for no command.
void adapt_shares(const Exchange &exchange, const Ref<ContextObject> &in_context) {
    const Ref<ContextObject> context = in_context;
    Adaptation &adaptation = *context->adaptation;
    const DeviceList &devices = context->devices;
    const Process self = World::get().self();
    const std::size_t kinds = adaptation.shares.kinds();
    Packer rates_here;
    for (auto &times : adaptation.times)
        for (std::size_t i = 0; i < devices.size(); ++i)
            if (devices[i]->process == self) rates_here.put(times[i].take_rate());
    const Blob mine = rates_here.take();
    const std::vector<Process> processes = processes_of(devices);
    const std::vector<Blob> told = exchange.of(processes, [&](Process) { return mine; });
    std::vector<Unpacker> of_processes(told.begin(), told.end());
    std::vector<double> rates;
    for (std::size_t kind = 0; kind < kinds; ++kind)
        for (const auto &device : devices) {
            const auto at = std::ranges::lower_bound(processes, device->process);
            rates.push_back(
                of_processes[static_cast<std::size_t>(at - processes.begin())].get<double>());
        }
    if (adaptation.shares.adapt(rates) && self == 0 && config().explain == Switch::on)
        std::fputs(fmt::format("cldist: the work distribution over the devices is now {:.3f}, from "
                               "measured speeds\n",
                               fmt::join(adaptation.shares.shares(), ", "))
                       .c_str(),
                   stderr);
}

// Adds the kernel to the trace (CLDIST_TRACE), beside the messages.
template <typename Launch>
cl_int traced(const KernelObject &kernel, const Waits &waits, Launch &&launch) {
    if (!trace::enabled()) return launch(waits);
    Event unwanted;
    cl_event *const event = waits.event != nullptr ? waits.event : unwanted.out();
    const cl_int code = launch(Waits{waits.count, waits.events, event});
    if (code == CL_SUCCESS) clTraceEvent(*event, kernel.info->name.c_str());
    return code;
}

/// `whole` is the unsplit command, which the first member device runs if the launch can't be split.
void enqueue_parts(Enqueued &&whole, KernelObject &kernel, const splitting::Launch &launch,
                   bool has_local, cl_event *event) {
    QueueObject &queue = whole.queue;
    const CallHash call{};
    const Exchange exchange;
    // Another thread may replace it while try_parts() has left the lock.
    const std::shared_ptr<SplitLaunch> held = kernel.splitting->split(kernel, launch);
    SplitLaunch &split = *held;
    const bool with_local = has_local || kernel.splitting->asks_for_groups();
    if (split.parts.empty()) {
        QueueObject &lane = *queue.lanes.front();
        Enqueued command{lane, whole.type, whole.accesses, whole.wait_list};
        return conclude(run_whole(std::move(command), event != nullptr,
                                  [&](Enqueued &, const Waits &w) {
                                      return traced(kernel, w, [&](const Waits &waits) {
                                          return split.enqueue(lane.native.get(), *kernel.info,
                                                               kernel.native(*lane.space),
                                                               splitting::whole(launch), with_local,
                                                               waits);
                                      });
                                  }),
                        event, false, call);
    }
    Joint joint(queue, whole.type, whole.wait_list, event != nullptr);
    Adaptation *const adaptation = queue.context->adaptation.get();
    std::vector<OwnPart> own;
    for (QueueObject *const lane : queue.natives) {
        const auto part =
            std::ranges::lower_bound(split.parts, lane->lane, {}, &SplitLaunch::PartOfLaunch::lane);
        if (part != split.parts.end() && part->lane == lane->lane) own.push_back({lane, &*part});
    }
    const OpenUserEvents behind = user_events_before(
        queue, queue.ordering_of(whole.type, !whole.wait_list.empty()), whole.wait_list);
    // The trial waits for the bytes that the parts read. There is none while user events are open,
    // because the call might wait for an event that the program sets later.
    if (config().check_access == Switch::on && queue.context->open_user_events == 0 &&
        !std::exchange(split.checked, true))
        try_parts(joint, kernel, split, own, behind, with_local);
    // From here on the lock is kept: the schedule must know of all parts before it decides another
    // thread's command.
    KnownParts of_this_launch;
    executor().begin_parts(split.all, split.buffers, behind.any() ? of_this_launch : split.known,
                           behind);
    for (const OwnPart &each : own) {
        QueueObject &lane = *each.lane;
        const SplitLaunch::PartOfLaunch &part = *each.part;
        joint.run(part_of_launch(lane, whole.type, part.accesses), [&](Enqueued &, const Waits &w) {
            const auto launch_part = [&](const Waits &own_waits) {
                return traced(kernel, own_waits, [&](const Waits &waits) {
                    return split.enqueue(lane.native.get(), *kernel.info,
                                         kernel.native(*lane.space), part.range, with_local, waits);
                });
            };
            if (adaptation == nullptr) return launch_part(w);
            return adaptation->times[split.kind][part.lane].measure(work_items_of(part.range), w,
                                                                    launch_part);
        });
    }
    executor().count_remote(split.parts.size() - own.size());
    conclude(joint.end(), event, false, call);
    if (adaptation != nullptr &&
        adaptation->shares.count_launch(split.kind, work_items_of(splitting::whole(split.launch))))
        adapt_shares(exchange, queue.context);
}

void enqueue_kernel(Handling handling, cl_command_queue queue_handle, cl_kernel kernel_handle,
                    cl_command_type type, cl_uint dimensions, const size_t *offset,
                    const size_t *global, const size_t *local, const WaitList &list) {
    QueueObject &queue = queue_of(queue_handle);
    KernelObject &kernel = kernel_of(kernel_handle);
    require(kernel.program->context.get() == queue.context.get(), CL_INVALID_CONTEXT,
            "the queue and the kernel belong to different contexts");
    require(kernel.program->has_executable_for(*queue.device), CL_INVALID_PROGRAM_EXECUTABLE,
            "the kernel's program was not built for the queue's device");
    if (handling == Handling::leave_out) {  // KernelObject::homes() has checked the arguments
        check_range(kernel, *queue.device, dimensions, offset, global, local);
        return leave_out(queue, type, list.event);
    }
    // Kept to reuse its allocation. One per thread, because enqueueing may leave the lock.
    auto &accesses = per_thread<std::vector<Access>>();
    accesses.clear();
    bool of_one_context = true;
    for (cl_uint i = 0; i < kernel.arguments.size(); ++i) {
        const KernelObject::Argument &argument = kernel.arguments[i];
        if (!argument.set)
            fail(CL_INVALID_KERNEL_ARGS, "argument {} is not set; call clSetKernelArg first", i);
        MemObject *const memory = argument.memory.get();
        if ((memory == nullptr && argument.memory.gone()) || argument.sampler.gone())
            fail(CL_INVALID_KERNEL_ARGS,
                 "the memory object or sampler of argument {} has been released", i);
        if (memory == nullptr) continue;
        of_one_context = of_one_context && memory->context.get() == queue.context.get();
        accesses.push_back(kernel.access(i, *memory));
    }
    check_range(kernel, *queue.device, dimensions, offset, global, local);
    const auto waits = wait_list_of(list, *queue.context);
    require(of_one_context, CL_INVALID_CONTEXT,
            "a memory object among the arguments and the queue belong to different contexts");
    if (queue.is_aggregate())
        return enqueue_parts({queue, type, accesses, waits}, kernel,
                             launch_of(queue, kernel, dimensions, offset, global, local),
                             local != nullptr, list.event);
    enqueue({queue, type, accesses, waits}, list.event, [&](Enqueued &command, const Waits &w) {
        const cl_kernel native = kernel.native(*queue.space);
        return traced(kernel, w, [&](const Waits &waits) {
            return command.call_driver([&] {
                return clEnqueueNDRangeKernel(queue.native.get(), native, dimensions, offset,
                                              global, local, waits.count, waits.events,
                                              waits.event);
            });
        });
    });
}

}  // namespace

void enqueue_nd_range_kernel(Handling handling, cl_command_queue queue, cl_kernel kernel,
                             cl_uint dimensions, const size_t *offset, const size_t *global,
                             const size_t *local, cl_uint num_events, const cl_event *wait_list,
                             cl_event *event) {
    // Since OpenCL 2.1, NULL means sizes of 0: the command does nothing.
    static constexpr std::array<std::size_t, most_dimensions> nothing{};
    enqueue_kernel(handling, queue, kernel, CL_COMMAND_NDRANGE_KERNEL, dimensions, offset,
                   global != nullptr ? global : nothing.data(), local,
                   {num_events, wait_list, event});
}

void enqueue_task(Handling handling, cl_command_queue queue, cl_kernel kernel, cl_uint num_events,
                  const cl_event *wait_list, cl_event *event) {
    const std::size_t one = 1;
    enqueue_kernel(handling, queue, kernel, CL_COMMAND_TASK, 1, nullptr, &one, &one,
                   {num_events, wait_list, event});
}

// CL_DEVICE_EXECUTION_CAPABILITIES does not contain CL_EXEC_NATIVE_KERNEL.
void enqueue_native_kernel(cl_command_queue queue, void(CL_CALLBACK *)(void *), void *, size_t,
                           cl_uint, const cl_mem *, const void **, cl_uint, const cl_event *,
                           cl_event *) {
    queue_of(queue);
    fail(CL_INVALID_OPERATION, "native kernels are not supported");
}

}  // namespace cldist::cluster
