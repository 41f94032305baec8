#include <array>
#include <cstdlib>
#include <future>

#include "fixture.hpp"

using namespace cluster_test;

namespace {

const char *const two_kernels = R"(
#ifndef STEP
#define STEP 1
#endif
kernel void first(global int *data) { data[get_global_id(0)] += STEP; }
kernel void second(global int *data, int factor) { data[get_global_id(0)] *= factor; }
)";

cl_program make_program(cl_context context, const char *text, cl_int *error) {
    return clCreateProgramWithSource(context, 1, &text, nullptr, error);
}
program_handle source_program(const setup &cl, const char *text) {
    cl_int error = CL_SUCCESS;
    program_handle program(make_program(cl.context, text, &error));
    CL_OK(error);
    return program;
}

/// Whether a native platform has several devices. PoCL 3.1 builds once for all equal devices, keeps
/// one build log, and reports a device as built even if the program was not built for it.
bool share_a_platform() { return std::getenv("POCL_DEVICES") != nullptr; }

cl_build_status build_status(cl_program program, cl_device_id device) {
    return info<cl_build_status>(clGetProgramBuildInfo, CL_PROGRAM_BUILD_STATUS, program, device);
}
cl_program_binary_type binary_type(cl_program program, cl_device_id device) {
    return info<cl_program_binary_type>(clGetProgramBuildInfo, CL_PROGRAM_BINARY_TYPE, program,
                                        device);
}

/// Runs the kernel `first` on one device after the other. Each run must add `step`.
void check_first(const setup &cl, cl_program program, int step) {
    const kernel_handle kernel = cl.kernel(program, "first");
    std::vector<int> data(100, 5);
    const buffer_handle buffer =
        cl.buffer(data.size() * sizeof(int), CL_MEM_COPY_HOST_PTR, data.data());
    const cl_mem memory = buffer;
    CL_OK(clSetKernelArg(kernel, 0, sizeof memory, &memory));
    const std::size_t global = data.size();
    for (std::size_t i = 0; i < cl.count(); ++i) {
        CL_OK(clEnqueueNDRangeKernel(cl.queues[i], kernel, 1, nullptr, &global, nullptr, 0, nullptr,
                                     nullptr));
        CL_OK(clEnqueueReadBuffer(cl.queues[i], buffer, CL_TRUE, 0, data.size() * sizeof(int),
                                  data.data(), 0, nullptr, nullptr));
        CHECK(data == std::vector<int>(100, 5 + step * static_cast<int>(i + 1)));
    }
}

/// The binaries of the program, one for each device.
std::vector<bytes> binaries_of(cl_program program) {
    const auto sizes = info_list<std::size_t>(clGetProgramInfo, CL_PROGRAM_BINARY_SIZES, program);
    std::vector<bytes> binaries;
    std::vector<unsigned char *> pointers;
    for (const std::size_t size : sizes) {
        CHECK(size > 0);
        binaries.emplace_back(size);
    }
    for (bytes &binary : binaries) pointers.push_back(binary.data());
    CL_OK(clGetProgramInfo(program, CL_PROGRAM_BINARIES, pointers.size() * sizeof(void *),
                           pointers.data(), nullptr));
    return binaries;
}

program_handle from_binaries(const setup &cl, const std::vector<bytes> &binaries) {
    std::vector<std::size_t> sizes;
    std::vector<const unsigned char *> pointers;
    for (const bytes &binary : binaries) {
        sizes.push_back(binary.size());
        pointers.push_back(binary.data());
    }
    std::vector<cl_int> statuses(binaries.size(), -1);
    cl_int error = CL_SUCCESS;
    program_handle program(clCreateProgramWithBinary(
        cl.context, static_cast<cl_uint>(binaries.size()), devices().data(), sizes.data(),
        pointers.data(), statuses.data(), &error));
    CL_OK(error);
    CHECK(statuses == std::vector<cl_int>(binaries.size(), CL_SUCCESS));
    return program;
}

void CL_CALLBACK note_built(cl_program program, void *data) {
    static_cast<std::promise<cl_program> *>(data)->set_value(program);
}

}  // namespace

TEST_CASE("a program reports its source, context, devices and references") {
    const setup cl;
    const std::array<const char *, 3> parts = {"kernel void k(global int *d)", " { d[0] = 1; }XXXX",
                                               "\n"};
    const std::array<std::size_t, 3> lengths = {0, 14, 1};
    cl_int error = CL_INVALID_VALUE;
    std::array<const char *, 3> strings = parts;
    const program_handle program(
        clCreateProgramWithSource(cl.context, 3, strings.data(), lengths.data(), &error));
    CL_OK(error);
    CHECK(info_text(clGetProgramInfo, CL_PROGRAM_SOURCE, program.get()) ==
          "kernel void k(global int *d) { d[0] = 1; }\n");
    CHECK(info<cl_context>(clGetProgramInfo, CL_PROGRAM_CONTEXT, program.get()) == cl.context);
    CHECK(info<cl_uint>(clGetProgramInfo, CL_PROGRAM_NUM_DEVICES, program.get()) ==
          devices().size());
    CHECK(info_list<cl_device_id>(clGetProgramInfo, CL_PROGRAM_DEVICES, program.get()) ==
          devices());
    CHECK(info<cl_uint>(clGetProgramInfo, CL_PROGRAM_REFERENCE_COUNT, program.get()) == 1);
    CL_OK(clRetainProgram(program));
    CHECK(info<cl_uint>(clGetProgramInfo, CL_PROGRAM_REFERENCE_COUNT, program.get()) == 2);
    CL_OK(clReleaseProgram(program));
    CHECK(info_list<char>(clGetProgramInfo, CL_PROGRAM_IL, program.get()).empty());
    check_info_arguments(clGetProgramInfo, CL_PROGRAM_SOURCE, program.get());
    CL_FAILS(
        CL_INVALID_PROGRAM_EXECUTABLE,
        clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof(std::size_t), nullptr, nullptr));
    for (const cl_device_id device : devices()) {
        CHECK(build_status(program, device) == CL_BUILD_NONE);
        CHECK(binary_type(program, device) == CL_PROGRAM_BINARY_TYPE_NONE);
        CHECK(info_text(clGetProgramBuildInfo, CL_PROGRAM_BUILD_OPTIONS, program.get(), device)
                  .empty());
    }
}

TEST_CASE("a built program reports its kernels, status and options, and runs on all devices") {
    const setup cl;
    const program_handle program = source_program(cl, two_kernels);
    CL_OK(clBuildProgram(program, 0, nullptr, "-D STEP=7", nullptr, nullptr));
    CHECK(info<std::size_t>(clGetProgramInfo, CL_PROGRAM_NUM_KERNELS, program.get()) == 2);
    const std::string names = info_text(clGetProgramInfo, CL_PROGRAM_KERNEL_NAMES, program.get());
    CHECK((names == "first;second" || names == "second;first"));
    for (const cl_device_id device : devices()) {
        CHECK(build_status(program, device) == CL_BUILD_SUCCESS);
        CHECK(binary_type(program, device) == CL_PROGRAM_BINARY_TYPE_EXECUTABLE);
        CHECK(info_text(clGetProgramBuildInfo, CL_PROGRAM_BUILD_OPTIONS, program.get(), device) ==
              "-D STEP=7");
        info_text(clGetProgramBuildInfo, CL_PROGRAM_BUILD_LOG, program.get(), device);
        info<std::size_t>(clGetProgramBuildInfo, CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE,
                          program.get(), device);
        check_info_arguments(clGetProgramBuildInfo, CL_PROGRAM_BUILD_OPTIONS, program.get(),
                             device);
    }
    check_first(cl, program, 7);
}

TEST_CASE("a program may be rebuilt with other options once its kernels are released") {
    const setup cl;
    const program_handle program = source_program(cl, two_kernels);
    CL_OK(clBuildProgram(program, 0, nullptr, nullptr, nullptr, nullptr));
    {
        const kernel_handle kernel = cl.kernel(program, "first");
        CL_FAILS(CL_INVALID_OPERATION,
                 clBuildProgram(program, 0, nullptr, nullptr, nullptr, nullptr));
    }
    check_first(cl, program, 1);
    CL_OK(clBuildProgram(program, 0, nullptr, "-DSTEP=3", nullptr, nullptr));
    check_first(cl, program, 3);
}

TEST_CASE("a program with a compilation error has a build log, on all devices") {
    const setup cl;
    const program_handle program =
        source_program(cl, "kernel void broken(global int *d) { d[0] = no_such_thing; }");
    CL_FAILS(CL_BUILD_PROGRAM_FAILURE,
             clBuildProgram(program, 0, nullptr, nullptr, nullptr, nullptr));
    for (const cl_device_id device : devices()) {
        CHECK(build_status(program, device) == CL_BUILD_ERROR);
        const std::string log =
            info_text(clGetProgramBuildInfo, CL_PROGRAM_BUILD_LOG, program.get(), device);
        if (!share_a_platform()) CHECK(log.find("no_such_thing") != std::string::npos);
    }
    CL_FAILS_TO_MAKE(CL_INVALID_PROGRAM_EXECUTABLE, clCreateKernel(program, "broken", &error));
}

TEST_CASE("the callback of a build is called after success and after an error") {
    const setup cl;
    for (const char *const text : {two_kernels, "kernel void broken("}) {
        const program_handle program = source_program(cl, text);
        std::promise<cl_program> built;
        const cl_int code = clBuildProgram(program, 0, nullptr, nullptr, note_built, &built);
        CHECK((code == CL_SUCCESS || code == CL_BUILD_PROGRAM_FAILURE));
        CHECK(built.get_future().get() == program);
        for (const cl_device_id device : devices())
            CHECK(build_status(program, device) ==
                  (text == two_kernels ? CL_BUILD_SUCCESS : CL_BUILD_ERROR));
    }
}

TEST_CASE("a program built for some devices has kernels for those devices") {
    const setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        CAPTURE(i);
        const program_handle program = source_program(cl, two_kernels);
        CL_OK(clBuildProgram(program, 1, &devices()[i], "-DSTEP=4", nullptr, nullptr));
        if (!share_a_platform())
            for (std::size_t j = 0; j < cl.count(); ++j)
                CHECK(build_status(program, devices()[j]) ==
                      (i == j ? CL_BUILD_SUCCESS : CL_BUILD_NONE));
        CHECK(info<std::size_t>(clGetProgramInfo, CL_PROGRAM_NUM_KERNELS, program.get()) == 2);
        const kernel_handle kernel = cl.kernel(program, "first");
        int value = 3;
        const buffer_handle buffer = cl.buffer(sizeof value, CL_MEM_COPY_HOST_PTR, &value);
        const cl_mem memory = buffer;
        CL_OK(clSetKernelArg(kernel, 0, sizeof memory, &memory));
        const std::size_t one = 1;
        CL_OK(clEnqueueNDRangeKernel(cl.queues[i], kernel, 1, nullptr, &one, nullptr, 0, nullptr,
                                     nullptr));
        CL_OK(clEnqueueReadBuffer(cl.queues[i], buffer, CL_TRUE, 0, sizeof value, &value, 0,
                                  nullptr, nullptr));
        CHECK(value == 7);
        const cl_command_queue other = cl.queues[(i + 1) % cl.count()];
        if (cl.count() > 1 && (is_cluster() || !share_a_platform()))  // PoCL 3.1 crashes
            CL_FAILS(CL_INVALID_PROGRAM_EXECUTABLE,
                     clEnqueueNDRangeKernel(other, kernel, 1, nullptr, &one, nullptr, 0, nullptr,
                                            nullptr));
    }
}

TEST_CASE("the binaries of all devices create the same program") {
    const setup cl;
    const program_handle program = source_program(cl, two_kernels);
    CL_OK(clBuildProgram(program, 0, nullptr, "-DSTEP=9", nullptr, nullptr));
    const program_handle again = from_binaries(cl, binaries_of(program));
    CHECK(info_list<cl_device_id>(clGetProgramInfo, CL_PROGRAM_DEVICES, again.get()) == devices());
    CL_OK(clBuildProgram(again, 0, nullptr, nullptr, nullptr, nullptr));
    check_first(cl, again, 9);
}

TEST_CASE("a program has binaries only of the devices that it was built for") {
    const setup cl;
    const auto sizes_of = [](const program_handle &program) {
        return info_list<std::size_t>(clGetProgramInfo, CL_PROGRAM_BINARY_SIZES, program.get());
    };
    const program_handle program = source_program(cl, two_kernels);
    if (!is_cluster()) return;  // PoCL 3.1 returns errors, or fewer sizes than devices
    CHECK(sizes_of(program) == std::vector<std::size_t>(cl.count()));
    std::vector<unsigned char> byte(1);
    std::vector<unsigned char *> pointers(cl.count(), byte.data());
    CL_OK(clGetProgramInfo(program, CL_PROGRAM_BINARIES, cl.count() * sizeof(unsigned char *),
                           pointers.data(), nullptr));
    for (const cl_device_id device : devices())
        CHECK(
            info_text(clGetProgramBuildInfo, CL_PROGRAM_BUILD_LOG, program.get(), device).empty());
    CL_OK(clBuildProgram(program, 1, &devices().back(), "", nullptr, nullptr));
    const auto sizes = sizes_of(program);
    REQUIRE(sizes.size() == cl.count());
    for (std::size_t i = 0; i < sizes.size(); ++i)
        CHECK((sizes[i] != 0) == (i + 1 == sizes.size()));
}

TEST_CASE("an invalid binary is refused") {
    const setup cl;
    const bytes nonsense = pattern(1, 100);
    std::vector<const unsigned char *> pointers(cl.count(), nonsense.data());
    std::vector<std::size_t> sizes(cl.count(), nonsense.size());
    std::vector<cl_int> statuses(cl.count(), CL_SUCCESS);
    const auto count = static_cast<cl_uint>(cl.count());
    const auto *list = devices().data();
    cl_int code = CL_SUCCESS;
    const program_handle refused(clCreateProgramWithBinary(
        cl.context, count, list, sizes.data(), pointers.data(), statuses.data(), &code));
    // NVIDIA's driver checks binaries only in clBuildProgram.
    if (refused)
        CHECK(clBuildProgram(refused, 0, nullptr, nullptr, nullptr, nullptr) != CL_SUCCESS);
    else
        CHECK(code == CL_INVALID_BINARY);
    CL_FAILS_TO_MAKE(CL_INVALID_CONTEXT,
                     clCreateProgramWithBinary(nullptr, count, list, sizes.data(), pointers.data(),
                                               nullptr, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, clCreateProgramWithBinary(cl.context, 0, list, sizes.data(),
                                                                 pointers.data(), nullptr, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                     clCreateProgramWithBinary(cl.context, count, nullptr, sizes.data(),
                                               pointers.data(), nullptr, &error));
    sizes.back() = 0;
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                     clCreateProgramWithBinary(cl.context, count, list, sizes.data(),
                                               pointers.data(), nullptr, &error));
}

TEST_CASE("a program is compiled with headers and linked from parts") {
    const setup cl;
    const program_handle header = source_program(cl, "int twice(int x);\n#define BASE 10\n");
    const program_handle library = source_program(cl, "int twice(int x) { return 2 * x; }");
    const program_handle main = source_program(cl,
                                               "#include \"twice.h\"\n"
                                               "kernel void first(global int *d) {\n"
                                               "    d[get_global_id(0)] += twice(BASE) + STEP; }");
    const cl_program headers = header;
    const char *name = "twice.h";
    CL_OK(clCompileProgram(main, 0, nullptr, "-DSTEP=3", 1, &headers, &name, nullptr, nullptr));
    CL_OK(clCompileProgram(library, 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr));
    for (const cl_device_id device : devices()) {
        CHECK(build_status(main, device) == CL_BUILD_SUCCESS);
        CHECK(binary_type(main, device) == CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT);
    }
    if (is_cluster())  // PoCL 3.1 returns CL_INVALID_KERNEL_NAME
        CL_FAILS_TO_MAKE(CL_INVALID_PROGRAM_EXECUTABLE, clCreateKernel(main, "first", &error));
    const std::array<cl_program, 2> parts = {main, library};
    std::promise<cl_program> linked;
    cl_int error = CL_INVALID_VALUE;
    const program_handle program(clLinkProgram(cl.context, 0, nullptr, nullptr, 2, parts.data(),
                                               note_built, &linked, &error));
    CL_OK(error);
    CHECK(linked.get_future().get() == program);
    for (const cl_device_id device : devices())
        CHECK(binary_type(program, device) == CL_PROGRAM_BINARY_TYPE_EXECUTABLE);
    check_first(cl, program, 23);
}

TEST_CASE("a program that is compiled again has lost the kernels of its earlier build") {
    const setup cl;
    const program_handle program = source_program(cl, "kernel void k() {}");
    CL_OK(clBuildProgram(program, 0, nullptr, "", nullptr, nullptr));
    CL_OK(clCompileProgram(program, 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr));
    if (!is_cluster()) return;  // PoCL 3.1 returns CL_INVALID_KERNEL_NAME
    CL_FAILS_TO_MAKE(CL_INVALID_PROGRAM_EXECUTABLE, clCreateKernel(program, "k", &error));
    CL_FAILS(CL_INVALID_PROGRAM_EXECUTABLE,
             clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, 0, nullptr, nullptr));
}

TEST_CASE("a program may have kernels without arguments, built or linked") {
    const setup cl;
    const char *const text =
        "kernel void nothing() {} kernel void first(global int *d) { d[get_global_id(0)] += 4; }";
    const program_handle built = source_program(cl, text);
    CL_OK(clBuildProgram(built, 0, nullptr, "", nullptr, nullptr));
    const program_handle compiled = source_program(cl, text);
    CL_OK(clCompileProgram(compiled, 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr));
    const cl_program part = compiled;
    cl_int error = CL_INVALID_VALUE;
    const program_handle linked(
        clLinkProgram(cl.context, 0, nullptr, nullptr, 1, &part, nullptr, nullptr, &error));
    CL_OK(error);
    for (const program_handle *program : {&built, &linked}) {
        const kernel_handle nothing = cl.kernel(*program, "nothing");
        const std::size_t one = 1;
        for (const queue_handle &queue : cl.queues)
            CL_OK(clEnqueueNDRangeKernel(queue, nothing, 1, nullptr, &one, nullptr, 0, nullptr,
                                         nullptr));
        check_first(cl, *program, 4);
    }
}

TEST_CASE("compilation and link errors are reported") {
    const setup cl;
    const program_handle broken = source_program(cl, "#include \"missing.h\"\nkernel void k() {}");
    CL_FAILS(CL_COMPILE_PROGRAM_FAILURE,
             clCompileProgram(broken, 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr));
    for (const cl_device_id device : devices()) {
        CHECK(build_status(broken, device) == CL_BUILD_ERROR);
        const std::string log =
            info_text(clGetProgramBuildInfo, CL_PROGRAM_BUILD_LOG, broken.get(), device);
        if (!share_a_platform()) CHECK(log.find("missing.h") != std::string::npos);
    }
    const program_handle empty = source_program(cl, "");
    CL_OK(clCompileProgram(empty, 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr));
    if (!is_cluster()) return;  // PoCL 3.1 crashes in the following calls
    const program_handle calls =
        source_program(cl, "int missing(int x); kernel void k(global int *d) { *d = missing(1); }");
    CL_OK(clCompileProgram(calls, 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr));
    const cl_program part = calls;
    cl_int failure = CL_SUCCESS;
    const program_handle unlinked(
        clLinkProgram(cl.context, 0, nullptr, "-invalid", 1, &part, nullptr, nullptr, &failure));
    CHECK(failure != CL_SUCCESS);
    for (const cl_device_id device : devices())
        if (unlinked.get() != nullptr) {
            CHECK(build_status(unlinked, device) == CL_BUILD_ERROR);
            CHECK(binary_type(unlinked, device) == CL_PROGRAM_BINARY_TYPE_NONE);
        }
    const setup other(setup::of::its_own);
    const program_handle header = source_program(other, "");
    const cl_program foreign = header;
    const char *missing = "missing.h";
    CL_FAILS(CL_INVALID_PROGRAM, clCompileProgram(broken, 0, nullptr, nullptr, 1, &foreign,
                                                  &missing, nullptr, nullptr));
    if (const cl_program again = unlinked; again != nullptr)
        CL_FAILS_TO_MAKE(CL_INVALID_OPERATION, clLinkProgram(cl.context, 0, nullptr, nullptr, 1,
                                                             &again, nullptr, nullptr, &error));
    const program_handle sound = source_program(cl, two_kernels);
    const cl_program input = sound;
    const char *name = "x.h";
    CL_FAILS(CL_INVALID_PROGRAM,
             clCompileProgram(nullptr, 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr));
    CL_FAILS(CL_INVALID_VALUE,
             clCompileProgram(sound, 0, nullptr, nullptr, 1, nullptr, &name, nullptr, nullptr));
    CL_FAILS(CL_INVALID_VALUE,
             clCompileProgram(sound, 0, nullptr, nullptr, 0, &input, nullptr, nullptr, nullptr));
    int data = 0;
    CL_FAILS(CL_INVALID_VALUE,
             clCompileProgram(sound, 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, &data));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, clLinkProgram(cl.context, 0, nullptr, nullptr, 0, nullptr,
                                                     nullptr, nullptr, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_CONTEXT, clLinkProgram(nullptr, 0, nullptr, nullptr, 1, &input,
                                                       nullptr, nullptr, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_OPERATION, clLinkProgram(cl.context, 0, nullptr, nullptr, 1, &input,
                                                         nullptr, nullptr, &error));
}

TEST_CASE("functions of programs refuse invalid arguments") {
    const setup cl;
    const char *text = two_kernels;
    CL_FAILS_TO_MAKE(CL_INVALID_CONTEXT,
                     clCreateProgramWithSource(nullptr, 1, &text, nullptr, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                     clCreateProgramWithSource(cl.context, 0, &text, nullptr, &error));
    const program_handle program = source_program(cl, text);
    int data = 0;
    const cl_device_id device = devices().front();
    const cl_device_id no_device = nullptr;
    CL_FAILS(CL_INVALID_PROGRAM, clBuildProgram(nullptr, 0, nullptr, nullptr, nullptr, nullptr));
    CL_FAILS(CL_INVALID_VALUE, clBuildProgram(program, 0, nullptr, nullptr, nullptr, &data));
    CL_FAILS(CL_INVALID_VALUE, clBuildProgram(program, 0, &device, nullptr, nullptr, nullptr));
    CL_FAILS(CL_INVALID_VALUE, clBuildProgram(program, 1, nullptr, nullptr, nullptr, nullptr));
    CL_FAILS(CL_INVALID_PROGRAM, clRetainProgram(nullptr));
    CL_FAILS(CL_INVALID_PROGRAM, clReleaseProgram(nullptr));
    CL_FAILS(CL_INVALID_PROGRAM, clGetProgramInfo(nullptr, CL_PROGRAM_SOURCE, 0, nullptr, nullptr));
    CL_FAILS(CL_INVALID_PROGRAM,
             clGetProgramBuildInfo(nullptr, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, nullptr));
    if (!is_cluster()) return;  // PoCL 3.1 crashes in some of these calls
    const char *no_text = nullptr;
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                     clCreateProgramWithSource(cl.context, 1, nullptr, nullptr, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                     clCreateProgramWithSource(cl.context, 1, &no_text, nullptr, &error));
    CL_FAILS(CL_INVALID_DEVICE, clBuildProgram(program, 1, &no_device, nullptr, nullptr, nullptr));
    const cl_int code = clBuildProgram(program, 0, nullptr, "-no-such-option", nullptr, nullptr);
    // NVIDIA's compiler returns CL_BUILD_PROGRAM_FAILURE.
    CHECK((code == CL_INVALID_BUILD_OPTIONS || code == CL_BUILD_PROGRAM_FAILURE));
    CL_FAILS(CL_INVALID_DEVICE,
             clGetProgramBuildInfo(program, nullptr, CL_PROGRAM_BUILD_LOG, 0, nullptr, nullptr));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                     clCreateProgramWithBuiltInKernels(cl.context, 1, &device, nullptr, &error));
    if (devices().size() > 1) {
        cl_int code = CL_SUCCESS;
        const context_handle of_first(
            clCreateContext(nullptr, 1, devices().data(), nullptr, nullptr, &code));
        const program_handle small(make_program(of_first, text, &code));
        CL_OK(code);
        CL_FAILS(CL_INVALID_DEVICE,
                 clBuildProgram(small, 1, &devices().back(), nullptr, nullptr, nullptr));
        CL_FAILS(CL_INVALID_DEVICE,
                 clGetProgramBuildInfo(small, devices().back(), CL_PROGRAM_BUILD_LOG, 0, nullptr,
                                       nullptr));
    }
}
