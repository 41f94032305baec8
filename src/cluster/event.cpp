#include "cluster/event.hpp"

#include "cluster/world.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {

cl_int wait_for(cl_event event) {
    clWaitForEvents(1, &event);
    return execution_status(event);
}

Times times_of(cl_event event) {
    Times times{};
    for (cl_uint i = 0; i < times.size(); ++i)
        if (clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + i, sizeof times[i], &times[i], nullptr) !=
            CL_SUCCESS)
            return {};
    return times;
}

void end_alike(Ending &ending, cl_event user_event) {
    clRetainEvent(user_event);
    ending.then([user_event](cl_int status) {
        clSetUserEventStatus(user_event, status);
        clReleaseEvent(user_event);
    });
}

cl_int EventObject::status_here() const {
    if (agreed) return *agreed;
    if (ending != nullptr && (!native || ending->over())) return ending->status();
    if (!native) return CL_SUBMITTED;
    const cl_int status = execution_status(native.get());
    // The command has ended, but its result is still on its way to others.
    return ending != nullptr && status == CL_COMPLETE ? CL_RUNNING : status;
}

cl_int EventObject::wait_here() const {
    if (ending != nullptr) return ending->wait();
    return wait_for(native.get());
}

cl_event EventObject::native_in(Space &in, std::vector<StandIn> &once_enqueued) {
    if (native && space == &in) return native.get();
    for (const auto &[of, event] : stand_ins_)
        if (of == &in) return event.get();
    cl_int code = CL_SUCCESS;
    cldist::Event stand_in = cldist::Event::adopt(clCreateUserEvent(in.context.get(), &code));
    check(code, "clCreateUserEvent");
    const cl_event event = stand_in.get();
    stand_ins_.emplace_back(&in, std::move(stand_in));
    once_enqueued.push_back({make_ending(), cldist::Event::share(event)});
    return event;
}

const std::shared_ptr<Ending> &EventObject::make_ending() {
    if (ending == nullptr) {
        ending = std::make_shared<Ending>();
        World::get().executor().end_with(native.get(), ending);
    }
    return ending;
}

}  // namespace cldist::cluster
