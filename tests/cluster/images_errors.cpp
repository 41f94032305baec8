// Errors of the calls for images, one wrong argument at a time. On the cluster platform, all
// processes must get the same code. Codes that differ natively are tested only there.
#include <algorithm>
#include <climits>

#include "images.hpp"

namespace images_test {
namespace {

/// Checks for the specified code. Unless `everywhere`, checks only on the cluster platform, because
/// native platforms differ.
void check_code(cl_int code, cl_int specified, bool everywhere = true) {
    if (everywhere || on_cluster()) CHECK(code == specified);
}

struct creation {
    cl_mem_flags flags = CL_MEM_READ_WRITE;
    cl_image_format format = formats[0].format;
    cl_image_desc desc = shapes[3].desc();
    void *host_ptr = nullptr;

    cl_int code() const {
        cl_int code = CL_SUCCESS;
        const memory_handle image(
            clCreateImage(machine::get().context, flags, &format, &desc, host_ptr, &code));
        CHECK((image == nullptr) == (code != CL_SUCCESS));
        return code;
    }
};

constexpr bool cluster_only = false;

TEST_CASE("clCreateImage refuses each wrong argument") {
    const machine &m = machine::get();
    bytes memory(4096);
    cl_int code = CL_SUCCESS;
    const cl_image_desc right = shapes[3].desc();
    CHECK(creation().code() == CL_SUCCESS);
    CHECK(clCreateImage(nullptr, 0, &formats[0].format, &right, nullptr, &code) == nullptr);
    CHECK(code == CL_INVALID_CONTEXT);
    CHECK(clCreateImage(m.context, 0, nullptr, &right, nullptr, &code) == nullptr);
    CHECK(code == CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    CHECK(clCreateImage(m.context, 0, &formats[0].format, nullptr, nullptr, &code) == nullptr);
    CHECK(code == CL_INVALID_IMAGE_DESCRIPTOR);

    creation wrong;
    wrong.flags = CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;
    check_code(wrong.code(), CL_INVALID_VALUE, cluster_only);
    wrong = {};
    wrong.format.image_channel_order = 0x1234;
    check_code(wrong.code(), CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, cluster_only);
    wrong = {};
    wrong.format = {CL_RGB, CL_FLOAT};
    check_code(wrong.code(), CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, cluster_only);
    wrong = {};
    wrong.format = {CL_LUMINANCE, CL_SIGNED_INT8};
    check_code(wrong.code(), CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, cluster_only);
    wrong = {};
    wrong.desc.image_type = CL_MEM_OBJECT_BUFFER;
    check_code(wrong.code(), CL_INVALID_IMAGE_DESCRIPTOR, cluster_only);
    for (auto cl_image_desc::*member :
         {&cl_image_desc::image_width, &cl_image_desc::image_height}) {
        wrong = {};
        wrong.desc.*member = 0;
        check_code(wrong.code(), CL_INVALID_IMAGE_DESCRIPTOR, cluster_only);
        wrong.desc.*member = std::size_t{1} << 40;
        check_code(wrong.code(), CL_INVALID_IMAGE_SIZE, cluster_only);
    }
    wrong = {};
    wrong.desc.image_row_pitch = 64;  // without host memory
    check_code(wrong.code(), CL_INVALID_IMAGE_DESCRIPTOR, cluster_only);
    wrong = {CL_MEM_COPY_HOST_PTR, formats[0].format, right, memory.data()};
    CHECK(wrong.code() == CL_SUCCESS);
    wrong.desc.image_row_pitch = right.image_width * 4 - 4;
    check_code(wrong.code(), CL_INVALID_IMAGE_DESCRIPTOR, cluster_only);
    wrong.desc.image_row_pitch = right.image_width * 4 + 2;
    check_code(wrong.code(), CL_INVALID_IMAGE_DESCRIPTOR, cluster_only);
    wrong = {CL_MEM_COPY_HOST_PTR, formats[0].format, shapes[5].desc(), memory.data()};
    wrong.desc.image_slice_pitch = 4;
    check_code(wrong.code(), CL_INVALID_IMAGE_DESCRIPTOR, cluster_only);
    wrong = {CL_MEM_COPY_HOST_PTR, formats[0].format, right, nullptr};
    check_code(wrong.code(), CL_INVALID_HOST_PTR, cluster_only);
    wrong = {CL_MEM_READ_WRITE, formats[0].format, right, memory.data()};
    check_code(wrong.code(), CL_INVALID_HOST_PTR, cluster_only);
    wrong = {};
    wrong.desc = shapes[2].desc();  // without a buffer
    check_code(wrong.code(), CL_INVALID_IMAGE_DESCRIPTOR, cluster_only);
    const memory_handle small = make_buffer(16);
    wrong.desc.buffer = small;
    check_code(wrong.code(), CL_INVALID_IMAGE_DESCRIPTOR, cluster_only);
    if (on_cluster()) {
        // PoCL aborts the process here.
        wrong = {};
        wrong.desc.num_mip_levels = 2;
        CHECK(wrong.code() == CL_INVALID_IMAGE_DESCRIPTOR);
        // A valid format that images do not support. Only the devices' platforms know this.
        wrong = {};
        wrong.format = {CL_RGB, CL_UNORM_SHORT_565};
        cl_uint count = 0;
        CL_OK(clGetSupportedImageFormats(m.context, 0, CL_MEM_OBJECT_IMAGE2D, 0, nullptr, &count));
        std::vector<cl_image_format> list(count);
        CL_OK(clGetSupportedImageFormats(m.context, 0, CL_MEM_OBJECT_IMAGE2D, count, list.data(),
                                         nullptr));
        if (std::none_of(list.begin(), list.end(),
                         [](const cl_image_format &f) { return f.image_channel_order == CL_RGB; }))
            CHECK(wrong.code() == CL_IMAGE_FORMAT_NOT_SUPPORTED);
        // A 2D image of a buffer on a device that does not support such images.
        wrong = {};
        const memory_handle large = make_buffer(4096);
        wrong.desc.buffer = large;
        if (text_of(m.devices[0], CL_DEVICE_EXTENSIONS).find("cl_khr_image2d_from_buffer") ==
            std::string::npos)
            CHECK(wrong.code() == CL_INVALID_OPERATION);
        CHECK(clCreateImage2D(m.context, 0, &formats[0].format, 0, 1, 0, nullptr, &code) ==
              nullptr);
        CHECK(code == CL_INVALID_IMAGE_SIZE);
        CHECK(clCreateImage3D(m.context, 0, &formats[0].format, 1, 1, 0, 0, 0, nullptr, &code) ==
              nullptr);
        CHECK(code == CL_INVALID_IMAGE_SIZE);
    }
    // Valid calls still work afterwards.
    tested_image tested(shapes[3], formats[0]);
    tested.write_all(m.queue(0), 1);
    tested.check(m.queue(1));
}

TEST_CASE("queries of images refuse invalid arguments") {
    const machine &m = machine::get();
    cl_uint count = 0;
    CHECK(clGetSupportedImageFormats(nullptr, 0, CL_MEM_OBJECT_IMAGE2D, 0, nullptr, &count) ==
          CL_INVALID_CONTEXT);
    CHECK(clGetSupportedImageFormats(m.context, 0, CL_MEM_OBJECT_BUFFER, 0, nullptr, &count) ==
          CL_INVALID_VALUE);
    cl_image_format format{};
    CHECK(clGetSupportedImageFormats(m.context, 0, CL_MEM_OBJECT_IMAGE2D, 0, &format, &count) ==
          CL_INVALID_VALUE);
    CHECK(clGetSupportedImageFormats(m.context, 0, CL_MEM_OBJECT_IMAGE2D, 1, &format, &count) ==
          CL_SUCCESS);
    CHECK(count > 1);
    const tested_image tested(shapes[3], formats[0]);
    const memory_handle buffer = make_buffer(16);
    std::size_t width = 0;
    CHECK(clGetImageInfo(tested.image, CL_IMAGE_WIDTH, 1, &width, nullptr) == CL_INVALID_VALUE);
    CHECK(clGetImageInfo(tested.image, 0x1234, sizeof width, &width, nullptr) == CL_INVALID_VALUE);
    check_code(clGetImageInfo(buffer, CL_IMAGE_WIDTH, sizeof width, &width, nullptr),
               CL_INVALID_MEM_OBJECT, cluster_only);
}

TEST_CASE("commands on images refuse each wrong argument") {
    const machine &m = machine::get();
    const cl_command_queue queue = m.queue(1);
    const tested_image tested(shapes[3], formats[0]);
    const tested_image other(shapes[3], formats[1]);
    const cl_mem image = tested.image;
    const memory_handle buffer = make_buffer(1000);
    const box origin{};
    const box region = shapes[3].extent;
    bytes memory(1000);
    const auto read = [&](cl_command_queue on, cl_mem of, const size_t *from, const size_t *size,
                          std::size_t row, std::size_t slice, void *to) {
        return clEnqueueReadImage(on, of, CL_TRUE, from, size, row, slice, to, 0, nullptr, nullptr);
    };
    const auto write = [&](cl_command_queue on, cl_mem of, const size_t *from, const size_t *size,
                           std::size_t row, std::size_t slice, void *to) {
        return clEnqueueWriteImage(on, of, CL_TRUE, from, size, row, slice, to, 0, nullptr,
                                   nullptr);
    };
    const auto check_both = [&](const auto &transfer) {
        CHECK(transfer(nullptr, image, origin.data(), region.data(), 0, 0, memory.data()) ==
              CL_INVALID_COMMAND_QUEUE);
        CHECK(transfer(queue, nullptr, origin.data(), region.data(), 0, 0, memory.data()) ==
              CL_INVALID_MEM_OBJECT);
        CHECK(transfer(queue, buffer, origin.data(), region.data(), 0, 0, memory.data()) ==
              CL_INVALID_MEM_OBJECT);
        CHECK(transfer(queue, image, nullptr, region.data(), 0, 0, memory.data()) ==
              CL_INVALID_VALUE);
        CHECK(transfer(queue, image, origin.data(), nullptr, 0, 0, memory.data()) ==
              CL_INVALID_VALUE);
        CHECK(transfer(queue, image, origin.data(), region.data(), 0, 0, nullptr) ==
              CL_INVALID_VALUE);
        for (std::size_t i = 0; i < 3; ++i) {
            box wrong = region;
            ++wrong[i];
            CHECK(transfer(queue, image, origin.data(), wrong.data(), 0, 0, memory.data()) ==
                  CL_INVALID_VALUE);
            wrong[i] = 0;
            check_code(transfer(queue, image, origin.data(), wrong.data(), 0, 0, memory.data()),
                       CL_INVALID_VALUE, cluster_only);
            wrong = origin;
            wrong[i] = ~std::size_t{0};
            if (on_cluster())
                CHECK(transfer(queue, image, wrong.data(), region.data(), 0, 0, memory.data()) ==
                      CL_INVALID_VALUE);
        }
        if (!on_cluster()) return;  // PoCL doesn't check them
        CHECK(transfer(queue, image, origin.data(), region.data(), 35, 0, memory.data()) ==
              CL_INVALID_VALUE);
        CHECK(transfer(queue, image, origin.data(), region.data(), 0, 400, memory.data()) ==
              CL_INVALID_VALUE);
    };
    check_both(read);
    check_both(write);
    const tested_image deep(shapes[5], formats[0]);
    if (on_cluster())
        CHECK(read(queue, deep.image, origin.data(), shapes[5].extent.data(), 0, 100,
                   memory.data()) == CL_INVALID_VALUE);
    CHECK(clEnqueueReadImage(queue, image, CL_TRUE, origin.data(), region.data(), 0, 0,
                             memory.data(), 1, nullptr, nullptr) == CL_INVALID_EVENT_WAIT_LIST);

    const tested_image unread(shapes[3], formats[0], CL_MEM_HOST_WRITE_ONLY);
    const tested_image unwritten(shapes[3], formats[0], CL_MEM_HOST_READ_ONLY);
    CHECK(read(queue, unread.image, origin.data(), region.data(), 0, 0, memory.data()) ==
          CL_INVALID_OPERATION);
    CHECK(write(queue, unwritten.image, origin.data(), region.data(), 0, 0, memory.data()) ==
          CL_INVALID_OPERATION);

    const std::array<cl_uint, 4> color{};
    const auto fill = [&](cl_mem of, const void *with, const box &size) {
        return clEnqueueFillImage(queue, of, with, origin.data(), size.data(), 0, nullptr, nullptr);
    };
    CHECK(fill(image, nullptr, region) == CL_INVALID_VALUE);
    CHECK(fill(buffer, color.data(), region) == CL_INVALID_MEM_OBJECT);
    CHECK(fill(image, color.data(), {10, 1, 1}) == CL_INVALID_VALUE);

    const auto copy = [&](cl_mem from, cl_mem to, const box &at, const box &size) {
        return clEnqueueCopyImage(queue, from, to, origin.data(), at.data(), size.data(), 0,
                                  nullptr, nullptr);
    };
    CHECK(copy(image, other.image, origin, region) == CL_IMAGE_FORMAT_MISMATCH);
    check_code(copy(image, image, {1, 1, 0}, {2, 2, 1}), CL_MEM_COPY_OVERLAP, cluster_only);
    CHECK(copy(image, buffer, origin, region) == CL_INVALID_MEM_OBJECT);
    if (on_cluster()) CHECK(copy(image, deep.image, {4, 0, 0}, {3, 1, 1}) == CL_INVALID_VALUE);

    CHECK(clEnqueueCopyImageToBuffer(queue, image, buffer, origin.data(), region.data(), 800, 0,
                                     nullptr, nullptr) == CL_INVALID_VALUE);
    CHECK(clEnqueueCopyImageToBuffer(queue, buffer, buffer, origin.data(), region.data(), 0, 0,
                                     nullptr, nullptr) == CL_INVALID_MEM_OBJECT);
    CHECK(clEnqueueCopyBufferToImage(queue, buffer, image, 800, origin.data(), region.data(), 0,
                                     nullptr, nullptr) == CL_INVALID_VALUE);
    CHECK(clEnqueueCopyBufferToImage(queue, image, image, 0, origin.data(), region.data(), 0,
                                     nullptr, nullptr) == CL_INVALID_MEM_OBJECT);

    std::size_t row = 0;
    std::size_t slice = 0;
    const auto map = [&](cl_mem of, cl_map_flags flags, const box &size, std::size_t *rows,
                         std::size_t *slices) {
        cl_int code = CL_SUCCESS;
        CHECK(clEnqueueMapImage(queue, of, CL_TRUE, flags, origin.data(), size.data(), rows, slices,
                                0, nullptr, nullptr, &code) == nullptr);
        return code;
    };
    CHECK(map(buffer, CL_MAP_READ, region, &row, &slice) == CL_INVALID_MEM_OBJECT);
    CHECK(map(image, CL_MAP_READ, {10, 6, 1}, &row, &slice) == CL_INVALID_VALUE);
    CHECK(map(image, CL_MAP_READ, region, nullptr, &slice) == CL_INVALID_VALUE);
    CHECK(map(deep.image, CL_MAP_READ, shapes[5].extent, &row, nullptr) == CL_INVALID_VALUE);
    CHECK(map(unread.image, CL_MAP_READ, region, &row, &slice) == CL_INVALID_OPERATION);
    CHECK(map(unwritten.image, CL_MAP_WRITE, region, &row, &slice) == CL_INVALID_OPERATION);
    if (on_cluster())
        CHECK(map(image, CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, region, &row, &slice) ==
              CL_INVALID_VALUE);
    check_code(clEnqueueUnmapMemObject(queue, image, memory.data(), 0, nullptr, nullptr),
               CL_INVALID_VALUE);
}

TEST_CASE("kernels refuse memory objects of a wrong kind and images with forbidden access") {
    if (!on_cluster()) {
        MESSAGE("skipped: PoCL accepts them");
        return;
    }
    const kernel_handle kernel = make_kernel("add_2d");
    const memory_handle buffer = make_buffer(64);
    const tested_image read_only(shapes[3], formats[1], CL_MEM_READ_ONLY);
    const tested_image write_only(shapes[3], formats[1], CL_MEM_WRITE_ONLY);
    const auto set = [&](cl_uint index, cl_mem memory) {
        return clSetKernelArg(kernel, index, sizeof memory, &memory);
    };
    CHECK(set(0, buffer) == CL_INVALID_MEM_OBJECT);
    CHECK(set(0, write_only.image) == CL_INVALID_ARG_VALUE);
    CHECK(set(1, read_only.image) == CL_INVALID_ARG_VALUE);
    CHECK(set(0, read_only.image) == CL_SUCCESS);
    CHECK(set(1, write_only.image) == CL_SUCCESS);
    const kernel_handle sum = make_kernel("sum_1d");
    const cl_mem image = read_only.image;
    CHECK(clSetKernelArg(sum, 1, sizeof image, &image) == CL_INVALID_MEM_OBJECT);
}

}  // namespace
}  // namespace images_test
