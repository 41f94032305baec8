#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cluster/event.hpp"
#include "cluster/memory.hpp"
#include "cluster/operations.hpp"
#include "cluster/queue.hpp"
#include "cluster/schedule.hpp"
#include "cluster/steps.hpp"
#include "mpi_interop/runtime.hpp"

namespace cldist::cluster {

/// A command as the program enqueues it.
struct Enqueued {
    QueueObject &queue;
    cl_command_type type;
    std::span<const Access> accesses;
    std::span<EventObject *const> wait_list;
    Result result{};        ///< of no bytes if the command has none
    bool blocking = false;  ///< the caller will wait_for_result()
};

/// The last three arguments of a native command.
struct Waits {
    cl_uint count;
    const cl_event *events;
    cl_event *event;
};

/// Puts the schedule's decisions into effect in this process: moves bytes, enqueues native commands behind what they wait
/// for, tells other processes. Under the lock.
class Executor {
public:
    Executor(Schedule &schedule, std::shared_ptr<Runtime> runtime, MPI_Comm comm, std::vector<MemoryTraits> memories);

    /// Calls `native(command, waits)` if the command is this process's; it returns OpenCL's code, and may set where the
    /// result is. Returns the command's event, null if nobody wants it. Throws an Error if the native platform refuses the
    /// command and there is no other process; else the event fails.
    template <typename Native>
    Ref<EventObject> run(Enqueued &&command, bool event_wanted, Native &&native) {
        if (command.queue.is_native()) keep_back(command.queue);
        prepare(command);
        if (native_ && !poisoned_) {
            const auto count = static_cast<cl_uint>(waits_.size());
            try {
                code_ = native(command, Waits{count, count != 0 ? waits_.data() : nullptr,
                                              needs_event(command, event_wanted) ? native_event_.out() : nullptr});
            } catch (const Error &error) {
                code_ = error.status().code;
            }
        }
        return finish(command, event_wanted);
    }

    /// A root memory object begins and ends.
    void know(MemObject &object, Contents contents);
    void forget(MemObject &object);
    /// A queue ends.
    void forget(QueueObject &queue) { steps_.forget_queue(queue); }

    /// Ends `ending` as the native event ends.
    void end_with(cl_event native, std::shared_ptr<Ending> ending);

    /// Has all processes know the event's end. To be called by all.
    void tell_all(EventObject &event);

    /// Waits until all that this process does for others has been done. Not under the lock.
    void finish_all();

private:
    void keep_back(QueueObject &queue);
    void prepare(const Enqueued &command);
    void decide(const Enqueued &command);
    Ref<EventObject> finish(Enqueued &command, bool event_wanted);
    void start(const Transfer &transfer);
    void start_message(const Transfer &transfer, MemObject &object);
    void start_image_message(const Transfer &transfer, MemObject &image);
    void start_channel(const Transfer &transfer, DeviceRange range, std::unique_ptr<Bridge> bridge, cl_device_id device,
                       const Engine::StartRule &rule);
    void start_copy(const Transfer &transfer, MemObject &object);
    void send_completion(EventObject &event, const Message &message);
    void pass_result(Enqueued &command, EventObject &event);
    void submit(std::unique_ptr<Operation> operation, cl_event after);
    void submit_now(std::unique_ptr<Operation> operation, cl_int status);
    [[nodiscard]] bool needs_event(const Enqueued &command, bool event_wanted) const {
        return event_wanted || (decisions_ != nullptr && (!command.queue.in_order() || !decisions_->result.to.empty()));
    }
    /// No other process is there.
    [[nodiscard]] bool alone() const { return schedule_.topology().processes() == 1; }
    [[nodiscard]] Wire wire(const Message &message) const;
    [[nodiscard]] Link link(const Transfer &transfer) const;

    Schedule &schedule_;
    const std::shared_ptr<Runtime> runtime_;
    const MPI_Comm comm_;
    const int tags_;
    const std::vector<MemoryTraits> memories_;
    const bool polls_;                  ///< some device here is not the processor: see Engine::StartRule
    std::vector<MemObject *> objects_;  // by id
    Steps steps_;

    // Of the command that is being enqueued.
    const Decisions *decisions_ = nullptr;  // null if there is nothing to decide
    bool native_ = false;
    bool poisoned_ = false;  // something that it waits for has failed already
    cl_int code_ = CL_SUCCESS;
    std::vector<cl_event> waits_;
    std::vector<StandIn> once_enqueued_;
    std::vector<cluster::Event *> scheduled_;
    cldist::Event native_event_;
    unsigned since_forgetting_ = 0;
};

}  // namespace cldist::cluster
