/// clDistLocalDevice in one process: its choice, its errors and their order.

#include <functional>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

std::vector<cl_platform_id> all_platforms() {
    cl_uint count = 0;
    CL_OK(clGetPlatformIDs(0, nullptr, &count));
    std::vector<cl_platform_id> platforms(count);
    CL_OK(clGetPlatformIDs(count, platforms.data(), nullptr));
    return platforms;
}

/// The platform's first device of the type, or nullptr.
cl_device_id first_device(cl_platform_id platform, cl_device_type type) {
    cl_device_id device = nullptr;
    return clGetDeviceIDs(platform, type, 1, &device, nullptr) == CL_SUCCESS ? device : nullptr;
}

/// A type of which the platform (if nullptr, every platform) has no device. Skips the case if there
/// is no such type.
cl_device_type type_without_device(cl_platform_id platform) {
    for (const cl_device_type type : std::initializer_list<cl_device_type>{
             CL_DEVICE_TYPE_CUSTOM, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_GPU}) {
        bool found = false;
        for (const cl_platform_id one : all_platforms()) {
            found = found || ((platform == nullptr || platform == one) &&
                              first_device(one, type) != nullptr);
        }
        if (!found) {
            return type;
        }
    }
    skip_case("there is a device of every type");
}

struct device_call {
    MPI_Comm comm;
    cl_platform_id platform = nullptr;
    cl_device_type type = CL_DEVICE_TYPE_ALL;
    bool device = true;
};

/// Checks that the call fails with `code` and does not change the device.
void expect(const device_call &c, cl_int code) {
    static int mark = 0;
    const auto untouched = reinterpret_cast<cl_device_id>(&mark);
    cl_device_id device = untouched;
    CHECK(clDistLocalDevice(c.comm, c.platform, c.type, c.device ? &device : nullptr) == code);
    CHECK(device == untouched);
}

MPI_Comm freed(MPI_Comm comm) {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &copy);
    const MPI_Comm dangling = copy;
    MPI_Comm_free(&copy);
    return dangling;
}

cl_platform_id no_platform() {
    static int mark = 0;
    return reinterpret_cast<cl_platform_id>(&mark);
}

}  // namespace

MPI_CASE("the local device of a single process is the first of its platform and type", 1) {
    for (const cl_platform_id platform : all_platforms()) {
        for (const cl_device_type type : std::initializer_list<cl_device_type>{
                 CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_DEFAULT, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU,
                 CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU}) {
            CAPTURE(type);
            const cl_device_id first = first_device(platform, type);
            cl_device_id device = nullptr;
            CHECK(clDistLocalDevice(MPI_COMM_SELF, platform, type, &device) ==
                  (first != nullptr ? CL_SUCCESS : CL_DEVICE_NOT_FOUND));
            CHECK(device == first);
        }
    }
}

MPI_CASE(
    "without a platform, the local device belongs to the first platform that has such a device",
    1) {
    for (const cl_device_type type : std::initializer_list<cl_device_type>{
             CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU}) {
        CAPTURE(type);
        cl_device_id first = nullptr;
        for (const cl_platform_id platform : all_platforms()) {
            first = first != nullptr ? first : first_device(platform, type);
        }
        cl_device_id device = nullptr;
        CHECK(clDistLocalDevice(MPI_COMM_SELF, nullptr, type, &device) ==
              (first != nullptr ? CL_SUCCESS : CL_DEVICE_NOT_FOUND));
        CHECK(device == first);
    }
}

MPI_CASE("a local device without communicator, or on a freed one, is CL_INVALID_COMMUNICATOR", 1) {
    expect({MPI_COMM_NULL}, CL_INVALID_COMMUNICATOR);
    expect({freed(mpi.comm)}, CL_INVALID_COMMUNICATOR);
}

MPI_CASE("a local device of an invalid platform is CL_INVALID_PLATFORM", 1) {
    expect({MPI_COMM_SELF, no_platform()}, CL_INVALID_PLATFORM);
}

MPI_CASE("a local device of an invalid type is CL_INVALID_DEVICE_TYPE", 1) {
    for (const cl_device_type type :
         {cl_device_type{0}, cl_device_type{1} << 5, cl_device_type{1} << 40,
          CL_DEVICE_TYPE_CPU | cl_device_type{1} << 31, ~cl_device_type{0}}) {
        CAPTURE(type);
        expect({MPI_COMM_SELF, nullptr, type}, CL_INVALID_DEVICE_TYPE);
    }
}

MPI_CASE("a local device without a pointer for the result is CL_INVALID_VALUE", 1) {
    expect({MPI_COMM_SELF, nullptr, CL_DEVICE_TYPE_ALL, false}, CL_INVALID_VALUE);
}

MPI_CASE("a local device of a type that the platform does not have is CL_DEVICE_NOT_FOUND", 1) {
    for (const cl_platform_id platform : all_platforms()) {
        expect({MPI_COMM_SELF, platform, type_without_device(platform)}, CL_DEVICE_NOT_FOUND);
    }
    expect({MPI_COMM_SELF, nullptr, type_without_device(nullptr)}, CL_DEVICE_NOT_FOUND);
}

MPI_CASE("a local device with two wrong arguments gets the code of the first check", 1) {
    struct defect {
        cl_int code;
        std::function<void(device_call &)> apply;
    };
    const cl_device_type missing = type_without_device(nullptr);
    const defect defects[] = {
        {CL_INVALID_COMMUNICATOR, [](device_call &c) { c.comm = MPI_COMM_NULL; }},
        {CL_INVALID_PLATFORM, [](device_call &c) { c.platform = no_platform(); }},
        {CL_INVALID_DEVICE_TYPE, [](device_call &c) { c.type = 0; }},
        {CL_INVALID_VALUE, [](device_call &c) { c.device = false; }},
        {CL_DEVICE_NOT_FOUND, [&](device_call &c) { c.type = missing; }},
    };
    for (std::size_t first = 0; first < std::size(defects); ++first) {
        for (std::size_t second = first + 1; second < std::size(defects); ++second) {
            CAPTURE(defects[first].code);
            CAPTURE(defects[second].code);
            device_call c{MPI_COMM_SELF};
            defects[second].apply(c);
            defects[first].apply(c);
            expect(c, defects[first].code);
        }
    }
}
