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

}  // namespace

Event enqueue_start_marker(const QueueInfo &info, std::span<const cl_event> wait_list) {
    Event complete;
    if (wait_list.empty() && !info.in_order) {
        // A marker without wait list would wait for everything before it. One that waits for a complete event waits
        // for nothing but the barriers before it, as any command does.
        cl_int code = CL_SUCCESS;
        complete = Event::adopt(clCreateUserEvent(info.context, &code));
        check(code, "clCreateUserEvent");
        clSetUserEventStatus(complete.get(), CL_COMPLETE);
    }
    const cl_event instead = complete.get();
    if (instead != nullptr) wait_list = {&instead, 1};
    Event start;
    check(clEnqueueMarkerWithWaitList(info.queue, static_cast<cl_uint>(wait_list.size()),
                                      wait_list.empty() ? nullptr : wait_list.data(), start.out()),
          "clEnqueueMarkerWithWaitList");
    flush_producers(wait_list, info.queue);
    return start;
}

Bridge::Bridge(const QueueInfo &info, std::span<const cl_event> wait_list)
    : context_(Context::share(info.context)), queue_(Queue::share(info.queue)) {
    cl_int code = CL_SUCCESS;
    done_ = Event::adopt(clCreateUserEvent(info.context, &code));
    check(code, "clCreateUserEvent");
    start_ = enqueue_start_marker(info, wait_list);
    const cl_event done = done_.get();
    code = info.in_order ? clEnqueueBarrierWithWaitList(info.queue, 1, &done, end_.out())
                         : clEnqueueMarkerWithWaitList(info.queue, 1, &done, end_.out());
    check(code, info.in_order ? "clEnqueueBarrierWithWaitList" : "clEnqueueMarkerWithWaitList");
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
