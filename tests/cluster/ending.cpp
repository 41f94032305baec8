// Plain OpenCL programs that end in unusual ways, each in its own job. Argument 1 selects the way.
#include <CL/cl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "plain_opencl.hpp"

namespace {

using cldist_test::all_devices;
using cldist_test::check;

constexpr std::size_t size = std::size_t{1} << 20U;

struct objects {
    cl_context context = nullptr;
    std::vector<cl_command_queue> queues;  // one per device
    cl_mem buffer = nullptr;
    cl_event event = nullptr;
    std::vector<char> host = std::vector<char>(size, 'x');

    void make() {
        const std::vector<cl_device_id> devices = all_devices();
        cl_int code = CL_SUCCESS;
        context = clCreateContext(nullptr, static_cast<cl_uint>(devices.size()), devices.data(),
                                  nullptr, nullptr, &code);
        check(code, "clCreateContext");
        for (const cl_device_id device : devices) {
            queues.push_back(clCreateCommandQueue(context, device, 0, &code));
            check(code, "clCreateCommandQueue");
        }
        buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, size, nullptr, &code);
        check(code, "clCreateBuffer");
    }

    /// The last device writes and all other devices read, so that each process gets messages.
    void use() {
        check(clEnqueueWriteBuffer(queues.back(), buffer, CL_FALSE, 0, size, host.data(), 0,
                                   nullptr, &event),
              "clEnqueueWriteBuffer");
        for (const cl_command_queue queue : queues)
            check(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, size, host.data(), 1, &event,
                                      nullptr),
                  "clEnqueueReadBuffer");
        for (const cl_command_queue queue : queues) check(clFlush(queue), "clFlush");
    }

    void release() {
        if (event != nullptr) check(clReleaseEvent(event), "clReleaseEvent");
        check(clReleaseMemObject(buffer), "clReleaseMemObject");
        for (const cl_command_queue queue : queues)
            check(clReleaseCommandQueue(queue), "clReleaseCommandQueue");
        check(clReleaseContext(context), "clReleaseContext");
        std::fprintf(stderr, "released\n");
    }
};

// Created before main and destroyed after main, also after the platform's own shutdown.
struct released_late : objects {
    ~released_late() {
        if (context != nullptr) release();
    }
} late;

// Like released_late, but makes calls of all kinds at that time. Calls that need another process
// return CL_OUT_OF_RESOURCES; all others succeed.
struct used_late : objects {
    cl_kernel kernel = nullptr;

    void make_kernel() {
        const char *source = "kernel void inc(global int *data) { data[get_global_id(0)] += 1; }";
        cl_int code = CL_SUCCESS;
        const cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
        check(code, "clCreateProgramWithSource");
        check(clBuildProgram(program, 0, nullptr, nullptr, nullptr, nullptr), "clBuildProgram");
        kernel = clCreateKernel(program, "inc", &code);
        check(code, "clCreateKernel");
        check(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "clSetKernelArg");
        launch();
    }

    void launch() const {
        const std::size_t global = 64;
        for (const cl_command_queue queue : queues)
            expect_no_process(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &global, nullptr, 0,
                                                     nullptr, nullptr),
                              "kernel");
    }

    static void expect_no_process(cl_int code, const char *call) {
        if (code != CL_OUT_OF_RESOURCES) check(code, call);
    }

    ~used_late() {
        if (context == nullptr) return;
        std::vector<char> bytes(64);
        launch();
        for (const cl_command_queue queue : queues) {
            expect_no_process(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, 64, bytes.data(), 0,
                                                   nullptr, nullptr),
                              "write");
            expect_no_process(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 64, bytes.data(), 0,
                                                  nullptr, nullptr),
                              "read");
            cl_int code = CL_SUCCESS;
            clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, 64, 0, nullptr, nullptr,
                               &code);
            expect_no_process(code, "map");
            expect_no_process(clFinish(queue), "clFinish");
        }
        expect_no_process(clWaitForEvents(1, &event), "clWaitForEvents");
        cl_uint count = 0;
        check(clGetMemObjectInfo(buffer, CL_MEM_REFERENCE_COUNT, sizeof count, &count, nullptr),
              "clGetMemObjectInfo");
        release();
    }
} used;

bool is_rank(const char *rank) {
    const char *const mine = std::getenv("OMPI_COMM_WORLD_RANK");
    return mine != nullptr && std::string(mine) == rank;
}

/// Rank 0 reads only half of the bytes that the other ranks read from the last device.
void sizes_differ() {
    objects cl;
    cl.make();
    cl.use();
    for (const cl_command_queue queue : cl.queues) check(clFinish(queue), "clFinish");
    clEnqueueReadBuffer(cl.queues.back(), cl.buffer, CL_TRUE, 0, is_rank("0") ? size / 2 : size,
                        cl.host.data(), 0, nullptr, nullptr);
}

/// Only rank 0 sets a user event that commands of all ranks wait for.
void user_event_differs() {
    objects cl;
    cl.make();
    cl.use();
    cl_int error = CL_SUCCESS;
    const cl_event event = clCreateUserEvent(cl.context, &error);
    check(error, "clCreateUserEvent");
    for (const cl_command_queue queue : cl.queues)
        check(clEnqueueMarkerWithWaitList(queue, 1, &event, nullptr),
              "clEnqueueMarkerWithWaitList");
    if (is_rank("0")) check(clSetUserEventStatus(event, CL_COMPLETE), "clSetUserEventStatus");
    for (const cl_command_queue queue : cl.queues) clFinish(queue);
}

/// No process sets the user event that all commands wait for.
void user_event_unset() {
    auto &cl = *new objects;
    cl.make();
    cl.use();
    cl_int error = CL_SUCCESS;
    const cl_event user = clCreateUserEvent(cl.context, &error);
    check(error, "clCreateUserEvent");
    for (const cl_command_queue queue : cl.queues) {
        cl_event event = nullptr;
        check(clEnqueueReadBuffer(queue, cl.buffer, CL_FALSE, 0, size, cl.host.data(), 1, &user,
                                  &event),
              "read");
        check(clEnqueueCopyBuffer(queue, cl.buffer, cl.buffer, 0, size / 2, size / 2, 1, &event,
                                  nullptr),
              "copy");
        check(clEnqueueWriteBuffer(queue, cl.buffer, CL_FALSE, 0, size, cl.host.data(), 1, &user,
                                   nullptr),
              "write");
        check(clFlush(queue), "clFlush");
    }
}

/// Lets the last device write two buffers with CL_MEM_USE_HOST_PTR. The program maps only the
/// second one before it releases them, so cldist must report the first one.
void host_memory_unseen() {
    objects cl;
    cl.make();
    cl_int error = CL_SUCCESS;
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{8192}}) {
        const cl_mem memory = clCreateBuffer(cl.context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                             bytes, cl.host.data(), &error);
        check(error, "clCreateBuffer");
        const int value = 7;
        check(clEnqueueFillBuffer(cl.queues.back(), memory, &value, sizeof value, 0, bytes, 0,
                                  nullptr, nullptr),
              "fill");
        if (bytes != 4096) {
            void *const mapped = clEnqueueMapBuffer(cl.queues.back(), memory, CL_TRUE, CL_MAP_READ,
                                                    0, bytes, 0, nullptr, nullptr, &error);
            check(error, "clEnqueueMapBuffer");
            check(clEnqueueUnmapMemObject(cl.queues.back(), memory, mapped, 0, nullptr, nullptr),
                  "unmap");
        }
        check(clFinish(cl.queues.back()), "clFinish");
        check(clReleaseMemObject(memory), "clReleaseMemObject");
    }
    cl.release();
}

/// Ends with commands in flight and without exit().
void end_without_exit(const std::string &way) {
    auto &cl = *new objects;
    cl.make();
    cl.use();
    std::puts("fine");
    std::fflush(stdout);
    if (way == "_exit") _exit(0);
    if (way == "killed") std::raise(SIGKILL);
    if (way == "quick_exit") std::quick_exit(0);
    execlp("true", "true", nullptr);
}

/// Its children end, execute another program, or fail to. The parent continues to use OpenCL.
void children_end() {
    auto &cl = *new objects;
    cl.make();
    const char *const missing = "/no/such/program";
    for (const bool is_vfork : {false, true})
        for (const char *const program : {"", missing, "/bin/true"}) {
            const pid_t child = is_vfork ? vfork() : fork();
            if (child == 0) {
                if (*program != '\0') execl(program, program, nullptr);
                _exit(0);
            }
            int status = -1;
            if (waitpid(child, &status, 0) != child || status != 0)
                std::fprintf(stderr, "UNEXPECTED: a child ended with %d\n", status);
        }
    if (execl(missing, missing, nullptr) != -1 || execlp("no-such-program", missing, nullptr) != -1)
        std::_Exit(9);
    cl.use();
    for (const cl_command_queue queue : cl.queues) check(clFinish(queue), "clFinish");
    cl.release();
    std::puts("fine");
}

/// Continues in a child with its own session, like daemon(). The parent ends at once, or after the
/// child has created a context.
int become_daemon(bool parent_waits) {
    std::array<int, 2> joined{};
    if (pipe(joined.data()) != 0) return 9;
    if (fork() != 0) {
        char byte = 0;
        if (parent_waits && read(joined[0], &byte, 1) != 1) _exit(9);
        _exit(0);
    }
    setsid();
    auto &cl = *new objects;
    cl.make();
    if (write(joined[1], "", 1) != 1) return 9;
    cl.use();
    for (const cl_command_queue queue : cl.queues) check(clFinish(queue), "clFinish");
    std::puts("fine");
    return 0;
}

volatile std::sig_atomic_t interrupts = 0;

/// Makes calls, or sleeps, until SIGINT arrives, and then uses all devices once more.
void work_until_interrupted(const std::string &way) {
    const bool asleep = way == "interrupted-asleep";
    if (way == "interrupted-in-thread") {
        std::thread([] {
            for (;;) pause();
        }).detach();
        sigset_t interrupt{};
        sigaddset(&interrupt, SIGINT);
        pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
    }
    std::signal(SIGINT, [](int) { interrupts = interrupts + 1; });
    auto &cl = *new objects;
    cl.make();
    std::puts("ready");
    std::fflush(stdout);
    const std::time_t end = std::time(nullptr) + 100;
    while (interrupts == 0 && std::time(nullptr) < end) {
        if (asleep) {
            usleep(10'000);
            continue;
        }
        // Rank 1 lags some calls behind.
        for (int i = 0; i < 20 && interrupts == 0; ++i) {
            cl_int code = CL_SUCCESS;
            const cl_mem other = clCreateBuffer(cl.context, CL_MEM_READ_WRITE, 64, nullptr, &code);
            check(code, "clCreateBuffer");
            check(clReleaseMemObject(other), "clReleaseMemObject");
            if (is_rank("1")) usleep(200);
        }
        cl.use();
        for (const cl_command_queue queue : cl.queues) check(clFinish(queue), "clFinish");
    }
    // After the signal, all ranks must still make the same calls.
    cl.use();
    for (const cl_command_queue queue : cl.queues) check(clFinish(queue), "clFinish");
    std::printf("interrupted %d time\n", static_cast<int>(interrupts));
}

void die() {
    std::fprintf(stderr, "dies\n");
    raise(SIGKILL);
}

/// Rank 1 is killed. The other ranks wait for its device.
void killed(const std::string &where) {
    objects cl;
    cl.make();
    cl.use();
    for (const cl_command_queue queue : cl.queues) check(clFinish(queue), "clFinish");
    if (is_rank("1")) die();
    const cl_command_queue theirs = cl.queues.at(1);
    cl_event event = nullptr;
    check(clEnqueueWriteBuffer(theirs, cl.buffer, CL_FALSE, 0, size, cl.host.data(), 0, nullptr,
                               &event),
          "write");
    if (where == "in-finish") {
        check(clEnqueueReadBuffer(theirs, cl.buffer, CL_FALSE, 0, size, cl.host.data(), 0, nullptr,
                                  nullptr),
              "read");
        clFinish(theirs);
    } else if (where == "in-read") {
        clEnqueueReadBuffer(theirs, cl.buffer, CL_TRUE, 0, size, cl.host.data(), 0, nullptr,
                            nullptr);
    } else {
        clWaitForEvents(1, &event);
    }
    // The call's code does not matter: its result needs rank 1.
    std::_Exit(9);
}

/// Writes beyond the end of two maps, of a buffer and of an image. Natively, the bytes behind a map
/// belong to the same object.
void write_beyond_maps() {
    objects cl;
    cl.make();
    const cl_command_queue queue = cl.queues.back();
    cl_int code = CL_SUCCESS;
    auto *mapped = static_cast<char *>(clEnqueueMapBuffer(queue, cl.buffer, CL_TRUE, CL_MAP_WRITE,
                                                          64, 100, 0, nullptr, nullptr, &code));
    check(code, "clEnqueueMapBuffer");
    std::fill_n(mapped, 140, 'y');
    check(clEnqueueUnmapMemObject(queue, cl.buffer, mapped, 0, nullptr, nullptr),
          "clEnqueueUnmapMemObject");
    // A map makes all its bytes readable.
    mapped = static_cast<char *>(clEnqueueMapBuffer(queue, cl.buffer, CL_TRUE, CL_MAP_READ, 0, 200,
                                                    0, nullptr, nullptr, &code));
    check(code, "clEnqueueMapBuffer");
    if (std::count(mapped + 64, mapped + 164, 'y') != 100)
        check(CL_INVALID_VALUE, "what is mapped");
    check(clEnqueueUnmapMemObject(queue, cl.buffer, mapped, 0, nullptr, nullptr),
          "clEnqueueUnmapMemObject");

    const cl_image_format format{CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc desc{};
    desc.image_type = CL_MEM_OBJECT_IMAGE2D;
    desc.image_width = desc.image_height = 64;
    const cl_mem image =
        clCreateImage(cl.context, CL_MEM_READ_WRITE, &format, &desc, nullptr, &code);
    check(code, "clCreateImage");
    const std::array<std::size_t, 3> origin{};
    const std::array<std::size_t, 3> region{64, 2, 1};
    std::size_t pitch = 0;
    mapped = static_cast<char *>(clEnqueueMapImage(queue, image, CL_TRUE, CL_MAP_WRITE,
                                                   origin.data(), region.data(), &pitch, nullptr, 0,
                                                   nullptr, nullptr, &code));
    check(code, "clEnqueueMapImage");
    std::fill_n(mapped, 3 * pitch, 'z');
    check(clEnqueueUnmapMemObject(queue, image, mapped, 0, nullptr, nullptr),
          "clEnqueueUnmapMemObject");
    check(clFinish(queue), "clFinish");
    check(clReleaseMemObject(image), "clReleaseMemObject");
    cl.release();
}

}  // namespace

int main(int argc, char **argv) {
    const std::string way = argc > 1 ? argv[1] : "";
    if (way.rfind("killed-", 0) == 0) {
        killed(way.substr(7));
    } else if (way == "sizes-differ") {
        sizes_differ();
    } else if (way == "user-event-differs") {
        user_event_differs();
    } else if (way == "user-event-unset") {
        user_event_unset();
    } else if (way == "host-memory-unseen") {
        host_memory_unseen();
    } else if (way == "beyond-maps") {
        write_beyond_maps();
    } else if (way == "nothing-released") {
        // The object is never freed, because its commands may be in flight.
        auto &cl = *new objects;
        cl.make();
        cl.use();
    } else if (way == "released-after-main") {
        late.make();
        late.use();
    } else if (way == "used-after-main") {
        used.make();
        used.make_kernel();
        used.use();
        for (const cl_command_queue queue : used.queues) check(clFinish(queue), "clFinish");
    } else if (way == "exit-3") {
        auto &cl = *new objects;
        cl.make();
        cl.use();
        std::exit(3);
    } else if (way == "_exit" || way == "quick_exit" || way == "exec" || way == "killed") {
        end_without_exit(way);
    } else if (way == "children") {
        children_end();
    } else if (way == "daemon" || way == "daemon-joins-first") {
        return become_daemon(way != "daemon");
    } else if (way.rfind("interrupted", 0) == 0) {
        work_until_interrupted(way);
    } else if (way == "platform-alone") {
        cl_platform_id platform = nullptr;
        check(clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
    } else {
        std::fprintf(stderr, "UNEXPECTED: no way to end is called \"%s\"\n", way.c_str());
        return 9;
    }
    return 0;
}
