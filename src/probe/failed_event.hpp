#pragma once

#include <unistd.h>

#include "ocl/query.hpp"

namespace cldist {

/// Makes a command fail while another command waits for it and nobody holds their events. Returns
/// if the platform survives and the queue still works. Throws an Error if the queue does not work.
/// Some platforms abort or hang at random, so SIGALRM ends the process after three seconds. Run it
/// in a child process.
inline void survive_failed_event(cl_device_id device) {
    cl_int code = CL_SUCCESS;
    const Context context =
        Context::adopt(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code));
    check(code, "clCreateContext");
    const Queue queue = Queue::adopt(clCreateCommandQueue(context.get(), device, 0, &code));
    check(code, "clCreateCommandQueue");
    const Mem buffer =
        Mem::adopt(clCreateBuffer(context.get(), CL_MEM_READ_WRITE, 64, nullptr, &code));
    check(code, "clCreateBuffer");
    const Event gate = Event::adopt(clCreateUserEvent(context.get(), &code));
    check(code, "clCreateUserEvent");
    const cl_event wait = gate.get();
    check(clEnqueueBarrierWithWaitList(queue.get(), 1, &wait, nullptr),
          "clEnqueueBarrierWithWaitList");
    const cl_int zero = 0;
    check(clEnqueueFillBuffer(queue.get(), buffer.get(), &zero, sizeof zero, 0, 64, 0, nullptr,
                              nullptr),
          "clEnqueueFillBuffer");
    check(clFlush(queue.get()), "clFlush");
    alarm(3);
    clSetUserEventStatus(gate.get(), -1200);
    clFinish(queue.get());
    // The queue must still work.
    cl_int value = 0;
    check(clEnqueueReadBuffer(queue.get(), buffer.get(), CL_TRUE, 0, sizeof value, &value, 0,
                              nullptr, nullptr),
          "clEnqueueReadBuffer");
    alarm(0);
}

}  // namespace cldist
