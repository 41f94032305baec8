#include <memory>
#include <utility>
#include <vector>

#include "api/boundary.hpp"
#include "api/event_table.hpp"
#include "mpi_interop/request_operations.hpp"
#include "mpi_interop/runtime.hpp"
#include "ocl/query.hpp"

using namespace cldist;

namespace {

cl_device_id first_device(cl_context context) {
    const std::vector<cl_device_id> devices = devices_of(context);
    if (devices.empty()) throw Error(CL_INVALID_CONTEXT, "the context is not valid");
    return devices.front();
}

void check_request(const MPI_Request *request) {
    if (request == nullptr) throw Error(CL_INVALID_VALUE, "request is NULL");
}

cl_event event_from_request(cl_context context, MPI_Request *request) {
    const cl_device_id device = first_device(context);
    check_request(request);
    const std::shared_ptr<Runtime> runtime = Runtime::current();
    auto bridge = std::make_unique<Bridge>(context);
    Event event = Event::share(bridge->user_visible_event());
    auto stand_in = std::make_unique<StandInRequest>();
    StandInRequest &kept = *stand_in;
    auto operations = only(
        make_request_wait(*request, std::move(stand_in), runtime->progress_driver().adopted()));
    event_table().add(event.get(), operations);
    auto command = std::make_unique<Command>(std::move(operations), std::move(bridge), device);
    *request = kept.give();
    runtime->progress_thread().submit(std::move(command), {});
    return event.give();
}

// Returns true if the platform's callbacks are late; see StartRule::polled.
bool late_callbacks(cl_command_queue queue) {
    const auto device =
        queue == nullptr ? std::nullopt : query<cl_device_id>(queue, CL_QUEUE_DEVICE);
    return device && !is_cpu(*device);
}

void request_from_event(cl_event event, MPI_Request *request) {
    if (event == nullptr || !query<cl_context>(event, CL_EVENT_CONTEXT))
        throw Error(CL_INVALID_EVENT, "the event is not valid");
    check_request(request);
    const std::shared_ptr<Runtime> runtime = Runtime::current();
    const auto queue = query<cl_command_queue>(event, CL_EVENT_COMMAND_QUEUE).value_or(nullptr);
    if (queue != nullptr) check(clFlush(queue), "clFlush");
    auto stand_in = std::make_unique<StandInRequest>();
    StandInRequest &kept = *stand_in;
    auto command = std::make_unique<Command>(only(make_event_wait(event, std::move(stand_in))),
                                             std::make_unique<Bridge>(event), nullptr);
    *request = kept.give();
    runtime->progress_thread().start_when_ready(std::move(command),
                                                {nullptr, false, late_callbacks(queue)});
}

}  // namespace

extern "C" {

cl_event clCreateEventFromMPIRequest(cl_context context, MPI_Request *request,
                                     cl_int *errcode_ret) {
    cl_event event = nullptr;
    const cl_int code = at_boundary("clCreateEventFromMPIRequest",
                                    [&] { event = event_from_request(context, request); });
    if (errcode_ret != nullptr) *errcode_ret = code;
    return event;
}

cl_int clCreateMPIRequestFromEvent(cl_event event, MPI_Request *request) {
    return at_boundary("clCreateMPIRequestFromEvent", [&] { request_from_event(event, request); });
}

}  // extern "C"
