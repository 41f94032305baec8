/// Two threads enqueue on one in-order queue: both enqueue library commands, or one enqueues OpenCL
/// commands. A library command puts two native commands into the queue. On CPU devices the second
/// is a barrier. The library enqueues it with this program's own clEnqueueBarrierWithWaitList,
/// which lets the other thread run first. SIGALRM ends the program if it hangs.

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

std::atomic<bool> yields = false;

void let_the_other_go_first() {
    for (int i = 0; yields && i < 3; ++i) ::sched_yield();
}

/// Called once in another thread, between the two native commands of the next library command.
std::function<void()> between;

}  // namespace

extern "C" CL_API_ENTRY cl_int CL_API_CALL clEnqueueBarrierWithWaitList(cl_command_queue queue,
                                                                        cl_uint number,
                                                                        const cl_event *waits,
                                                                        cl_event *event) {
    static const auto next = [] {
        decltype(&clEnqueueBarrierWithWaitList) found = nullptr;
        void *const symbol = dlsym(RTLD_NEXT, "clEnqueueBarrierWithWaitList");
        std::memcpy(&found, &symbol, sizeof found);
        return found;
    }();
    if (between) std::jthread(std::exchange(between, nullptr)).join();
    let_the_other_go_first();
    const cl_int code = next(queue, number, waits, event);
    let_the_other_go_first();
    return code;
}

namespace {

constexpr std::size_t size = 4096;

/// Checks that each half of the buffer contains the given byte after all commands in the queue.
void expect_halves(const bare_device &d, unsigned char first, unsigned char second) {
    std::vector<unsigned char> found(2 * size);
    expect("the last read",
           clEnqueueReadBuffer(d.queue, d.buffer, CL_TRUE, 0, found.size(), found.data(), 0,
                               nullptr, nullptr),
           CL_SUCCESS);
    expect("the bytes of the file", std::count(found.begin(), found.begin() + size, first), size);
    expect("the bytes of the plain command", std::count(found.begin() + size, found.end(), second),
           size);
}

/// A library command reads zeros from a file into the first half of the buffer. Between its two
/// native commands another thread calls `plain`, after which the second half must contain `byte`.
template <typename Plain>
void plain_call_between(const bare_device &d, int zero, unsigned char byte, Plain &&plain) {
    const std::vector<unsigned char> ones(2 * size, 1);
    expect("the first write",
           clEnqueueWriteBuffer(d.queue, d.buffer, CL_TRUE, 0, ones.size(), ones.data(), 0, nullptr,
                                nullptr),
           CL_SUCCESS);
    cl_int code = CL_SUCCESS;
    cl_event gate = clCreateUserEvent(d.context, &code);
    cl_event read = nullptr;
    between = plain;
    // Opens the gate, because the other thread's call may wait for everything in the queue.
    clSetUserEventStatus(gate, CL_COMPLETE);
    expect("the command",
           clEnqueueWriteBufferFromFile(d.queue, d.buffer, CL_FALSE, 0, size, zero, 0, 1, &gate,
                                        &read),
           CL_SUCCESS);
    expect("whether the other thread came between", between == nullptr, true);
    expect_halves(d, 0, byte);
    expect("the command's status", status_told(read), CL_COMPLETE);
    clReleaseEvent(read);
    clReleaseEvent(gate);
}

void plain_calls_between(const bare_device &d, int zero) {
    const std::vector<unsigned char> twos(size, 2);
    const auto write = [&](cl_bool blocking) {
        expect("a plain write",
               clEnqueueWriteBuffer(d.queue, d.buffer, blocking, size, size, twos.data(), 0,
                                    nullptr, nullptr),
               CL_SUCCESS);
    };
    for (int i = 0; i < 100; ++i) {
        plain_call_between(d, zero, 2, [&] { write(CL_FALSE); });
        plain_call_between(d, zero, 2, [&] { write(CL_TRUE); });
        plain_call_between(d, zero, 1, [&] { expect("clFinish", clFinish(d.queue), CL_SUCCESS); });
        plain_call_between(d, zero, 2, [&] {
            expect("a plain barrier", clEnqueueBarrierWithWaitList(d.queue, 0, nullptr, nullptr),
                   CL_SUCCESS);
            write(CL_TRUE);
        });
    }
}

}  // namespace

int main() {
    ::alarm(30);
    const bare_device d(2 * size);
    // The more commands are in the queue, the longer NVIDIA's driver takes for each.
    const int commands = d.is_cpu() ? 2000 : 200;
    const int zero = ::open("/dev/zero", O_RDONLY);
    const auto read = [&](cl_bool blocking) {
        return clEnqueueWriteBufferFromFile(d.queue, d.buffer, blocking, 0, size, zero, 0, 0,
                                            nullptr, nullptr);
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
    // On other devices the second native command may be a copy instead of a barrier.
    if (d.is_cpu()) plain_calls_between(d, zero);
    ::close(zero);
    d.release();
    return failures == 0 ? 0 : 1;
}
