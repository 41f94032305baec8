// The platform and its devices.
#include <array>

#include <CL/cl_ext.h>

#include "fixture.hpp"

using namespace cluster_test;

namespace {

/// A device query whose result has a fixed size, in bytes.
struct sized_param {
    cl_device_info param;
    std::size_t size;
};

// All such queries of OpenCL 3.0.
const std::vector<sized_param> sized_params = {
    {CL_DEVICE_TYPE, sizeof(cl_device_type)},
    {CL_DEVICE_VENDOR_ID, 4},
    {CL_DEVICE_MAX_COMPUTE_UNITS, 4},
    {CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, 4},
    {CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(std::size_t)},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR, 4},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_SHORT, 4},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_INT, 4},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_LONG, 4},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, 4},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE, 4},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF, 4},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR, 4},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_SHORT, 4},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_INT, 4},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_LONG, 4},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 4},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE, 4},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF, 4},
    {CL_DEVICE_MAX_CLOCK_FREQUENCY, 4},
    {CL_DEVICE_ADDRESS_BITS, 4},
    {CL_DEVICE_MAX_MEM_ALLOC_SIZE, 8},
    {CL_DEVICE_IMAGE_SUPPORT, 4},
    {CL_DEVICE_MAX_READ_IMAGE_ARGS, 4},
    {CL_DEVICE_MAX_WRITE_IMAGE_ARGS, 4},
    {CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS, 4},
    {CL_DEVICE_IMAGE2D_MAX_WIDTH, sizeof(std::size_t)},
    {CL_DEVICE_IMAGE2D_MAX_HEIGHT, sizeof(std::size_t)},
    {CL_DEVICE_IMAGE3D_MAX_WIDTH, sizeof(std::size_t)},
    {CL_DEVICE_IMAGE3D_MAX_HEIGHT, sizeof(std::size_t)},
    {CL_DEVICE_IMAGE3D_MAX_DEPTH, sizeof(std::size_t)},
    {CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, sizeof(std::size_t)},
    {CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, sizeof(std::size_t)},
    {CL_DEVICE_MAX_SAMPLERS, 4},
    {CL_DEVICE_IMAGE_PITCH_ALIGNMENT, 4},
    {CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT, 4},
    {CL_DEVICE_MAX_PIPE_ARGS, 4},
    {CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS, 4},
    {CL_DEVICE_PIPE_MAX_PACKET_SIZE, 4},
    {CL_DEVICE_MAX_PARAMETER_SIZE, sizeof(std::size_t)},
    {CL_DEVICE_MEM_BASE_ADDR_ALIGN, 4},
    {CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE, 4},
    {CL_DEVICE_SINGLE_FP_CONFIG, 8},
    {CL_DEVICE_DOUBLE_FP_CONFIG, 8},
    {CL_DEVICE_GLOBAL_MEM_CACHE_TYPE, 4},
    {CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, 4},
    {CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, 8},
    {CL_DEVICE_GLOBAL_MEM_SIZE, 8},
    {CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, 8},
    {CL_DEVICE_MAX_CONSTANT_ARGS, 4},
    {CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE, sizeof(std::size_t)},
    {CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE, sizeof(std::size_t)},
    {CL_DEVICE_LOCAL_MEM_TYPE, 4},
    {CL_DEVICE_LOCAL_MEM_SIZE, 8},
    {CL_DEVICE_ERROR_CORRECTION_SUPPORT, 4},
    {CL_DEVICE_HOST_UNIFIED_MEMORY, 4},
    {CL_DEVICE_PROFILING_TIMER_RESOLUTION, sizeof(std::size_t)},
    {CL_DEVICE_ENDIAN_LITTLE, 4},
    {CL_DEVICE_AVAILABLE, 4},
    {CL_DEVICE_COMPILER_AVAILABLE, 4},
    {CL_DEVICE_LINKER_AVAILABLE, 4},
    {CL_DEVICE_EXECUTION_CAPABILITIES, 8},
    {CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, 8},
    {CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES, 8},
    {CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE, 4},
    {CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE, 4},
    {CL_DEVICE_MAX_ON_DEVICE_QUEUES, 4},
    {CL_DEVICE_MAX_ON_DEVICE_EVENTS, 4},
    {CL_DEVICE_PLATFORM, sizeof(void *)},
    {CL_DEVICE_NUMERIC_VERSION, sizeof(cl_version)},
    {CL_DEVICE_PRINTF_BUFFER_SIZE, sizeof(std::size_t)},
    {CL_DEVICE_PREFERRED_INTEROP_USER_SYNC, 4},
    {CL_DEVICE_PARENT_DEVICE, sizeof(void *)},
    {CL_DEVICE_PARTITION_MAX_SUB_DEVICES, 4},
    {CL_DEVICE_PARTITION_AFFINITY_DOMAIN, 8},
    {CL_DEVICE_REFERENCE_COUNT, 4},
    {CL_DEVICE_SVM_CAPABILITIES, 8},
    {CL_DEVICE_PREFERRED_PLATFORM_ATOMIC_ALIGNMENT, 4},
    {CL_DEVICE_PREFERRED_GLOBAL_ATOMIC_ALIGNMENT, 4},
    {CL_DEVICE_PREFERRED_LOCAL_ATOMIC_ALIGNMENT, 4},
    {CL_DEVICE_MAX_NUM_SUB_GROUPS, 4},
    {CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS, 4},
    {CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES, 8},
    {CL_DEVICE_ATOMIC_FENCE_CAPABILITIES, 8},
    {CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, 4},
    {CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT, 4},
    {CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT, 4},
    {CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES, 8},
    {CL_DEVICE_PIPE_SUPPORT, 4},
    {CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof(std::size_t)},
};

constexpr std::array text_params = {
    CL_DEVICE_NAME,
    CL_DEVICE_VENDOR,
    CL_DRIVER_VERSION,
    CL_DEVICE_PROFILE,
    CL_DEVICE_VERSION,
    CL_DEVICE_OPENCL_C_VERSION,
    CL_DEVICE_EXTENSIONS,
    CL_DEVICE_IL_VERSION,
    CL_DEVICE_BUILT_IN_KERNELS,
    CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED,
};

constexpr std::array list_params = {
    CL_DEVICE_MAX_WORK_ITEM_SIZES,
    CL_DEVICE_PARTITION_PROPERTIES,
    CL_DEVICE_PARTITION_TYPE,
    CL_DEVICE_ILS_WITH_VERSION,
    CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION,
    CL_DEVICE_EXTENSIONS_WITH_VERSION,
    CL_DEVICE_OPENCL_C_ALL_VERSIONS,
    CL_DEVICE_OPENCL_C_FEATURES,
};

}  // namespace

TEST_CASE("clGetPlatformIDs counts and lists platforms, and refuses invalid arguments") {
    cl_uint count = 0;
    CL_OK(clGetPlatformIDs(0, nullptr, &count));
    CHECK(count >= 1);
    std::vector<cl_platform_id> ids(count);
    CL_OK(clGetPlatformIDs(count, ids.data(), nullptr));
    CHECK(std::count(ids.begin(), ids.end(), platform()) == 1);
    cl_platform_id id = nullptr;
    CL_OK(clGetPlatformIDs(1, &id, nullptr));
    CHECK(id == ids.front());
    if (is_cluster()) CHECK(id == platform());
    CL_FAILS(CL_INVALID_VALUE, clGetPlatformIDs(0, &id, nullptr));
    CL_FAILS(CL_INVALID_VALUE, clGetPlatformIDs(1, nullptr, nullptr));
}

TEST_CASE("the platform answers all queries") {
    for (const cl_platform_info param :
         {CL_PLATFORM_PROFILE, CL_PLATFORM_VERSION, CL_PLATFORM_NAME, CL_PLATFORM_VENDOR,
          CL_PLATFORM_EXTENSIONS, CL_PLATFORM_ICD_SUFFIX_KHR}) {
        CAPTURE(param);
        CHECK_FALSE(info_text(clGetPlatformInfo, param, platform()).empty());
        check_info_arguments(clGetPlatformInfo, param, platform());
    }
    CHECK(info_text(clGetPlatformInfo, CL_PLATFORM_VERSION, platform()).rfind("OpenCL 3.0 ", 0) ==
          0);
    CHECK(CL_VERSION_MAJOR(
              info<cl_version>(clGetPlatformInfo, CL_PLATFORM_NUMERIC_VERSION, platform())) == 3);
    info<cl_ulong>(clGetPlatformInfo, CL_PLATFORM_HOST_TIMER_RESOLUTION, platform());
    const auto extensions = info_list<cl_name_version>(
        clGetPlatformInfo, CL_PLATFORM_EXTENSIONS_WITH_VERSION, platform());
    std::string names;
    for (const cl_name_version &extension : extensions)
        names += (names.empty() ? "" : " ") + std::string(extension.name);
    CHECK(names == info_text(clGetPlatformInfo, CL_PLATFORM_EXTENSIONS, platform()));
}

TEST_CASE("devices are found by their types") {
    cl_uint count = 0;
    CL_OK(clGetDeviceIDs(platform(), CL_DEVICE_TYPE_ALL, 0, nullptr, &count));
    CHECK(count == devices().size());
    cl_device_id first = nullptr;
    CL_OK(clGetDeviceIDs(platform(), CL_DEVICE_TYPE_ALL, 1, &first, &count));
    CHECK(first == devices().front());
    CHECK(count == devices().size());
    CL_OK(clGetDeviceIDs(platform(), CL_DEVICE_TYPE_DEFAULT, 1, &first, &count));
    CHECK(count == 1);
    std::size_t of_types = 0;
    for (const auto type : {CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR}) {
        const cl_int code = clGetDeviceIDs(platform(), type, 0, nullptr, &count);
        CHECK((code == CL_SUCCESS || code == CL_DEVICE_NOT_FOUND));
        if (code == CL_SUCCESS) of_types += count;
    }
    CHECK(of_types == devices().size());
    CL_FAILS(CL_INVALID_VALUE, clGetDeviceIDs(platform(), CL_DEVICE_TYPE_ALL, 0, &first, nullptr));
    CL_FAILS(CL_INVALID_VALUE, clGetDeviceIDs(platform(), CL_DEVICE_TYPE_ALL, 0, nullptr, nullptr));
    if (!is_cluster()) return;  // PoCL 3.1 returns CL_DEVICE_NOT_FOUND
    CL_FAILS(CL_INVALID_DEVICE_TYPE, clGetDeviceIDs(platform(), 0, 0, nullptr, &count));
    CL_FAILS(CL_INVALID_DEVICE_TYPE,
             clGetDeviceIDs(platform(), cl_device_type{1} << 20U, 0, nullptr, &count));
}

TEST_CASE("each device answers all queries of OpenCL 3.0") {
    for (const cl_device_id device : devices()) {
        for (const sized_param &each : sized_params) {
            // PoCL 3.1 returns only 4 bytes.
            if (each.param == CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES && !is_cluster()) continue;
            CAPTURE(each.param);
            std::size_t size = 0;
            CHECK(clGetDeviceInfo(device, each.param, 0, nullptr, &size) == CL_SUCCESS);
            CHECK(size == each.size);
            bytes value(each.size);
            CHECK(clGetDeviceInfo(device, each.param, value.size(), value.data(), nullptr) ==
                  CL_SUCCESS);
            CHECK(clGetDeviceInfo(device, each.param, value.size() - 1, value.data(), nullptr) ==
                  CL_INVALID_VALUE);
        }
        for (const cl_device_info param : text_params) {
            CAPTURE(param);
            info_text(clGetDeviceInfo, param, device);
        }
        for (const cl_device_info param : list_params) {
            CAPTURE(param);
            info_list<char>(clGetDeviceInfo, param, device);
        }
        check_info_arguments(clGetDeviceInfo, CL_DEVICE_NAME, device);
        CHECK(info<cl_platform_id>(clGetDeviceInfo, CL_DEVICE_PLATFORM, device) == platform());
        CHECK(info<cl_device_id>(clGetDeviceInfo, CL_DEVICE_PARENT_DEVICE, device) == nullptr);
        CHECK(
            info_list<std::size_t>(clGetDeviceInfo, CL_DEVICE_MAX_WORK_ITEM_SIZES, device).size() ==
            info<cl_uint>(clGetDeviceInfo, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, device));
        CHECK(info_text(clGetDeviceInfo, CL_DEVICE_VERSION, device).rfind("OpenCL ", 0) == 0);
        const std::string extensions = info_text(clGetDeviceInfo, CL_DEVICE_EXTENSIONS, device);
        std::string names;
        for (const cl_name_version &extension :
             info_list<cl_name_version>(clGetDeviceInfo, CL_DEVICE_EXTENSIONS_WITH_VERSION, device))
            names += (names.empty() ? "" : " ") + std::string(extension.name);
        if (is_cluster()) CHECK(names == extensions);
        if (extensions.find("cl_nv_device_attribute_query") == std::string::npos) continue;
        CHECK(info<cl_uint>(clGetDeviceInfo, CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, device) > 0);
        CHECK(info<cl_uint>(clGetDeviceInfo, CL_DEVICE_WARP_SIZE_NV, device) > 0);
    }
    CL_FAILS(CL_INVALID_DEVICE, clGetDeviceInfo(nullptr, CL_DEVICE_NAME, 0, nullptr, nullptr));
}

TEST_CASE("root devices have no reference count") {
    for (const cl_device_id device : devices()) {
        CL_OK(clRetainDevice(device));
        CHECK(info<cl_uint>(clGetDeviceInfo, CL_DEVICE_REFERENCE_COUNT, device) == 1);
        CL_OK(clReleaseDevice(device));
        CL_OK(clReleaseDevice(device));
        CHECK(info<cl_uint>(clGetDeviceInfo, CL_DEVICE_REFERENCE_COUNT, device) == 1);
    }
    CL_FAILS(CL_INVALID_DEVICE, clRetainDevice(nullptr));
    CL_FAILS(CL_INVALID_DEVICE, clReleaseDevice(nullptr));
}

TEST_CASE("a device's sub-devices have reference counts, report their parent and run commands") {
    for (const cl_device_id device : devices()) {
        const std::array<cl_device_partition_property, 3> equally = {CL_DEVICE_PARTITION_EQUALLY, 1,
                                                                     0};
        const cl_uint units = info<cl_uint>(clGetDeviceInfo, CL_DEVICE_MAX_COMPUTE_UNITS, device);
        cl_uint count = 0;
        const cl_int code = clCreateSubDevices(device, equally.data(), 0, nullptr, &count);
        CAPTURE(units);
        if (code != CL_SUCCESS) {
            CHECK((code == CL_DEVICE_PARTITION_FAILED || code == CL_INVALID_VALUE));
            continue;
        }
        CHECK(count == units);
        std::vector<cl_device_id> parts(count);
        CL_OK(clCreateSubDevices(device, equally.data(), count, parts.data(), nullptr));
        for (const cl_device_id part : parts) {
            CHECK(info<cl_device_id>(clGetDeviceInfo, CL_DEVICE_PARENT_DEVICE, part) == device);
            CHECK(info<cl_uint>(clGetDeviceInfo, CL_DEVICE_MAX_COMPUTE_UNITS, part) == 1);
            CHECK(info<cl_uint>(clGetDeviceInfo, CL_DEVICE_REFERENCE_COUNT, part) == 1);
            CL_OK(clRetainDevice(part));
            CHECK(info<cl_uint>(clGetDeviceInfo, CL_DEVICE_REFERENCE_COUNT, part) == 2);
            CL_OK(clReleaseDevice(part));
            const auto type = info_list<cl_device_partition_property>(
                clGetDeviceInfo, CL_DEVICE_PARTITION_TYPE, part);
            CHECK(type ==
                  std::vector<cl_device_partition_property>(equally.begin(), equally.end()));
        }
        cl_int error = CL_SUCCESS;
        {
            const context_handle context(
                clCreateContext(nullptr, count, parts.data(), nullptr, nullptr, &error));
            CL_OK(error);
            const queue_handle queue(clCreateCommandQueue(context, parts.back(), 0, &error));
            CL_OK(error);
            const buffer_handle buffer(
                clCreateBuffer(context, CL_MEM_READ_WRITE, 1000, nullptr, &error));
            CL_OK(error);
            const bytes data = pattern(4, 1000);
            write(queue, buffer, 0, data);
            check_equal(read(queue, buffer, 0, 1000), data);
        }
        // PoCL 3.1 still uses the sub-devices, so they are not released natively.
        for (const cl_device_id part : parts)
            if (is_cluster()) CL_OK(clReleaseDevice(part));
        // The platform must not reuse resources of the released sub-devices.
        const setup cl;
        const buffer_handle buffer = cl.buffer(100);
        for (int n = 0; n < 70; ++n)
            for (const queue_handle &queue : cl.queues) write(queue, buffer, 0, pattern(1, 100));
    }
}

TEST_CASE("clCreateSubDevices refuses invalid arguments") {
    const std::array<cl_device_partition_property, 3> equally = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    const std::array<cl_device_partition_property, 3> unknown = {0x7777, 1, 0};
    cl_uint count = 0;
    CL_FAILS(CL_INVALID_DEVICE, clCreateSubDevices(nullptr, equally.data(), 0, nullptr, &count));
    for (const cl_device_id device : devices()) {
        CL_FAILS(CL_INVALID_VALUE, clCreateSubDevices(device, nullptr, 0, nullptr, &count));
        CL_FAILS(CL_INVALID_VALUE, clCreateSubDevices(device, unknown.data(), 0, nullptr, &count));
        cl_device_id part = nullptr;
        const cl_uint units = info<cl_uint>(clGetDeviceInfo, CL_DEVICE_MAX_COMPUTE_UNITS, device);
        if (units > 1)
            CL_FAILS(CL_INVALID_VALUE,
                     clCreateSubDevices(device, equally.data(), 1, &part, nullptr));
    }
}

TEST_CASE("unloading the compiler is allowed") {
    CL_OK(clUnloadPlatformCompiler(platform()));
    CL_OK(clUnloadCompiler());
}

TEST_CASE(
    "functions of unsupported features return their error, after the checks of their objects") {
    if (!is_cluster()) return;
    const setup cl;
    const cl_device_id device = devices().back();
    cl_ulong time = 0;
    CL_FAILS(CL_INVALID_OPERATION, clGetHostTimer(device, &time));
    CL_FAILS(CL_INVALID_OPERATION, clGetDeviceAndHostTimer(device, &time, &time));
    CL_FAILS(CL_INVALID_OPERATION, clSetDefaultDeviceCommandQueue(cl.context, device, nullptr));
    CL_FAILS(CL_INVALID_OPERATION,
             clSetDefaultDeviceCommandQueue(cl.context, device, cl.queues.back()));
    cl_uint packet = 0;
    CL_FAILS(CL_INVALID_MEM_OBJECT,
             clGetPipeInfo(cl.buffer(16), CL_PIPE_PACKET_SIZE, sizeof packet, &packet, nullptr));
    const auto no_device = reinterpret_cast<cl_device_id>(cl.context.get());
    CL_FAILS(CL_INVALID_DEVICE, clGetHostTimer(no_device, &time));
    CL_FAILS(CL_INVALID_DEVICE, clSetDefaultDeviceCommandQueue(cl.context, no_device, nullptr));
}

TEST_CASE("there are no functions of unsupported extensions") {
    CHECK(clGetExtensionFunctionAddressForPlatform(platform(), "clNoSuchFunctionKHR") == nullptr);
}
