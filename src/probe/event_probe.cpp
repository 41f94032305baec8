// event-probe "DEVICE NAME DRIVER VERSION": exits with 0 if that device's platform survives a failed command on which
// another waits, when nobody holds their events. The library runs it in a child process, because some platforms abort.
#include <cstdlib>
#include <string>
#include <vector>

#include "ocl/query.hpp"

namespace {

using namespace cldist;

void provoke(cl_device_id device) {
    cl_int code = CL_SUCCESS;
    const Context context = Context::adopt(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code));
    check(code, "clCreateContext");
    const Queue queue = Queue::adopt(clCreateCommandQueue(context.get(), device, 0, &code));
    check(code, "clCreateCommandQueue");
    const Mem buffer = Mem::adopt(clCreateBuffer(context.get(), CL_MEM_READ_WRITE, 64, nullptr, &code));
    check(code, "clCreateBuffer");
    const Event gate = Event::adopt(clCreateUserEvent(context.get(), &code));
    check(code, "clCreateUserEvent");
    const cl_event wait = gate.get();
    check(clEnqueueBarrierWithWaitList(queue.get(), 1, &wait, nullptr), "clEnqueueBarrierWithWaitList");
    const cl_int zero = 0;
    check(clEnqueueFillBuffer(queue.get(), buffer.get(), &zero, sizeof zero, 0, 64, 0, nullptr, nullptr),
          "clEnqueueFillBuffer");
    check(clFlush(queue.get()), "clFlush");
    clSetUserEventStatus(gate.get(), -1200);
    clFinish(queue.get());
    // The queue must still work.
    cl_int value = 0;
    check(clEnqueueReadBuffer(queue.get(), buffer.get(), CL_TRUE, 0, sizeof value, &value, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
}

std::vector<cl_device_id> all_devices() {
    cl_uint count = 0;
    clGetPlatformIDs(0, nullptr, &count);
    std::vector<cl_platform_id> platforms(count);
    clGetPlatformIDs(count, platforms.data(), nullptr);
    std::vector<cl_device_id> devices;
    for (cl_platform_id platform : platforms) {
        if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
        const std::size_t before = devices.size();
        devices.resize(before + count);
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data() + before, nullptr);
    }
    return devices;
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    for (cl_device_id device : all_devices()) {
        if (device_string(device, CL_DEVICE_NAME) + " " + device_string(device, CL_DRIVER_VERSION) != argv[1]) continue;
        try {
            provoke(device);
        } catch (const Error &) {
            return 1;
        }
        std::_Exit(0);  // the platform's own exit is not what is asked about
    }
    return 3;
}
