#include "events/bridge.hpp"

#include "ocl/query.hpp"

namespace cldist {
namespace {

// A command that waits for an event of another queue may wait for ever if nobody flushes that queue.
void flush_producers(std::span<const cl_event> events, cl_command_queue own) {
    cl_command_queue last = own;
    for (const cl_event event : events) {
        const auto queue = query<cl_command_queue>(event, CL_EVENT_COMMAND_QUEUE).value_or(nullptr);
        if (queue == nullptr || queue == own || queue == last) continue;
        clFlush(queue);
        last = queue;
    }
}

// On an out-of-order queue: does nothing, and waits for its wait list and the barriers before it alone.
Event enqueue_migration(const QueueInfo &info, std::span<const cl_event> wait_list) {
    Event event;
    check(clEnqueueMigrateMemObjects(info.queue, 1, &info.placeholder, 0, static_cast<cl_uint>(wait_list.size()),
                                     wait_list.empty() ? nullptr : wait_list.data(), event.out()),
          "clEnqueueMigrateMemObjects");
    return event;
}

// Waits for `done`.
Event enqueue_end(const QueueInfo &info, cl_event done) {
    if (!info.in_order) return enqueue_migration(info, {&done, 1});
    Event event;
    check(clEnqueueBarrierWithWaitList(info.queue, 1, &done, event.out()), "clEnqueueBarrierWithWaitList");
    return event;
}

Event user_event(cl_context context) {
    cl_int code = CL_SUCCESS;
    Event event = Event::adopt(clCreateUserEvent(context, &code));
    check(code, "clCreateUserEvent");
    return event;
}

}  // namespace

Event enqueue_start(const QueueInfo &info, std::span<const cl_event> wait_list) {
    Event start;
    if (info.in_order)
        check(clEnqueueMarkerWithWaitList(info.queue, static_cast<cl_uint>(wait_list.size()),
                                          wait_list.empty() ? nullptr : wait_list.data(), start.out()),
              "clEnqueueMarkerWithWaitList");
    else
        start = enqueue_migration(info, wait_list);
    flush_producers(wait_list, info.queue);
    check(clFlush(info.queue), "clFlush");
    return start;
}

Bridge::Bridge(const QueueInfo &info, std::span<const cl_event> wait_list)
    : context_(Context::share(info.context)),
      queue_(Queue::share(info.queue)),
      start_(enqueue_start(info, wait_list)),
      done_(user_event(info.context)),
      end_(enqueue_end(info, done_.get())) {
    check(clFlush(info.queue), "clFlush");
}

Bridge::~Bridge() { complete(CL_TRANSFER_ABANDONED); }

void Bridge::complete(cl_int code) {
    if (completed_ || !done_) return;
    completed_ = true;
    clSetUserEventStatus(done_.get(), code);
}

bool Bridge::settled() const { return execution_status(end_.get()) <= CL_COMPLETE; }

}  // namespace cldist
