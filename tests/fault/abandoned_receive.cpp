// A receive that MPI_Finalize abandons, on a platform that is not PoCL. There, the queue copies
// back the bytes of a receive before its event ends. This program defines its own
// clGetPlatformInfo, which the library calls instead of the platform's.
#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "bare_device.hpp"

using namespace cldist_test;

extern "C" CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform,
                                                             cl_platform_info param,
                                                             std::size_t size, void *value,
                                                             std::size_t *size_ret) {
    static const auto next =
        reinterpret_cast<decltype(&clGetPlatformInfo)>(dlsym(RTLD_NEXT, "clGetPlatformInfo"));
    const cl_int code = next(platform, param, size, value, size_ret);
    if (code == CL_SUCCESS && param == CL_PLATFORM_NAME && value != nullptr)
        std::memcpy(value, "X", 1);
    return code;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    constexpr std::size_t size = 1000;
    const bare_device d(size);
    const std::vector<unsigned char> before(size, 7);
    clEnqueueWriteBuffer(d.queue, d.buffer, CL_TRUE, 0, size, before.data(), 0, nullptr, nullptr);
    cl_event event = nullptr;
    expect("the receive",
           clEnqueueRecvBuffer(d.queue, d.buffer, CL_FALSE, 0, size, 0, 77, MPI_COMM_WORLD, 0,
                               nullptr, &event),
           CL_SUCCESS);
    MPI_Finalize();
    expect("the transfer's status", status_told(event), CL_TRANSFER_ABANDONED);
    // Fails if the event never ends: the test has a time limit.
    expect("the wait for the event", clWaitForEvents(1, &event),
           CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    std::vector<unsigned char> after(size);
    clEnqueueReadBuffer(d.other_queue, d.buffer, CL_TRUE, 0, size, after.data(), 0, nullptr,
                        nullptr);
    expect("whether the buffer is unchanged", static_cast<long>(after == before), 1);
    std::fprintf(stderr, "the receive has ended\n");
    return failures == 0 ? 0 : 1;
}
