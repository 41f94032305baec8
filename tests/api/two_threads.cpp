/// Two threads enqueue commands on one in-order queue. Each command has two parts there; this program's
/// clEnqueueBarrierWithWaitList, which makes the second, stands before the platform's and lets the other thread go first. What
/// gets stuck ends by a signal.

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

std::atomic<bool> yields = false;

void let_the_other_go_first() {
    for (int i = 0; yields && i < 3; ++i) ::sched_yield();
}

}  // namespace

extern "C" CL_API_ENTRY cl_int CL_API_CALL clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint number,
                                                                        const cl_event *waits, cl_event *event) {
    static const auto next = [] {
        decltype(&clEnqueueBarrierWithWaitList) found = nullptr;
        void *const symbol = dlsym(RTLD_NEXT, "clEnqueueBarrierWithWaitList");
        std::memcpy(&found, &symbol, sizeof found);
        return found;
    }();
    let_the_other_go_first();
    const cl_int code = next(queue, number, waits, event);
    let_the_other_go_first();
    return code;
}

int main() {
    ::alarm(30);
    constexpr std::size_t size = 4096;
    constexpr int commands = 2000;
    const bare_device d(size);
    const int zero = ::open("/dev/zero", O_RDONLY);
    const auto read = [&](cl_bool blocking) {
        return clEnqueueWriteBufferFromFile(d.queue, d.buffer, blocking, 0, size, zero, 0, 0, nullptr, nullptr);
    };
    expect("the first command", read(CL_TRUE), CL_SUCCESS);
    yields = true;
    {
        const auto enqueue = [&] {
            for (int i = 0; i < commands; ++i) expect("a command", read(CL_FALSE), CL_SUCCESS);
        };
        const std::jthread one(enqueue);
        const std::jthread other(enqueue);
    }
    yields = false;
    expect("clFinish", clFinish(d.queue), CL_SUCCESS);
    ::close(zero);
    d.release();
    return failures == 0 ? 0 : 1;
}
