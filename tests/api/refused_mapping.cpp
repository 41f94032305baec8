// A platform that refuses to map. This program defines its own clEnqueueMapBuffer, which the
// library calls instead of the platform's. With CLDIST_PATH=mapped the calls fail with the reason.
// The automatic choice copies, and logs that once.
#include <dlfcn.h>

#include <cstring>
#include <string_view>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

int refusals_in = -1;  ///< number of calls before a refused one; negative: no call is refused

}  // namespace

extern "C" void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                    cl_map_flags flags, size_t offset, size_t size, cl_uint events,
                                    const cl_event *wait_list, cl_event *event, cl_int *code) {
    if (refusals_in == 0) {
        *code = CL_MAP_FAILURE;
        return nullptr;
    }
    if (refusals_in > 0) --refusals_in;
    static const auto real =
        reinterpret_cast<decltype(&clEnqueueMapBuffer)>(dlsym(RTLD_NEXT, "clEnqueueMapBuffer"));
    return real(queue, buffer, blocking, flags, offset, size, events, wait_list, event, code);
}

MPI_CASE("an unavailable forced path fails the call, and the automatic choice uses another path",
         1) {
    const opencl cl;
    const char *path = std::getenv("CLDIST_PATH");
    const bool forced = path != nullptr && std::string_view(path) == "mapped";
    constexpr std::size_t size = 3 << 20;
    const queue_handle queue = cl.in_order_queue();
    for (const int before : {0, 1}) {
        CAPTURE(before);
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            CAPTURE(blocking);
            // New buffers, because the library may remember the addresses of mapped ones.
            const buffer_handle out = cl.filled(size, 1);
            const buffer_handle in = cl.filled(size, 2);
            refusals_in = before;
            event_handle event;
            const cl_int code =
                clEnqueueSendrecvBuffer(queue, out, blocking, 0, size, 0, 1, in, 0, size, 0, 1,
                                        mpi.comm, 0, nullptr, event.out());
            refusals_in = -1;
            if (forced) {
                CHECK(code == CL_MAP_FAILURE);
            } else {
                CL_OK(code);
                expect_received(event, size, 0, 1);
                cl.expect(in, 0, size, 1);
                const unsigned char zero = 0;
                CL_OK(clEnqueueFillBuffer(queue, in, &zero, 1, 0, size, 0, nullptr, nullptr));
            }
            CL_OK(clFinish(queue));
        }
    }
    // The failed calls have sent and received nothing: the next messages match each other.
    const buffer_handle out = cl.filled(size, 1);
    const buffer_handle in = cl.filled(size, 2);
    expect_received(
        [&] {
            event_handle event;
            CL_OK(clEnqueueSendrecvBuffer(queue, out, CL_FALSE, 0, size, 0, 1, in, 0, size, 0, 1,
                                          mpi.comm, 0, nullptr, event.out()));
            return event;
        }(),
        size, 0, 1);
    cl.expect(in, 0, size, 1);
}
