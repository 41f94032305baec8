// Buffers and sub-buffers as objects.
#include <algorithm>
#include <array>
#include <future>

#include "fixture.hpp"

using namespace cluster_test;

namespace {

cl_mem make_buffer(cl_context context, cl_mem_flags flags, std::size_t size, void *host_ptr,
                   cl_int *error) {
    return clCreateBuffer(context, flags, size, host_ptr, error);
}
cl_mem make_part(cl_mem buffer, cl_mem_flags flags, std::size_t origin, std::size_t size,
                 cl_int *error) {
    const cl_buffer_region region{origin, size};
    return clCreateSubBuffer(buffer, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, error);
}

/// The largest alignment that any device requires of sub-buffers, in bytes.
std::size_t alignment() {
    std::size_t largest = 1;
    for (const cl_device_id device : devices())
        largest = std::max<std::size_t>(
            largest, info<cl_uint>(clGetDeviceInfo, CL_DEVICE_MEM_BASE_ADDR_ALIGN, device) / 8);
    return largest;
}

/// The destructor callbacks in the order in which the platform called them.
struct Destroyed {
    std::vector<std::pair<cl_mem, int>> list;
    std::promise<void> all;
};
template <int number>
void CL_CALLBACK note_destroyed(cl_mem memory, void *to) {
    auto &destroyed = *static_cast<Destroyed *>(to);
    destroyed.list.emplace_back(memory, number);
    if (number == 1) destroyed.all.set_value();
}

}  // namespace

TEST_CASE("a buffer's information matches its arguments") {
    const setup cl;
    alignas(128) static std::array<unsigned char, 1000> host{};
    for (const cl_mem_flags flags :
         {cl_mem_flags{CL_MEM_READ_WRITE}, cl_mem_flags{CL_MEM_READ_ONLY | CL_MEM_HOST_WRITE_ONLY},
          cl_mem_flags{CL_MEM_WRITE_ONLY | CL_MEM_ALLOC_HOST_PTR},
          cl_mem_flags{CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR},
          cl_mem_flags{CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR}}) {
        CAPTURE(flags);
        const bool uses = (flags & CL_MEM_USE_HOST_PTR) != 0;
        const bool has_pointer = uses || (flags & CL_MEM_COPY_HOST_PTR) != 0;
        const buffer_handle buffer = cl.buffer(1000, flags, has_pointer ? host.data() : nullptr);
        CHECK(info<cl_mem_object_type>(clGetMemObjectInfo, CL_MEM_TYPE, buffer.get()) ==
              CL_MEM_OBJECT_BUFFER);
        CHECK(info<cl_mem_flags>(clGetMemObjectInfo, CL_MEM_FLAGS, buffer.get()) == flags);
        CHECK(info<std::size_t>(clGetMemObjectInfo, CL_MEM_SIZE, buffer.get()) == 1000);
        CHECK(info<void *>(clGetMemObjectInfo, CL_MEM_HOST_PTR, buffer.get()) ==
              (uses ? host.data() : nullptr));
        CHECK(info<cl_uint>(clGetMemObjectInfo, CL_MEM_MAP_COUNT, buffer.get()) == 0);
        CHECK(info<cl_uint>(clGetMemObjectInfo, CL_MEM_REFERENCE_COUNT, buffer.get()) == 1);
        CHECK(info<cl_context>(clGetMemObjectInfo, CL_MEM_CONTEXT, buffer.get()) == cl.context);
        CHECK(info<cl_mem>(clGetMemObjectInfo, CL_MEM_ASSOCIATED_MEMOBJECT, buffer.get()) ==
              nullptr);
        CHECK(info<std::size_t>(clGetMemObjectInfo, CL_MEM_OFFSET, buffer.get()) == 0);
        CHECK(info<cl_bool>(clGetMemObjectInfo, CL_MEM_USES_SVM_POINTER, buffer.get()) == CL_FALSE);
        CL_OK(clRetainMemObject(buffer));
        CHECK(info<cl_uint>(clGetMemObjectInfo, CL_MEM_REFERENCE_COUNT, buffer.get()) == 2);
        CL_OK(clReleaseMemObject(buffer));
        check_info_arguments(clGetMemObjectInfo, CL_MEM_SIZE, buffer.get());
    }
}

TEST_CASE("a sub-buffer's information contains its range, its flags and its buffer") {
    const setup cl;
    const std::size_t align = alignment();
    const buffer_handle buffer = cl.buffer(8 * align, CL_MEM_READ_WRITE | CL_MEM_HOST_READ_ONLY);
    const buffer_handle part = cl.sub_buffer(buffer, 2 * align, 3 * align + 5);
    CHECK(info<cl_mem>(clGetMemObjectInfo, CL_MEM_ASSOCIATED_MEMOBJECT, part.get()) == buffer);
    CHECK(info<std::size_t>(clGetMemObjectInfo, CL_MEM_OFFSET, part.get()) == 2 * align);
    CHECK(info<std::size_t>(clGetMemObjectInfo, CL_MEM_SIZE, part.get()) == 3 * align + 5);
    CHECK(info<cl_mem_flags>(clGetMemObjectInfo, CL_MEM_FLAGS, part.get()) ==
          (CL_MEM_READ_WRITE | CL_MEM_HOST_READ_ONLY));
    const buffer_handle read_only = cl.sub_buffer(buffer, 0, align, CL_MEM_READ_ONLY);
    CHECK((info<cl_mem_flags>(clGetMemObjectInfo, CL_MEM_FLAGS, read_only.get()) &
           CL_MEM_READ_ONLY) != 0);

    alignas(128) static std::array<unsigned char, 4096> host{};
    const buffer_handle hosted = cl.buffer(host.size(), CL_MEM_USE_HOST_PTR, host.data());
    const buffer_handle hosted_part = cl.sub_buffer(hosted, align, 100);
    CHECK(info<void *>(clGetMemObjectInfo, CL_MEM_HOST_PTR, hosted_part.get()) ==
          host.data() + align);
}

TEST_CASE("clCreateBuffer refuses invalid arguments") {
    const setup cl;
    int host = 0;
    CL_FAILS_TO_MAKE(CL_INVALID_CONTEXT, make_buffer(nullptr, 0, 4, nullptr, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_BUFFER_SIZE, make_buffer(cl.context, 0, 0, nullptr, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_BUFFER_SIZE,
                     make_buffer(cl.context, 0, std::size_t{1} << 62U, nullptr, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                     make_buffer(cl.context, cl_mem_flags{1} << 40U, 4, nullptr, &error));
    for (const cl_mem_flags flags :
         {CL_MEM_READ_WRITE | CL_MEM_READ_ONLY, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY,
          CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS,
          CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY})
        CL_FAILS_TO_MAKE(CL_INVALID_VALUE, make_buffer(cl.context, flags, 4, nullptr, &error));
    CL_FAILS_TO_MAKE(
        CL_INVALID_VALUE,
        make_buffer(cl.context, CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR, 4, &host, &error));
    CL_FAILS_TO_MAKE(
        CL_INVALID_VALUE,
        make_buffer(cl.context, CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR, 4, &host, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_HOST_PTR,
                     make_buffer(cl.context, CL_MEM_USE_HOST_PTR, 4, nullptr, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_HOST_PTR,
                     make_buffer(cl.context, CL_MEM_COPY_HOST_PTR, 4, nullptr, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_HOST_PTR,
                     make_buffer(cl.context, CL_MEM_READ_WRITE, 4, &host, &error));
    CHECK(make_buffer(cl.context, 0, 0, nullptr, nullptr) == nullptr);
    CL_FAILS(CL_INVALID_MEM_OBJECT, clRetainMemObject(nullptr));
    CL_FAILS(CL_INVALID_MEM_OBJECT, clReleaseMemObject(nullptr));
    CL_FAILS(CL_INVALID_MEM_OBJECT, clGetMemObjectInfo(nullptr, CL_MEM_SIZE, 0, nullptr, nullptr));
    CL_FAILS(CL_INVALID_MEM_OBJECT,
             clSetMemObjectDestructorCallback(nullptr, note_destroyed<0>, nullptr));
}

TEST_CASE("clCreateSubBuffer refuses invalid arguments") {
    const setup cl;
    const std::size_t align = alignment();
    const buffer_handle buffer = cl.buffer(8 * align);
    const buffer_handle part = cl.sub_buffer(buffer, 0, 4 * align);
    const buffer_handle read_only = cl.buffer(8 * align, CL_MEM_READ_ONLY | CL_MEM_HOST_READ_ONLY);
    const cl_buffer_region region{0, align};
    CL_FAILS_TO_MAKE(CL_INVALID_MEM_OBJECT, make_part(nullptr, 0, 0, align, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_MEM_OBJECT, make_part(part, 0, 0, align, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, make_part(buffer, 0, 7 * align, align + 1, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, make_part(buffer, 0, 9 * align, 1, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_BUFFER_SIZE, make_part(buffer, 0, 0, 0, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                     clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, nullptr, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, clCreateSubBuffer(buffer, 0, 0x7777, &region, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, make_part(buffer, CL_MEM_USE_HOST_PTR, 0, align, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, make_part(read_only, CL_MEM_READ_WRITE, 0, align, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, make_part(read_only, CL_MEM_WRITE_ONLY, 0, align, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                     make_part(read_only, CL_MEM_HOST_WRITE_ONLY, 0, align, &error));
    // NVIDIA's driver accepts any origin, and so does the cluster platform with NVIDIA's devices.
    const bool takes_any = std::any_of(devices().begin(), devices().end(), [](cl_device_id device) {
        return info<cl_uint>(clGetDeviceInfo, CL_DEVICE_VENDOR_ID, device) == 0x10de;
    });
    if (takes_any) {
        cl_int code = CL_INVALID_VALUE;
        const buffer_handle anywhere(make_part(buffer, 0, align / 2, align, &code));
        CL_OK(code);
    } else if (align > 1) {
        CL_FAILS_TO_MAKE(CL_MISALIGNED_SUB_BUFFER_OFFSET,
                         make_part(buffer, 0, align / 2, align, &error));
    }
}

TEST_CASE("sub-buffers and their buffer share their bytes on all devices") {
    const setup cl;
    const std::size_t align = alignment();
    const std::size_t size = 16 * align;
    const buffer_handle buffer = cl.buffer(size);
    bytes model = pattern(1, size);
    write(cl.queues[0], buffer, 0, model);
    // The sub-buffers overlap.
    const std::array<std::size_t, 3> origins = {2 * align, 4 * align, 9 * align};
    const std::size_t length = 5 * align + 3;
    std::vector<buffer_handle> parts;
    for (const std::size_t origin : origins) parts.push_back(cl.sub_buffer(buffer, origin, length));
    for (std::size_t i = 0; i < cl.count(); ++i) {
        for (std::size_t p = 0; p < parts.size(); ++p) {
            CAPTURE(i);
            CAPTURE(p);
            const std::size_t at = origins[p];
            const bytes data = pattern(10 * i + p, 100);
            write(cl.queues[i], parts[p], 17, data);
            std::copy(data.begin(), data.end(),
                      model.begin() + static_cast<std::ptrdiff_t>(at) + 17);
            const unsigned char filling = static_cast<unsigned char>(i + p);
            CL_OK(clEnqueueFillBuffer(cl.queues[(i + p) % cl.count()], parts[p], &filling, 1, 200,
                                      50, 0, nullptr, nullptr));
            CL_OK(clFinish(cl.queues[(i + p) % cl.count()]));
            std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(at) + 200, 50, filling);
            expect(cl, buffer, model);
            for (std::size_t q = 0; q < parts.size(); ++q)
                expect(cl, parts[q],
                       bytes(model.begin() + static_cast<std::ptrdiff_t>(origins[q]),
                             model.begin() + static_cast<std::ptrdiff_t>(origins[q] + length)));
        }
    }
    parts.resize(1);
}

TEST_CASE("a sub-buffer keeps its buffer") {
    const setup cl;
    buffer_handle part;
    const bytes data = pattern(2, 4096);
    {
        const buffer_handle buffer = cl.buffer(4096);
        write(cl.queues[0], buffer, 0, data);
        part = cl.sub_buffer(buffer, 1024, 2048);
    }
    expect(cl, part, bytes(data.begin() + 1024, data.begin() + 3072));
}

TEST_CASE("destructor callbacks of a buffer are called in reverse order after the last release") {
    const setup cl;
    Destroyed destroyed;
    cl_int error = CL_SUCCESS;
    const cl_mem buffer = clCreateBuffer(cl.context, 0, 4096, nullptr, &error);
    CL_OK(error);
    CL_OK(clSetMemObjectDestructorCallback(buffer, note_destroyed<1>, &destroyed));
    CL_OK(clSetMemObjectDestructorCallback(buffer, note_destroyed<2>, &destroyed));
    CL_OK(clSetMemObjectDestructorCallback(buffer, note_destroyed<3>, &destroyed));
    CL_FAILS(CL_INVALID_VALUE, clSetMemObjectDestructorCallback(buffer, nullptr, nullptr));
    write(cl.queues.back(), buffer, 0, pattern(1, 4096));
    CL_OK(clRetainMemObject(buffer));
    CL_OK(clReleaseMemObject(buffer));
    CHECK(destroyed.list.empty());
    CL_OK(clReleaseMemObject(buffer));
    destroyed.all.get_future().wait();  // a device may still use the memory of a blocking write
    CHECK(destroyed.list ==
          std::vector<std::pair<cl_mem, int>>{{buffer, 3}, {buffer, 2}, {buffer, 1}});
}

TEST_CASE(
    "a buffer is destroyed after the commands that use it, so the program may then reuse its "
    "memory") {
    const setup cl;
    for (const queue_handle &queue : cl.queues) {
        bytes memory = pattern(1, 4096);
        const bytes replaced(memory.size(), 7);
        std::promise<void> gone;
        std::pair<bytes *, std::promise<void> *> both{&memory, &gone};
        const event_handle go = cl.user_event();
        {
            const buffer_handle buffer =
                cl.buffer(memory.size(), CL_MEM_USE_HOST_PTR, memory.data());
            CL_OK(clSetMemObjectDestructorCallback(
                buffer,
                [](cl_mem, void *of) {
                    const auto &[data, promise] = *static_cast<decltype(both) *>(of);
                    std::fill(data->begin(), data->end(), 7);
                    promise->set_value();
                },
                &both));
            const cl_event wait = go;
            const cl_uchar zero = 0;
            CL_OK(
                clEnqueueFillBuffer(queue, buffer, &zero, 1, 0, memory.size(), 1, &wait, nullptr));
            CL_OK(clFlush(queue));
        }
        CL_OK(clSetUserEventStatus(go, CL_COMPLETE));
        CL_OK(clFinish(queue));
        gone.get_future().wait();
        check_equal(memory, replaced);
    }
}

TEST_CASE("a buffer can be created with an empty list of properties") {
    const setup cl;
    const cl_mem_properties none = 0;
    const cl_mem_properties unknown = 0x7777;
    cl_int error = CL_INVALID_VALUE;
    const buffer_handle buffer(
        clCreateBufferWithProperties(cl.context, &none, CL_MEM_READ_WRITE, 100, nullptr, &error));
    CL_OK(error);
    CHECK(info_list<cl_mem_properties>(clGetMemObjectInfo, CL_MEM_PROPERTIES, buffer.get()) ==
          std::vector<cl_mem_properties>{0});
    const buffer_handle plain(
        clCreateBufferWithProperties(cl.context, nullptr, CL_MEM_READ_WRITE, 100, nullptr, &error));
    CL_OK(error);
    CHECK(info_list<cl_mem_properties>(clGetMemObjectInfo, CL_MEM_PROPERTIES, plain.get()).empty());
    CL_FAILS_TO_MAKE(CL_INVALID_PROPERTY,
                     clCreateBufferWithProperties(cl.context, &unknown, CL_MEM_READ_WRITE, 100,
                                                  nullptr, &error));
}

TEST_CASE("thousands of buffers may be created and released") {
    const setup cl;
    for (unsigned round = 0; round < 2000; ++round) {
        const buffer_handle buffer = cl.buffer(64);
        if (round % 100 == 0) {
            const bytes data = pattern(round, 64);
            write(cl.queues[round / 100 % cl.count()], buffer, 0, data);
            expect(cl, buffer, data);
        }
    }
}
