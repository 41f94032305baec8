/// Calls before MPI_Init, after MPI_Finalize, and after an initialisation of MPI that bypassed the
/// library. Each case needs its own job; the first argument is its name.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include <CL/cl_ext_dist.h>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

/// Checks that MPI_CL_MEM is MPI_DATATYPE_NULL and that calls with it fail, as long as the library
/// is not initialised.
void expect_host_memory_refused() {
    int initialized = 0;
    int finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (initialized != 0 && finalized == 0)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    expect("MPI_CL_MEM is no datatype yet", MPI_CL_MEM == MPI_DATATYPE_NULL ? 1 : 0, 1);
    char data[8] = {};
    MPI_Request request = MPI_REQUEST_NULL;
    expect("MPI_Send", MPI_Send(data, 8, MPI_CL_MEM, 0, 1, MPI_COMM_WORLD), MPI_ERR_TYPE);
    expect("MPI_Isend", MPI_Isend(data, 8, MPI_CL_MEM, 0, 1, MPI_COMM_WORLD, &request),
           MPI_ERR_TYPE);
    expect("MPI_Recv", MPI_Recv(data, 8, MPI_CL_MEM, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
           MPI_ERR_TYPE);
}

/// Checks that all three commands fail with `code`, unless an earlier check fails.
void expect_commands_refused(const bare_device &d, cl_int code) {
    expect_host_memory_refused();
    for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
        expect("a send",
               clEnqueueSendBuffer(d.queue, d.buffer, blocking, 0, 8, 0, 1, MPI_COMM_WORLD, 0,
                                   nullptr, nullptr),
               code);
        expect("a receive",
               clEnqueueRecvBuffer(d.queue, d.buffer, blocking, 0, 8, 0, 1, MPI_COMM_WORLD, 0,
                                   nullptr, nullptr),
               code);
        expect("a send-receive",
               clEnqueueSendrecvBuffer(d.queue, d.buffer, blocking, 0, 8, 0, 1, d.buffer, 8, 8, 0,
                                       1, MPI_COMM_WORLD, 0, nullptr, nullptr),
               code);
    }
    expect("a send with a wrong range",
           clEnqueueSendBuffer(d.queue, d.buffer, CL_FALSE, 0, 257, 0, 1, MPI_COMM_WORLD, 0,
                               nullptr, nullptr),
           CL_INVALID_VALUE);
    expect("a send with a wrong communicator",
           clEnqueueSendBuffer(d.queue, d.buffer, CL_FALSE, 0, 8, 0, 1, MPI_COMM_NULL, 0, nullptr,
                               nullptr),
           code);

    MPI_Request request = MPI_REQUEST_NULL;
    cl_int found = CL_SUCCESS;
    clCreateEventFromMPIRequest(d.context, &request, &found);
    expect("clCreateEventFromMPIRequest", found, code);
    cl_event event = clCreateUserEvent(d.context, &found);
    expect("clCreateMPIRequestFromEvent", clCreateMPIRequestFromEvent(event, &request), code);
    expect("writing the request", request == MPI_REQUEST_NULL ? 0 : 1, 0);
    clSetUserEventStatus(event, CL_COMPLETE);
    clReleaseEvent(event);
}

void expect_local_device(cl_int code) {
    cl_device_id found = nullptr;
    expect("clDistLocalDevice",
           clDistLocalDevice(MPI_COMM_SELF, nullptr, CL_DEVICE_TYPE_ALL, &found), code);
    if ((found != nullptr) != (code == CL_SUCCESS)) {
        std::fprintf(stderr,
                     "clDistLocalDevice: it must return a device exactly with CL_SUCCESS\n");
        ++failures;
    }
    expect("clDistLocalDevice with nothing valid",
           clDistLocalDevice(MPI_COMM_NULL, nullptr, 0, nullptr),
           code == CL_SUCCESS ? CL_INVALID_COMMUNICATOR : code);
}

void expect_host_memory_works() {
    char data[8] = {};
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    expect("MPI_Sendrecv",
           MPI_Sendrecv("1234567", 8, MPI_CL_MEM, rank, 1, data, 8, MPI_CL_MEM, rank, 1,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE),
           MPI_SUCCESS);
    expect("what was received", std::strcmp(data, "1234567"), 0);
}

void expect_commands_work(const bare_device &d) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    cl_event events[2] = {nullptr, nullptr};
    expect("a receive",
           clEnqueueRecvBuffer(d.queue, d.buffer, CL_FALSE, 0, 8, rank, 1, MPI_COMM_WORLD, 0,
                               nullptr, &events[0]),
           CL_SUCCESS);
    expect("a send",
           clEnqueueSendBuffer(d.other_queue, d.buffer, CL_FALSE, 8, 8, rank, 1, MPI_COMM_WORLD, 0,
                               nullptr, &events[1]),
           CL_SUCCESS);
    if (failures == 0) {
        expect("waiting", clWaitForEvents(2, events), CL_SUCCESS);
        clReleaseEvent(events[0]);
        clReleaseEvent(events[1]);
    }
    expect_host_memory_works();
}

void before_init(const bare_device &d) {
    expect("clDistInit", clDistInit(MPI_COMM_WORLD), CL_MPI_NOT_INITIALIZED);
    expect_commands_refused(d, CL_MPI_NOT_INITIALIZED);
    expect_local_device(CL_MPI_NOT_INITIALIZED);
    MPI_Init(nullptr, nullptr);
    expect_local_device(CL_SUCCESS);
    expect_commands_work(d);
    MPI_Finalize();
}

void after_finalize(const bare_device &d) {
    MPI_Init(nullptr, nullptr);
    expect_commands_work(d);
    MPI_Finalize();
    expect("clDistInit", clDistInit(MPI_COMM_WORLD), CL_MPI_NOT_INITIALIZED);
    expect_commands_refused(d, CL_MPI_NOT_INITIALIZED);
    expect_local_device(CL_MPI_NOT_INITIALIZED);
}

/// Calls MPI_Init_thread through dlsym, which bypasses cldist's wrapper.
void init_behind_the_back(int level, int *provided) {
    using Init = int(int *, char ***, int, int *);
    auto *const init = reinterpret_cast<Init *>(dlsym(RTLD_DEFAULT, "PMPI_Init_thread"));
    expect("MPI_Init_thread", init(nullptr, nullptr, level, provided), MPI_SUCCESS);
}

void below_multiple(const bare_device &d, int level) {
    int provided = MPI_THREAD_SINGLE;
    init_behind_the_back(level, &provided);
    expect_local_device(CL_SUCCESS);
    expect("clDistInit", clDistInit(MPI_COMM_WORLD), CL_MPI_THREAD_LEVEL_TOO_LOW);
    expect_commands_refused(d, CL_MPI_THREAD_LEVEL_TOO_LOW);
    expect("clDistInit of no communicator", clDistInit(MPI_COMM_NULL), CL_MPI_THREAD_LEVEL_TOO_LOW);
    MPI_Finalize();
    expect_commands_refused(d, CL_MPI_NOT_INITIALIZED);
}

/// The first command initialises the library, as clDistInit does. MPI calls with MPI_CL_MEM do not.
void hidden_multiple(const bare_device &d, bool with_init) {
    int provided = MPI_THREAD_SINGLE;
    init_behind_the_back(MPI_THREAD_MULTIPLE, &provided);
    expect_host_memory_refused();
    expect_local_device(CL_SUCCESS);
    if (with_init) {
        expect("clDistInit", clDistInit(MPI_COMM_WORLD), CL_SUCCESS);
        expect_commands_work(d);
    } else {
        // Two threads may enqueue the first command at the same time.
        std::thread other([&] {
            expect("a send of another thread",
                   clEnqueueSendBuffer(d.queue, d.buffer, CL_FALSE, 0, 8, MPI_PROC_NULL, 1,
                                       MPI_COMM_WORLD, 0, nullptr, nullptr),
                   CL_SUCCESS);
        });
        expect("a send",
               clEnqueueSendBuffer(d.other_queue, d.buffer, CL_FALSE, 0, 8, MPI_PROC_NULL, 1,
                                   MPI_COMM_WORLD, 0, nullptr, nullptr),
               CL_SUCCESS);
        other.join();
        expect_commands_work(d);
    }
    expect("clDistInit again", clDistInit(MPI_COMM_WORLD), CL_SUCCESS);
    expect_commands_work(d);
    expect("clDistInit of no communicator", clDistInit(MPI_COMM_NULL), CL_INVALID_COMMUNICATOR);
    MPI_Finalize();
    expect_commands_refused(d, CL_MPI_NOT_INITIALIZED);
}

/// Rank 1 enqueues its first command only after rank 0 has printed that it waits for other ranks.
void hidden_late(const bare_device &d) {
    int provided = MPI_THREAD_SINGLE;
    int rank = 0;
    init_behind_the_back(MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        const int errors = dup(STDERR_FILENO);
        int ends[2];
        if (pipe(ends) != 0) return;
        dup2(ends[1], STDERR_FILENO);
        std::thread reader([&] {
            char text[1024];
            const ssize_t size = read(ends[0], text, sizeof text);
            dup2(errors, STDERR_FILENO);
            [[maybe_unused]] const ssize_t written =
                write(errors, text, size > 0 ? static_cast<std::size_t>(size) : 0);
            MPI_Send(nullptr, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        });
        expect_commands_work(d);
        reader.join();
    } else {
        MPI_Recv(nullptr, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_commands_work(d);
    }
    MPI_Finalize();
}

/// Calls MPI_Init_thread as programs do. The library raises the level and reports it in `provided`.
void init_thread(const bare_device &d, int level) {
    int provided = MPI_THREAD_SINGLE;
    MPI_Init_thread(nullptr, nullptr, level, &provided);
    expect("the level provided", provided, MPI_THREAD_MULTIPLE);
    expect_commands_work(d);
    MPI_Finalize();
}

}  // namespace

int main(int argc, char **argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    const bare_device d(256);
    if (what == "before-init") {
        before_init(d);
    } else if (what == "after-finalize") {
        after_finalize(d);
    } else if (what == "hidden-single") {
        below_multiple(d, MPI_THREAD_SINGLE);
    } else if (what == "hidden-funneled") {
        below_multiple(d, MPI_THREAD_FUNNELED);
    } else if (what == "hidden-multiple") {
        hidden_multiple(d, false);
    } else if (what == "hidden-multiple-init") {
        hidden_multiple(d, true);
    } else if (what == "hidden-late") {
        hidden_late(d);
    } else if (what == "init-thread-single") {
        init_thread(d, MPI_THREAD_SINGLE);
    } else if (what == "init-thread-multiple") {
        init_thread(d, MPI_THREAD_MULTIPLE);
    } else {
        std::fprintf(stderr, "unknown case: %s\n", what.c_str());
        return 2;
    }
    d.release();
    std::printf("%s: %s\n", what.c_str(), failures == 0 ? "passed" : "failed");
    return failures == 0 ? 0 : 1;
}
