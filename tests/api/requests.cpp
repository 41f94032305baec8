/// Errors of the calls that convert between MPI requests and events, one case per error code.
/// initialisation.cpp tests errors before MPI_Init.

#include "transfers.hpp"

using namespace cldist_test;

namespace {

/// A request with a unique handle. The destructor waits for it.
struct some_request {
    some_request() { MPI_Irecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &handle); }
    ~some_request() { MPI_Wait(&handle, MPI_STATUS_IGNORE); }
    some_request(const some_request &) = delete;
    some_request &operator=(const some_request &) = delete;

    MPI_Request handle = MPI_REQUEST_NULL;
};

}  // namespace

MPI_CASE(
    "an event of a request without a context is CL_INVALID_CONTEXT and does not change the request",
    1) {
    some_request request;
    const MPI_Request before = request.handle;
    cl_int code = CL_SUCCESS;
    CHECK(clCreateEventFromMPIRequest(nullptr, &request.handle, &code) == nullptr);
    CHECK(code == CL_INVALID_CONTEXT);
    CHECK(request.handle == before);
    CHECK(clCreateEventFromMPIRequest(nullptr, &request.handle, nullptr) == nullptr);
}

MPI_CASE("an event without a request is CL_INVALID_VALUE", 1) {
    const opencl cl;
    cl_int code = CL_SUCCESS;
    CHECK(clCreateEventFromMPIRequest(cl.context, nullptr, &code) == nullptr);
    CHECK(code == CL_INVALID_VALUE);
}

MPI_CASE("an event of a request may be created without a pointer for the error code", 1) {
    const opencl cl;
    some_request request;
    const event_handle event(clCreateEventFromMPIRequest(cl.context, &request.handle, nullptr));
    REQUIRE(event.get() != nullptr);
    expect_complete(event);
}

MPI_CASE("the event of a request reports its context and that it is a user event", 1) {
    const opencl cl;
    some_request request;
    const event_handle event(clCreateEventFromMPIRequest(cl.context, &request.handle, nullptr));
    cl_context context = nullptr;
    CL_OK(clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof context, &context, nullptr));
    CHECK(context == cl.context);
    cl_command_type type = 0;
    CL_OK(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, nullptr));
    CHECK(type == CL_COMMAND_USER);
    expect_complete(event);
}

MPI_CASE("a request without an event is CL_INVALID_EVENT and does not change the request", 1) {
    some_request request;
    const MPI_Request before = request.handle;
    CHECK(clCreateMPIRequestFromEvent(nullptr, &request.handle) == CL_INVALID_EVENT);
    CHECK(request.handle == before);
}

MPI_CASE("a request of an event without a pointer for the result is CL_INVALID_VALUE", 1) {
    const opencl cl;
    const event_handle event = cl.user_event();
    CHECK(clCreateMPIRequestFromEvent(event, nullptr) == CL_INVALID_VALUE);
    CL_OK(clSetUserEventStatus(event, CL_COMPLETE));
}
