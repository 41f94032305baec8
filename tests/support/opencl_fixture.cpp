#include "opencl_fixture.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

namespace cldist_test {
namespace {

std::vector<cl_device_id> devices_of_type(cl_device_type type) {
    cl_uint count = 0;
    clGetPlatformIDs(0, nullptr, &count);
    std::vector<cl_platform_id> platforms(count);
    if (count != 0) {
        clGetPlatformIDs(count, platforms.data(), nullptr);
    }
    std::vector<cl_device_id> found;
    for (cl_platform_id platform : platforms) {
        cl_uint number = 0;
        if (clGetDeviceIDs(platform, type, 0, nullptr, &number) == CL_SUCCESS && number != 0) {
            const std::size_t before = found.size();
            found.resize(before + number);
            clGetDeviceIDs(platform, type, number, found.data() + before, nullptr);
        }
    }
    return found;
}

cl_device_id choose_device() {
    const char *text = std::getenv("CLDIST_TEST_DEVICE");
    const std::string wanted = text ? text : "";
    std::vector<cl_device_id> devices;
    if (wanted != "cpu") {
        devices = devices_of_type(CL_DEVICE_TYPE_GPU);
    }
    if (devices.empty() && wanted != "gpu") {
        devices = devices_of_type(CL_DEVICE_TYPE_CPU);
    }
    if (devices.empty()) {
        return nullptr;
    }
    return devices[static_cast<std::size_t>(rank_on_host()) % devices.size()];
}

cl_device_id the_device() {
    static cl_device_id device = choose_device();
    return device;
}

context_handle make_context(cl_device_id device) {
    cl_int error = CL_SUCCESS;
    context_handle context(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error));
    CL_OK(error);
    return context;
}

/// Kernels move messages only in the first context that could use them.
bool path_keeps_its_context() {
    const char *const path = std::getenv("CLDIST_PATH");
    return path != nullptr && std::string_view(path) == "kernel";
}

context_handle context_of_all_cases(cl_device_id device) {
    // never released, because the driver may be unloaded first at exit
    static const auto &context = *new context_handle(make_context(device));
    CL_OK(clRetainContext(context));
    return context_handle(context.get());
}

struct completion {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
};

void CL_CALLBACK on_complete(cl_event, cl_int, void *user_data) {
    const std::unique_ptr<std::shared_ptr<completion>> state(
        static_cast<std::shared_ptr<completion> *>(user_data));
    const std::lock_guard lock((*state)->mutex);
    (*state)->done = true;
    (*state)->changed.notify_all();
}

std::string describe(cl_event event) {
    std::size_t bytes_moved = 0;
    int tag = 0;
    int source = 0;
    int destination = 0;
    if (clGetTransferInfo(event, CL_TRANSFER_BYTES, sizeof(bytes_moved), &bytes_moved, nullptr) !=
        CL_SUCCESS) {
        return "an event";
    }
    clGetTransferInfo(event, CL_TRANSFER_TAG, sizeof(tag), &tag, nullptr);
    clGetTransferInfo(event, CL_TRANSFER_SOURCE, sizeof(source), &source, nullptr);
    clGetTransferInfo(event, CL_TRANSFER_DESTINATION, sizeof(destination), &destination, nullptr);
    return "a transfer from " + std::to_string(source) + " to " + std::to_string(destination) +
           " with tag " + std::to_string(tag) + ", " + std::to_string(bytes_moved) +
           " bytes moved, status " + std::to_string(status_of(event));
}

constexpr const char *program_source = R"(
kernel void add_one(global uchar *data) { data[get_global_id(0)] += 1; }
kernel void compute(global float *result) {
    float x = get_global_id(0);
    for (int i = 0; i < 100000; ++i) x = mad(x, 0.999f, 0.5f);
    if (x < 0) *result = x;
}
)";

}  // namespace

opencl::opencl(of wanted) : device(the_device()) {
    if (device == nullptr)
        skip_case("there is no OpenCL device of the type that CLDIST_TEST_DEVICE selects");
    context = wanted == of::its_own || (is_cpu() && !path_keeps_its_context())
                  ? make_context(device)
                  : context_of_all_cases(device);
    host_queue = in_order_queue(0);
}

bool opencl::is_cpu() const { return are_cpus({device}); }

queue_handle opencl::in_order_queue(cl_command_queue_properties properties) const {
    cl_int error = CL_SUCCESS;
    queue_handle queue(clCreateCommandQueue(context, device, properties, &error));
    CL_OK(error);
    return queue;
}

cl_int status_of(cl_event event) {
    cl_int status = CL_QUEUED;
    CL_OK(
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr));
    return status;
}

queue_handle opencl::out_of_order_queue() const {
    if (const std::string fault = out_of_order_fault(); !fault.empty()) {
        skip_case(fault);
    }
    return in_order_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE);
}

std::vector<queue_set> opencl::independent_queues(std::size_t count) const {
    const auto in_order = [&] {
        queue_set set{"in-order queues", {}};
        for (std::size_t i = 0; i < count; ++i) {
            set.queues.push_back(in_order_queue());
        }
        return set;
    };
    const auto out_of_order = [&] {
        queue_set set{"one out-of-order queue", {}};
        set.queues.push_back(out_of_order_queue());
        return set;
    };
    std::vector<queue_set> sets;
    sets.push_back(in_order());
    sets.push_back(out_of_order_fault().empty() ? out_of_order() : in_order());
    return sets;
}

std::string opencl::out_of_order_fault() const {
    // The result is cached, because the device is the same in all cases and a failing attempt takes
    // half a second.
    static const std::string fault = [&]() -> std::string {
        cl_command_queue_properties supported = 0;
        CL_OK(clGetDeviceInfo(device, CL_DEVICE_QUEUE_PROPERTIES, sizeof(supported), &supported,
                              nullptr));
        if ((supported & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0) {
            return "the device has no out-of-order queues";
        }
        if (!passes_pending_commands()) {
            return "the platform holds up an out-of-order queue while a command in it waits for a "
                   "user event";
        }
        return "";
    }();
    return fault;
}

bool opencl::passes_pending_commands() const {
    const queue_handle queue = in_order_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    const buffer_handle pending = buffer(64);
    const buffer_handle other = buffer(64);
    cl_int error = CL_SUCCESS;
    const event_handle gate(clCreateUserEvent(context, &error));
    CL_OK(error);
    const cl_event wait = gate.get();
    const cl_uchar zero = 0;
    event_handle held;
    event_handle free;
    CL_OK(clEnqueueFillBuffer(queue, pending, &zero, 1, 0, 64, 1, &wait, held.out()));
    CL_OK(clEnqueueFillBuffer(queue, other, &zero, 1, 0, 64, 0, nullptr, free.out()));
    CL_OK(clFlush(queue));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    while (status_of(free) > CL_COMPLETE && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
    }
    const bool passes = status_of(free) == CL_COMPLETE;
    CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
    CL_OK(clFinish(queue));
    return passes;
}

buffer_handle opencl::buffer(std::size_t size, cl_mem_flags flags) const {
    cl_int error = CL_SUCCESS;
    buffer_handle buffer(clCreateBuffer(context, flags, size, nullptr, &error));
    CL_OK(error);
    return buffer;
}

buffer_handle opencl::sub_buffer(cl_mem parent, std::size_t origin, std::size_t size) const {
    const cl_buffer_region region{origin, size};
    cl_int error = CL_SUCCESS;
    buffer_handle buffer(
        clCreateSubBuffer(parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error));
    CL_OK(error);
    return buffer;
}

event_handle opencl::user_event() const {
    cl_int error = CL_SUCCESS;
    event_handle event(clCreateUserEvent(context, &error));
    CL_OK(error);
    return event;
}

kernel_handle opencl::kernel(const char *name) const {
    cl_int error = CL_SUCCESS;
    const char *source = program_source;
    const program_handle program(clCreateProgramWithSource(context, 1, &source, nullptr, &error));
    CL_OK(error);
    CL_OK(clBuildProgram(program, 1, &device, "", nullptr, nullptr));
    kernel_handle kernel(clCreateKernel(program, name, &error));
    CL_OK(error);
    return kernel;
}

void opencl::write(cl_mem buffer, std::size_t offset, const bytes &data) const {
    if (!data.empty()) {
        CL_OK(clEnqueueWriteBuffer(host_queue, buffer, CL_TRUE, offset, data.size(), data.data(), 0,
                                   nullptr, nullptr));
    }
}

bytes opencl::read(cl_mem buffer, std::size_t offset, std::size_t size) const {
    bytes data(size);
    if (size != 0) {
        CL_OK(clEnqueueReadBuffer(host_queue, buffer, CL_TRUE, offset, size, data.data(), 0,
                                  nullptr, nullptr));
    }
    return data;
}

void opencl::fill(cl_mem buffer, std::size_t offset, std::size_t size, std::uint64_t seed) const {
    write(buffer, offset, pattern(seed, size));
}

buffer_handle opencl::filled(std::size_t size, std::uint64_t seed) const {
    buffer_handle result = buffer(std::max<std::size_t>(size, 1));
    fill(result, 0, size, seed);
    return result;
}

void opencl::expect(cl_mem buffer, std::size_t offset, std::size_t size, std::uint64_t seed,
                    std::size_t skip) const {
    const bytes wanted = pattern(seed, skip + size);
    const bytes found = read(buffer, offset, size);
    const auto [at, other] = std::mismatch(found.begin(), found.end(),
                                           wanted.begin() + static_cast<std::ptrdiff_t>(skip));
    if (at != found.end()) {
        FAIL_CHECK("byte " << at - found.begin() << " of " << size << " at offset " << offset
                           << " is " << static_cast<int>(*at) << ", not "
                           << static_cast<int>(*other) << " (seed " << seed << ")");
    }
    CHECK(at == found.end());
}

void need_memory(const opencl &cl, std::size_t largest_buffer) {
    cl_ulong largest = 0;
    CL_OK(clGetDeviceInfo(cl.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(largest), &largest,
                          nullptr));
    if (largest < largest_buffer) {
        skip_case("the device allows buffers of " + std::to_string(largest >> 20) + " MiB only");
    }
}

std::size_t sub_buffer_alignment(cl_device_id device) {
    cl_uint bits = 0;
    CL_OK(clGetDeviceInfo(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(bits), &bits, nullptr));
    return std::max<std::size_t>(bits / 8, 1);
}

cl_int wait_for(cl_event event, std::chrono::milliseconds limit) {
    using clock = std::chrono::steady_clock;
    if (const cl_int status = status_of(event); status <= CL_COMPLETE) {
        return status;
    }
    // The callback may run after this function has given up, so it shares ownership of the state.
    const auto state = std::make_shared<completion>();
    CL_OK(clSetEventCallback(event, CL_COMPLETE, on_complete,
                             new std::shared_ptr<completion>(state)));
    const auto deadline = clock::now() + limit;
    auto slice = std::chrono::milliseconds(5);
    std::optional<waiting_for> wait;
    for (;;) {
        {
            std::unique_lock lock(state->mutex);
            state->changed.wait_for(lock, slice, [&] { return state->done; });
        }
        // Also polls the status, because some platforms do not call back for a failed command, and
        // whether another rank has left the case.
        if (const cl_int status = status_of(event); status <= CL_COMPLETE) {
            return status;
        }
        wait.emplace(describe(event));
        throw_if_peer_left();
        if (clock::now() > deadline) {
            FAIL("still waiting for " << describe(event));
        }
        slice = std::min(slice * 2, std::chrono::milliseconds(100));
    }
}

void finish(cl_command_queue queue, std::chrono::milliseconds limit) {
    event_handle marker;
    CL_OK(clEnqueueMarkerWithWaitList(queue, 0, nullptr, marker.out()));
    CL_OK(clFlush(queue));
    wait_for(marker, limit);
}

}  // namespace cldist_test
