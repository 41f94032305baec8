// A call must ignore values that it does not need: unused fields of structures, meaningless
// arguments, memory behind the end of a list. Here these values differ between processes, and the
// lists end at unreadable memory. All calls must still count as equal in all processes.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>

#include "fixture.hpp"

using namespace cluster_test;

namespace {

/// A nonzero number that differs between processes and calls.
std::size_t garbage() {
    static auto state = static_cast<std::uint64_t>(getpid());
    state = state * 6364136223846793005U + 1442695040888963407U;
    return state | 1U;
}

/// Memory in front of an unreadable page.
class edge {
public:
    edge() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
        void *const begin =
            mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(begin != MAP_FAILED);
        begin_ = static_cast<char *>(begin);
        REQUIRE(mprotect(end(), page_, PROT_NONE) == 0);
    }
    edge(const edge &) = delete;
    edge &operator=(const edge &) = delete;
    ~edge() { munmap(begin_, 2 * page_); }

    /// Copies the values to the end of the readable memory.
    template <typename T>
    T *copy(std::initializer_list<T> values) {
        return copy(values.begin(), values.size());
    }
    template <typename T>
    T *copy(const T *values, std::size_t count) {
        char *const at = end() - count * sizeof(T);
        std::memcpy(at, values, count * sizeof(T));
        return reinterpret_cast<T *>(at);
    }
    char *end() const { return begin_ + page_; }

private:
    std::size_t page_;
    char *begin_;
};

bool has_images() {
    return std::all_of(devices().begin(), devices().end(), [](cl_device_id device) {
        return info<cl_bool>(clGetDeviceInfo, CL_DEVICE_IMAGE_SUPPORT, device) == CL_TRUE;
    });
}

/// A descriptor with arbitrary fields. Only the fields that must be zero in most calls are zero.
cl_image_desc unset_desc() {
    cl_image_desc desc;
    std::array<std::size_t, sizeof desc / sizeof(std::size_t)> words{};
    for (std::size_t &word : words) word = garbage();
    std::memcpy(&desc, words.data(), sizeof desc);
    desc.image_row_pitch = 0;
    desc.num_mip_levels = 0;
    desc.num_samples = 0;
    desc.buffer = nullptr;
    return desc;
}

constexpr cl_image_format rgba{CL_RGBA, CL_UNSIGNED_INT8};

void CL_CALLBACK note_nothing(cl_event, cl_int, void *) {}
void CL_CALLBACK note_no_error(const char *, const void *, size_t, void *) {}
void CL_CALLBACK note_no_build(cl_program, void *) {}

}  // namespace

TEST_CASE("a call that creates an image reads only the fields that its type has") {
    if (!has_images()) return;
    const setup cl;
    const buffer_handle buffer = cl.buffer(4096);
    struct shape {
        cl_mem_object_type type;
        bool height, depth, layers, slices;
    };
    constexpr std::array<shape, 6> shapes{
        {{CL_MEM_OBJECT_IMAGE1D, false, false, false, false},
         {CL_MEM_OBJECT_IMAGE1D_BUFFER, false, false, false, false},
         {CL_MEM_OBJECT_IMAGE1D_ARRAY, false, false, true, true},
         {CL_MEM_OBJECT_IMAGE2D, true, false, false, false},
         {CL_MEM_OBJECT_IMAGE2D_ARRAY, true, false, true, true},
         {CL_MEM_OBJECT_IMAGE3D, true, true, false, true}}};
    edge desc_edge;
    edge format_edge;
    const auto *const format = format_edge.copy({rgba});
    for (const shape &each : shapes) {
        CAPTURE(each.type);
        cl_image_desc desc = unset_desc();
        desc.image_type = each.type;
        desc.image_width = 8;
        if (each.height) desc.image_height = 4;
        if (each.depth) desc.image_depth = 2;
        if (each.layers) desc.image_array_size = 2;
        // PoCL 3.1 checks the slice pitch even for types without slices.
        if (each.slices || !is_cluster()) desc.image_slice_pitch = 0;
        if (each.type == CL_MEM_OBJECT_IMAGE1D_BUFFER) desc.buffer = buffer;
        cl_int code = CL_SUCCESS;
        const buffer_handle image(clCreateImage(cl.context, CL_MEM_READ_WRITE, format,
                                                desc_edge.copy({desc}), nullptr, &code));
        CL_OK(code);
        CHECK(info<std::size_t>(clGetImageInfo, CL_IMAGE_WIDTH, image.get()) == 8);
        if (is_cluster()) {  // PoCL 3.1 returns the ignored values
            CHECK(info<std::size_t>(clGetImageInfo, CL_IMAGE_HEIGHT, image.get()) ==
                  (each.height ? 4 : 0));
            CHECK(info<std::size_t>(clGetImageInfo, CL_IMAGE_DEPTH, image.get()) ==
                  (each.depth ? 2 : 0));
            CHECK(info<std::size_t>(clGetImageInfo, CL_IMAGE_ARRAY_SIZE, image.get()) ==
                  (each.layers ? 2 : 0));
        }
        const std::array<std::size_t, 3> origin{};
        std::array<std::size_t, 3> region{8, 1, 1};
        if (each.height) region[1] = 4;
        if (each.layers) region[each.height ? 2 : 1] = 2;
        if (each.depth) region[2] = 2;
        bytes wanted(region[0] * region[1] * region[2] * 4);
        for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<unsigned char>(i);
        bytes found(wanted.size());
        CL_OK(clEnqueueWriteImage(cl.queues.front(), image, CL_TRUE, origin.data(), region.data(),
                                  0, 0, wanted.data(), 0, nullptr, nullptr));
        CL_OK(clEnqueueReadImage(cl.queues.back(), image, CL_TRUE, origin.data(), region.data(), 0,
                                 0, found.data(), 0, nullptr, nullptr));
        check_equal(found, wanted);
    }
}

TEST_CASE("an invalid memory object for an image is not accessed") {
    if (!has_images() || !is_cluster()) return;  // PoCL 3.1 accepts some of them
    const setup cl;
    const edge nowhere;
    cl_image_desc desc = unset_desc();
    desc.image_type = CL_MEM_OBJECT_IMAGE1D;
    desc.image_width = 8;
    desc.buffer = reinterpret_cast<cl_mem>(nowhere.end());
    CL_FAILS_TO_MAKE(CL_INVALID_IMAGE_DESCRIPTOR,
                     clCreateImage(cl.context, CL_MEM_READ_WRITE, &rgba, &desc, nullptr, &error));
    // The failing calls must leave the numbering of objects the same in all processes.
    desc.buffer = nullptr;
    desc.num_mip_levels = static_cast<cl_uint>(garbage());
    CL_FAILS_TO_MAKE(CL_INVALID_IMAGE_DESCRIPTOR,
                     clCreateImage(cl.context, CL_MEM_READ_WRITE, &rgba, &desc, nullptr, &error));
    desc.image_type = static_cast<cl_mem_object_type>(CL_MEM_OBJECT_BUFFER);
    desc.image_width = garbage();
    CL_FAILS_TO_MAKE(CL_INVALID_IMAGE_DESCRIPTOR,
                     clCreateImage(cl.context, CL_MEM_READ_WRITE, &rgba, &desc, nullptr, &error));
    const buffer_handle buffer = cl.buffer(64);
    write(cl.queues.back(), buffer, 0, bytes(64, 5));
    expect(cl, buffer, bytes(64, 5));
}

TEST_CASE("an image with depths is filled with one number") {
    if (!has_images()) return;
    const setup cl;
    const cl_image_format depth{CL_DEPTH, CL_FLOAT};
    cl_image_desc desc{};
    desc.image_type = CL_MEM_OBJECT_IMAGE2D;
    desc.image_width = desc.image_height = 4;
    cl_int code = CL_SUCCESS;
    const buffer_handle image(
        clCreateImage(cl.context, CL_MEM_READ_WRITE, &depth, &desc, nullptr, &code));
    if (code != CL_SUCCESS) return;  // some drivers have no such images
    edge color;
    const std::array<std::size_t, 3> origin{};
    const std::array<std::size_t, 3> region{4, 4, 1};
    CL_OK(clEnqueueFillImage(cl.queues.back(), image, color.copy({0.5F}), origin.data(),
                             region.data(), 0, nullptr, nullptr));
    CL_OK(clFinish(cl.queues.back()));
}

TEST_CASE("property lists are read up to their end, without the values of unknown names") {
    const setup cl;
    const cl_device_id device = devices().back();
    edge list;
    cl_int code = CL_SUCCESS;
    const context_handle context(clCreateContext(
        list.copy<cl_context_properties>(
            {CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(platform()), 0}),
        1, &device, nullptr, nullptr, &code));
    CL_OK(code);
    const queue_handle queue(clCreateCommandQueueWithProperties(
        cl.context, device,
        list.copy<cl_queue_properties>({CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0}),
        &code));
    CL_OK(code);
    CL_FAILS_TO_MAKE(
        CL_INVALID_VALUE,
        clCreateCommandQueueWithProperties(
            cl.context, device, list.copy<cl_queue_properties>({0x7777, garbage(), 0}), &error));
    cl_uint count = 0;
    const auto *const equally =
        list.copy<cl_device_partition_property>({CL_DEVICE_PARTITION_EQUALLY, 1, 0});
    const cl_int parted =
        clCreateSubDevices(device, equally, static_cast<cl_uint>(garbage()), nullptr, &count);
    CHECK((parted == CL_SUCCESS || parted == CL_DEVICE_PARTITION_FAILED ||
           parted == CL_INVALID_VALUE));
    if (!is_cluster()) return;  // PoCL 3.1 ignores unknown names
    // For example, the handle of an OpenGL context.
    const auto address = static_cast<cl_context_properties>(garbage());
    CL_FAILS_TO_MAKE(CL_INVALID_PROPERTY,
                     clCreateContext(list.copy<cl_context_properties>({0x2008, address, 0}), 1,
                                     &device, nullptr, nullptr, &error));
    if (has_images()) {
        const cl_sampler sampler = clCreateSamplerWithProperties(
            cl.context,
            list.copy<cl_sampler_properties>({CL_SAMPLER_FILTER_MODE, CL_FILTER_LINEAR, 0}), &code);
        CL_OK(code);
        CL_OK(clReleaseSampler(sampler));
    }
    // The number of values that follow an unknown name is unknown.
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                     clCreateSamplerWithProperties(
                         cl.context, list.copy<cl_sampler_properties>({0x7777}), &error));
    CL_FAILS_TO_MAKE(CL_INVALID_PROPERTY, clCreateBufferWithProperties(
                                              cl.context, list.copy<cl_mem_properties>({0x7777}),
                                              CL_MEM_READ_WRITE, 100, nullptr, &error));
}

TEST_CASE("the size of an unwanted answer may be anything") {
    setup cl;
    const kernel_handle kernel = cl.kernel("add");
    const auto program = info<cl_program>(clGetKernelInfo, CL_KERNEL_PROGRAM, kernel.get());
    std::size_t size = 0;
    CL_OK(clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, garbage(), nullptr, &size));
    CHECK(size == sizeof "add;copy");
    CL_OK(clGetProgramBuildInfo(program, devices().back(), CL_PROGRAM_BUILD_LOG, garbage(), nullptr,
                                &size));
    cl_uint count = 0;
    // PoCL 3.1 checks the count although there is no list.
    CL_OK(clCreateKernelsInProgram(program, is_cluster() ? static_cast<cl_uint>(garbage()) : 0,
                                   nullptr, &count));
    CHECK(count == 2);
    if (has_images())
        CL_OK(clGetSupportedImageFormats(cl.context, CL_MEM_READ_ONLY, CL_MEM_OBJECT_IMAGE2D,
                                         static_cast<cl_uint>(garbage()), nullptr, &count));
    event_handle event;
    CL_OK(clEnqueueMarkerWithWaitList(cl.queues.back(), 0, nullptr, event.out()));
    complete(event);
    CL_OK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, garbage(), nullptr, &size));
    CL_OK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, garbage(), nullptr, &size));
    CHECK(size == sizeof(cl_ulong));
}

TEST_CASE("the user data of a callback may be anything") {
    setup cl;
    for (int i = 0; i < 8; ++i) {
        void *const data = (garbage() >> 20U & 1U) != 0 ? &cl : nullptr;
        cl_int code = CL_SUCCESS;
        const cl_device_id device = devices().back();
        const context_handle context(
            clCreateContext(nullptr, 1, &device, note_no_error, data, &code));
        CL_OK(code);
        event_handle event;
        CL_OK(clEnqueueMarkerWithWaitList(cl.queues.back(), 0, nullptr, event.out()));
        CL_OK(clSetEventCallback(event, CL_COMPLETE, note_nothing, data));
        complete(event);
        const char *const text = "kernel void k(global int *a) { a[0] = 1; }";
        const program_handle program(clCreateProgramWithSource(
            cl.context, 1, const_cast<const char **>(&text), nullptr, &code));
        CL_OK(code);
        CL_OK(clBuildProgram(program, 1, &device, "", note_no_build, data));
        // The build may end after the call.
        while (info<cl_build_status>(clGetProgramBuildInfo, CL_PROGRAM_BUILD_STATUS, program.get(),
                                     device) == CL_BUILD_IN_PROGRESS)
            usleep(1000);
    }
}

TEST_CASE("patterns, regions, texts, lists and values are read up to their end") {
    setup cl;
    const cl_command_queue queue = cl.queues.back();
    const buffer_handle buffer = cl.buffer(4096);
    edge all;
    for (std::size_t size = 1; size <= 128; size *= 2) {
        const bytes pattern(size, static_cast<unsigned char>(size));
        CL_OK(clEnqueueFillBuffer(queue, buffer, all.copy(pattern.data(), size), size, 0, 4096, 0,
                                  nullptr, nullptr));
    }
    CL_OK(clFinish(queue));
    expect(cl, buffer, bytes(4096, 128));

    cl_int code = CL_SUCCESS;
    const buffer_handle part(clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION,
                                               all.copy({cl_buffer_region{0, 128}}), &code));
    CL_OK(code);
    if (is_cluster()) {
        CL_FAILS(CL_INVALID_VALUE, clEnqueueFillBuffer(queue, buffer, all.copy({'x'}), 100, 0, 100,
                                                       0, nullptr, nullptr));
        CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                         clCreateSubBuffer(buffer, 0, 0x7777, all.copy({garbage()}), &error));
    }

    // Two texts, the first with a length, and the list of both.
    const std::string source =
        "kernel void set(global uchar *a, uchar value) { a[get_global_id(0)] = value; }";
    edge text;
    edge lengths;
    const std::array<const char *, 2> texts{text.copy(source.data(), source.size()), "\n"};
    const program_handle program(
        clCreateProgramWithSource(cl.context, 2, all.copy(texts.data(), texts.size()),
                                  lengths.copy<std::size_t>({source.size(), 0}), &code));
    CL_OK(code);
    CL_OK(clBuildProgram(program, 1, all.copy(&devices().back(), 1), "", nullptr, nullptr));
    const kernel_handle set = cl.kernel(program, "set");
    CL_OK(clSetKernelArg(set, 0, sizeof(cl_mem), all.copy({buffer.get()})));
    CL_OK(clSetKernelArg(set, 1, 1, all.copy<cl_uchar>({7})));
    CL_FAILS(CL_INVALID_ARG_SIZE, clSetKernelArg(set, 1, 4, all.copy<cl_uchar>({9})));
    const event_handle user = cl.user_event();
    CL_OK(clEnqueueNDRangeKernel(queue, set, 1, lengths.copy<std::size_t>({0}),
                                 text.copy<std::size_t>({4096}), nullptr, 1, all.copy({user.get()}),
                                 nullptr));
    if (is_cluster())
        CL_FAILS(CL_INVALID_WORK_DIMENSION,
                 clEnqueueNDRangeKernel(queue, set, 4, nullptr, text.copy<std::size_t>({4096}),
                                        nullptr, 0, nullptr, nullptr));
    CL_OK(clSetUserEventStatus(user, CL_COMPLETE));
    CL_OK(clFinish(queue));
    expect(cl, buffer, bytes(4096, 7));
    edge origin;
    edge region;
    bytes found(16);
    CL_OK(clEnqueueReadBufferRect(queue, buffer, CL_TRUE, origin.copy<std::size_t>({0, 0, 0}),
                                  lengths.copy<std::size_t>({0, 0, 0}),
                                  region.copy<std::size_t>({4, 4, 1}), 0, 0, 0, 0, found.data(), 0,
                                  nullptr, nullptr));
    check_equal(found, bytes(16, 7));
}

TEST_CASE("a structure argument of a kernel may contain padding") {
    setup cl;
    const program_handle program = cl.program(
        "struct pair { char small; int large; };"
        "kernel void k(global int *a, struct pair p, int3 v) { a[0] = p.small + p.large + v.x + "
        "v.y + v.z; }");
    const kernel_handle kernel = cl.kernel(program, "k");
    const buffer_handle buffer = cl.buffer(sizeof(cl_int));
    struct pair {
        char small;
        cl_int large;
    };
    pair value;
    const std::array<std::size_t, 1> filling{garbage()};
    std::memcpy(&value, filling.data(), sizeof value);
    value.small = 1;
    value.large = 20;
    const std::array<cl_int, 4> vector{300, 4000, 50000, static_cast<cl_int>(garbage())};
    CL_OK(clSetKernelArg(kernel, 0, sizeof(cl_mem), &buffer));
    CL_OK(clSetKernelArg(kernel, 1, sizeof value, &value));
    CL_OK(clSetKernelArg(kernel, 2, sizeof vector, vector.data()));
    const std::size_t one = 1;
    CL_OK(clEnqueueNDRangeKernel(cl.queues.back(), kernel, 1, nullptr, &one, nullptr, 0, nullptr,
                                 nullptr));
    cl_int sum = 0;
    CL_OK(clEnqueueReadBuffer(cl.queues.back(), buffer, CL_TRUE, 0, sizeof sum, &sum, 0, nullptr,
                              nullptr));
    CHECK(sum == 54321);
}
