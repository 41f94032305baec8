#include "fixture.hpp"

#include <CL/cl_ext_collective.h>

#include "tested_platform.hpp"

namespace cluster_test {
namespace {

const char *const test_program = R"(
kernel void add(global uchar *data, uchar value) {
    data[get_global_id(0)] += value;
}
kernel void copy(global uchar *to, const global uchar *from) {
    to[get_global_id(0)] = from[get_global_id(0)];
}
)";

context_handle context_of_all_devices() {
    cl_int code = CL_SUCCESS;
    const auto count = static_cast<cl_uint>(devices().size());
    context_handle context(
        clCreateContext(nullptr, count, devices().data(), nullptr, nullptr, &code));
    CL_OK(code);
    return context;
}

context_handle context_of_all_cases() {
    // Never released, because at exit the driver may be unloaded first.
    static const auto &context = *new context_handle(context_of_all_devices());
    CL_OK(clRetainContext(context));
    return context_handle(context.get());
}

}  // namespace

cl_platform_id platform() {
    static const cl_platform_id first = [] {
        cl_platform_id id = tested_platform();
        REQUIRE(id != nullptr);
        return id;
    }();
    return first;
}

const std::vector<cl_device_id> &devices() {
    static const std::vector<cl_device_id> all = [] {
        cl_uint count = 0;
        CL_OK(clGetDeviceIDs(platform(), CL_DEVICE_TYPE_ALL, 0, nullptr, &count));
        std::vector<cl_device_id> list(count);
        CL_OK(clGetDeviceIDs(platform(), CL_DEVICE_TYPE_ALL, count, list.data(), nullptr));
        return list;
    }();
    return all;
}

bool is_cluster() { return info_text(clGetPlatformInfo, CL_PLATFORM_NAME, platform()) == "cldist"; }

bool has_several_processes() {
    cl_uint rank = 0;
    return clGetDeviceInfo(devices().front(), CL_DEVICE_RANK_DIST, sizeof rank, &rank, nullptr) ==
           CL_SUCCESS;
}

setup::setup(cl_command_queue_properties properties, of wanted)
    : context(wanted == of::its_own || are_cpus(devices()) ? context_of_all_devices()
                                                           : context_of_all_cases()) {
    for (std::size_t i = 0; i < devices().size(); ++i) queues.push_back(queue(i, properties));
}

queue_handle setup::queue(std::size_t device, cl_command_queue_properties properties) const {
    cl_int code = CL_SUCCESS;
    queue_handle made(clCreateCommandQueue(context, devices()[device], properties, &code));
    CL_OK(code);
    return made;
}

buffer_handle setup::buffer(std::size_t size, cl_mem_flags flags, void *host_ptr) const {
    cl_int code = CL_SUCCESS;
    buffer_handle made(clCreateBuffer(context, flags, size, host_ptr, &code));
    CL_OK(code);
    return made;
}

buffer_handle setup::sub_buffer(cl_mem parent, std::size_t origin, std::size_t size,
                                cl_mem_flags flags) const {
    cl_int code = CL_SUCCESS;
    const cl_buffer_region region{origin, size};
    buffer_handle made(
        clCreateSubBuffer(parent, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &code));
    CL_OK(code);
    return made;
}

event_handle setup::user_event() const {
    cl_int code = CL_SUCCESS;
    event_handle made(clCreateUserEvent(context, &code));
    CL_OK(code);
    return made;
}

program_handle setup::program(const std::string &source, const char *options) const {
    cl_int code = CL_SUCCESS;
    const char *text = source.c_str();
    program_handle made(clCreateProgramWithSource(context, 1, &text, nullptr, &code));
    CL_OK(code);
    CL_OK(clBuildProgram(made, 0, nullptr, options, nullptr, nullptr));
    return made;
}

kernel_handle setup::kernel(cl_program program, const char *name) const {
    cl_int code = CL_SUCCESS;
    kernel_handle made(clCreateKernel(program, name, &code));
    CL_OK(code);
    return made;
}

kernel_handle setup::kernel(const char *name) {
    if (program_.get() == nullptr) program_ = program(test_program);
    return kernel(program_, name);
}

void write(cl_command_queue queue, cl_mem buffer, std::size_t offset, const bytes &data) {
    CL_OK(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, offset, data.size(), data.data(), 0, nullptr,
                               nullptr));
}

bytes read(cl_command_queue queue, cl_mem buffer, std::size_t offset, std::size_t size) {
    bytes data(size);
    CL_OK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, offset, size, data.data(), 0, nullptr,
                              nullptr));
    return data;
}

void check_equal(const bytes &found, const bytes &wanted) {
    CHECK(found.size() == wanted.size());
    if (found == wanted) return;
    const auto [at, other] =
        std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end());
    if (at == found.end() || other == wanted.end()) return;
    FAIL_CHECK("byte " << at - found.begin() << " of " << found.size() << " is "
                       << static_cast<int>(*at) << ", not " << static_cast<int>(*other));
}

void expect(const setup &cl, cl_mem buffer, const bytes &wanted, std::size_t offset) {
    for (std::size_t i = 0; i < cl.count(); ++i) {
        CAPTURE(i);
        check_equal(read(cl.queues[i], buffer, offset, wanted.size()), wanted);
    }
}

cl_int status_of(cl_event event) {
    return info<cl_int>(clGetEventInfo, CL_EVENT_COMMAND_EXECUTION_STATUS, event);
}

void complete(cl_event event) {
    CL_OK(clWaitForEvents(1, &event));
    CHECK(status_of(event) == CL_COMPLETE);
}

}  // namespace cluster_test
