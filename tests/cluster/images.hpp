/// Shared by the tests of images: a context of all devices of the first platform, and images with
/// known bytes. The tests are plain OpenCL. They run natively, and on the cluster platform in any
/// number of processes.
///
/// Environment:
///   CLDIST_TEST_DEVICES  required number of devices; not checked if it is unset
///   CLDIST_TEST_SEED     seed of the random program (default 1)
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "opencl_handles.hpp"
#include "tested_platform.hpp"

namespace images_test {

using cldist_test::bytes;
using cldist_test::event_handle;
using cldist_test::kernel_handle;
using cldist_test::sampler_handle;
using box = std::array<std::size_t, 3>;

// ---- OpenCL objects that all cases share ------------------------------------------------------

using memory_handle = cldist_test::owned<cl_mem, clReleaseMemObject>;

inline std::string text_of(cl_device_id device, cl_device_info param) {
    std::size_t size = 0;
    clGetDeviceInfo(device, param, 0, nullptr, &size);
    std::string text(size, '\0');
    clGetDeviceInfo(device, param, size, text.data(), nullptr);
    text.resize(std::strlen(text.c_str()));
    return text;
}

inline constexpr const char *program_source = R"(
constant sampler_t exact = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;

kernel void add_2d(read_only image2d_t from, write_only image2d_t to, float4 what) {
    const int2 at = (int2)(get_global_id(0), get_global_id(1));
    write_imagef(to, at, read_imagef(from, exact, at) + what);
}
kernel void add_2d_uint(read_only image2d_t from, write_only image2d_t to, uint4 what) {
    const int2 at = (int2)(get_global_id(0), get_global_id(1));
    write_imageui(to, at, read_imageui(from, exact, at) + what);
}
kernel void add_2d_array(read_only image2d_array_t from, write_only image2d_array_t to, uint4 what) {
    const int4 at = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);
    write_imageui(to, at, read_imageui(from, exact, at) + what);
}
kernel void sample(read_only image2d_t from, sampler_t sampler, global float4 *to) {
    to[get_global_id(0)] = read_imagef(from, sampler, (float2)(get_global_id(0) + 1.0f, 0.5f));
}
kernel void sum_3d(read_only image3d_t from, global uint *sum) {
    uint all = 0;
    for (int z = 0; z < get_image_depth(from); ++z)
        for (int y = 0; y < get_image_height(from); ++y)
            for (int x = 0; x < get_image_width(from); ++x) all += read_imageui(from, exact, (int4)(x, y, z, 0)).x;
    *sum = all;
}
kernel void sum_1d(read_only image1d_t from, global uint *sum) {
    uint all = 0;
    for (int x = 0; x < get_image_width(from); ++x) all += read_imageui(from, exact, x).x;
    *sum = all;
}
kernel void sum_buffer(read_only image1d_buffer_t from, global uint *sum, int width) {
    uint all = 0;
    for (int x = 0; x < width; ++x) all += read_imageui(from, x).x;
    *sum = all;
}
)";

struct machine {
    cl_platform_id platform = nullptr;
    std::vector<cl_device_id> devices;
    cl_context context = nullptr;
    std::vector<cl_command_queue> queues;
    cl_program program = nullptr;

    static machine &get() {
        static machine the_one;
        return the_one;
    }
    cl_command_queue queue(std::size_t i) const { return queues[i % queues.size()]; }
    std::size_t count() const { return queues.size(); }

private:
    machine() {
        platform = cluster_test::tested_platform();
        cl_uint number = 0;
        CL_OK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &number));
        devices.resize(number);
        CL_OK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, number, devices.data(), nullptr));
        cl_int code = CL_SUCCESS;
        context = clCreateContext(nullptr, number, devices.data(), nullptr, nullptr, &code);
        CL_OK(code);
        for (const cl_device_id device : devices) {
            queues.push_back(clCreateCommandQueue(context, device, 0, &code));
            CL_OK(code);
        }
        program = clCreateProgramWithSource(context, 1, const_cast<const char **>(&program_source),
                                            nullptr, &code);
        CL_OK(code);
        CL_OK(clBuildProgram(program, 0, nullptr, "-cl-kernel-arg-info", nullptr, nullptr));
    }
};

inline bool on_cluster() {
    std::string name(200, '\0');
    clGetPlatformInfo(machine::get().platform, CL_PLATFORM_NAME, name.size(), name.data(), nullptr);
    return name.find("cldist") != std::string::npos;
}

/// NVIDIA's driver (580) refuses copies between arrays of 1D images and other objects with
/// CL_INVALID_VALUE. So does the cluster platform on such devices.
inline bool copies_arrays_of_1d_images() {
    constexpr cl_uint nvidia = 0x10de;
    const auto &devices = machine::get().devices;
    return std::none_of(devices.begin(), devices.end(), [](cl_device_id device) {
        cl_uint vendor = 0;
        CL_OK(clGetDeviceInfo(device, CL_DEVICE_VENDOR_ID, sizeof vendor, &vendor, nullptr));
        return vendor == nvidia;
    });
}

inline kernel_handle make_kernel(const char *name) {
    cl_int code = CL_SUCCESS;
    kernel_handle kernel(clCreateKernel(machine::get().program, name, &code));
    CL_OK(code);
    return kernel;
}
template <typename T>
void set_argument(cl_kernel kernel, cl_uint index, const T &value) {
    CL_OK(clSetKernelArg(kernel, index, sizeof value, &value));
}
inline void set_memory(cl_kernel kernel, cl_uint index, cl_mem memory) {
    set_argument(kernel, index, memory);
}

inline memory_handle make_buffer(std::size_t size, const void *contents = nullptr) {
    cl_int code = CL_SUCCESS;
    memory_handle buffer(clCreateBuffer(machine::get().context,
                                        contents != nullptr ? CL_MEM_COPY_HOST_PTR : 0, size,
                                        const_cast<void *>(contents), &code));
    CL_OK(code);
    return buffer;
}

// ---- Images and their expected contents -------------------------------------------------------

struct shape {
    std::string name;
    cl_mem_object_type type;
    box extent;  // a layer of an array counts as a row or a slice

    cl_image_desc desc() const {
        cl_image_desc d{};
        d.image_type = type;
        d.image_width = extent[0];
        if (type == CL_MEM_OBJECT_IMAGE2D || type == CL_MEM_OBJECT_IMAGE2D_ARRAY ||
            type == CL_MEM_OBJECT_IMAGE3D)
            d.image_height = extent[1];
        if (type == CL_MEM_OBJECT_IMAGE3D) d.image_depth = extent[2];
        if (type == CL_MEM_OBJECT_IMAGE1D_ARRAY) d.image_array_size = extent[1];
        if (type == CL_MEM_OBJECT_IMAGE2D_ARRAY) d.image_array_size = extent[2];
        return d;
    }
    bool has_slices() const {
        return type == CL_MEM_OBJECT_IMAGE1D_ARRAY || type == CL_MEM_OBJECT_IMAGE2D_ARRAY ||
               type == CL_MEM_OBJECT_IMAGE3D;
    }
};

inline const std::vector<shape> shapes = {
    {"1D", CL_MEM_OBJECT_IMAGE1D, {13, 1, 1}},
    {"1D array", CL_MEM_OBJECT_IMAGE1D_ARRAY, {7, 5, 1}},
    {"1D buffer", CL_MEM_OBJECT_IMAGE1D_BUFFER, {29, 1, 1}},
    {"2D", CL_MEM_OBJECT_IMAGE2D, {9, 6, 1}},
    {"2D array", CL_MEM_OBJECT_IMAGE2D_ARRAY, {5, 4, 3}},
    {"3D", CL_MEM_OBJECT_IMAGE3D, {6, 5, 4}},
};

struct pixel_format {
    std::string name;
    cl_image_format format;
    std::size_t size;
};
inline const std::vector<pixel_format> formats = {{"RGBA, 8 bits", {CL_RGBA, CL_UNSIGNED_INT8}, 4},
                                                  {"R, float", {CL_R, CL_FLOAT}, 4},
                                                  {"RGBA, 16 bits", {CL_RGBA, CL_SIGNED_INT16}, 8}};

inline bytes random_bytes(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    bytes values(size);
    for (unsigned char &value : values) value = static_cast<unsigned char>(random());
    return values;
}

inline std::size_t volume(const box &region) { return region[0] * region[1] * region[2]; }

/// The row and slice pitch of a region in the program's memory, in bytes.
struct layout {
    std::size_t row;
    std::size_t slice;
};

inline void copy_box(unsigned char *to, layout to_layout, const unsigned char *from,
                     layout from_layout, const box &region, std::size_t element) {
    for (std::size_t z = 0; z < region[2]; ++z)
        for (std::size_t y = 0; y < region[1]; ++y)
            std::memcpy(to + z * to_layout.slice + y * to_layout.row,
                        from + z * from_layout.slice + y * from_layout.row, region[0] * element);
}

/// An image and its expected bytes, without gaps.
struct tested_image {
    shape of;
    std::size_t element;
    memory_handle buffer;  // storage of a 1D buffer image
    memory_handle image;
    bytes expected;

    tested_image(const shape &of_in, const pixel_format &format,
                 cl_mem_flags flags = CL_MEM_READ_WRITE)
        : of(of_in), element(format.size), expected(volume(of.extent) * format.size) {
        cl_image_desc desc = of.desc();
        if (of.type == CL_MEM_OBJECT_IMAGE1D_BUFFER) {
            buffer = make_buffer(expected.size());
            desc.buffer = buffer;
        }
        cl_int code = CL_SUCCESS;
        image = memory_handle(
            clCreateImage(machine::get().context, flags, &format.format, &desc, nullptr, &code));
        CL_OK(code);
    }

    layout tight() const { return {of.extent[0] * element, of.extent[0] * of.extent[1] * element}; }
    unsigned char *at(const box &origin) {
        return expected.data() + origin[2] * tight().slice + origin[1] * tight().row +
               origin[0] * element;
    }

    void write_all(cl_command_queue queue, unsigned seed) {
        expected = random_bytes(expected.size(), seed);
        const box origin{};
        CL_OK(clEnqueueWriteImage(queue, image, CL_TRUE, origin.data(), of.extent.data(), 0, 0,
                                  expected.data(), 0, nullptr, nullptr));
    }
    bytes read_all(cl_command_queue queue) const {
        bytes read(expected.size());
        const box origin{};
        CL_OK(clEnqueueReadImage(queue, image, CL_TRUE, origin.data(), of.extent.data(), 0, 0,
                                 read.data(), 0, nullptr, nullptr));
        return read;
    }
    void check(cl_command_queue queue) const { CHECK(read_all(queue) == expected); }
};

/// Origin and region of a part that leaves out the border in each dimension of at least 3 elements.
inline std::pair<box, box> inner_part(const box &extent) {
    box origin{};
    box region{1, 1, 1};
    for (std::size_t i = 0; i < 3; ++i) {
        if (extent[i] < 3) continue;
        origin[i] = 1;
        region[i] = extent[i] - 2;
    }
    return {origin, region};
}

template <typename Body>
void for_all_images(Body &&body) {
    for (const shape &of : shapes)
        for (const pixel_format &format : formats) {
            CAPTURE(of.name);
            CAPTURE(format.name);
            body(of, format);
        }
}

template <typename T>
T image_info(cl_mem image, cl_image_info param) {
    T value{};
    std::size_t size = 0;
    CL_OK(clGetImageInfo(image, param, sizeof value, &value, &size));
    CHECK(size == sizeof value);
    return value;
}

}  // namespace images_test
