/// The library never changes the program's error handlers. This program defines its own
/// PMPI_Comm_set_errhandler, which the library calls instead of MPI's, so the test sees which
/// handlers the library changes.

#include <dlfcn.h>

#include <atomic>
#include <barrier>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>
#include <vector>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

std::mutex mutex;
std::set<MPI_Comm> programs_own;  ///< without MPI_COMM_WORLD and MPI_COMM_SELF
std::atomic<int> handlers_changed = 0;
std::atomic<int> handled = 0;

void count_error(MPI_Comm * /*comm*/, int * /*code*/, ...) { ++handled; }

/// Installs an error handler for MPI_COMM_WORLD during its life.
class world_handler {
public:
    world_handler() {
        MPI_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before));
        MPI_OK(MPI_Comm_create_errhandler(&count_error, &own));
        MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, own));
    }
    ~world_handler() {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
        MPI_Errhandler_free(&before);
        MPI_Errhandler_free(&own);
    }
    world_handler(const world_handler &) = delete;
    world_handler &operator=(const world_handler &) = delete;

    [[nodiscard]] bool is_there() const {
        MPI_Errhandler now = MPI_ERRHANDLER_NULL;
        MPI_Comm_get_errhandler(MPI_COMM_WORLD, &now);
        const bool same = now == own;
        MPI_Errhandler_free(&now);
        return same;
    }

private:
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
    MPI_Errhandler own = MPI_ERRHANDLER_NULL;
};

std::vector<MPI_Comm> duplicates(std::size_t count) {
    std::vector<MPI_Comm> comms(count);
    for (MPI_Comm &comm : comms) {
        MPI_OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
        const std::lock_guard lock(mutex);
        programs_own.insert(comm);
    }
    return comms;
}

void free_all(std::vector<MPI_Comm> &comms) {
    for (MPI_Comm &comm : comms) {
        {
            const std::lock_guard lock(mutex);
            programs_own.erase(comm);
        }
        MPI_OK(MPI_Comm_free(&comm));
    }
}

cl_int use(cl_command_queue queue, cl_mem buffer, MPI_Comm comm) {
    return clEnqueueSendBuffer(queue, buffer, CL_TRUE, 0, 4, MPI_PROC_NULL, 0, comm, 0, nullptr,
                               nullptr);
}

}  // namespace

extern "C" int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) {
    {
        const std::lock_guard lock(mutex);
        if (comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF || programs_own.count(comm) != 0)
            ++handlers_changed;
    }
    static const auto real = reinterpret_cast<decltype(&PMPI_Comm_set_errhandler)>(
        dlsym(RTLD_NEXT, "PMPI_Comm_set_errhandler"));
    return real(comm, handler);
}

MPI_CASE(
    "threads that use communicators for the first time do not change the error handler of "
    "MPI_COMM_WORLD",
    1) {
    constexpr std::size_t threads = 8;
    constexpr std::size_t each = 100;
    const opencl cl;
    const buffer_handle buffer = cl.buffer(64);
    std::vector<MPI_Comm> comms = duplicates(threads * each);
    const world_handler handler;
    handlers_changed = 0;
    std::atomic<int> failed = 0;
    std::barrier start(threads);
    {
        std::vector<std::jthread> users;
        for (std::size_t t = 0; t < threads; ++t) {
            users.emplace_back([&, t, queue = cl.in_order_queue()] {
                for (std::size_t i = 0; i < each; ++i) {
                    start.arrive_and_wait();
                    if (use(queue, buffer, comms[t * each + i]) != CL_SUCCESS ||
                        !handler.is_there()) {
                        ++failed;
                    }
                }
            });
        }
    }
    CHECK(failed.load() == 0);
    CHECK(handler.is_there());
    CHECK(handlers_changed.load() == 0);
    free_all(comms);
}

MPI_CASE(
    "errors of one thread reach the program's handler while another uses communicators for the "
    "first time",
    1) {
    const opencl cl;
    const buffer_handle buffer = cl.buffer(64);
    const world_handler handler;
    handlers_changed = 0;
    constexpr int errors = 20000;
    handled = 0;
    {
        std::vector<MPI_Comm> comms = duplicates(2000);
        std::barrier start(2);
        std::jthread user([&, queue = cl.in_order_queue()](const std::stop_token &stop) {
            start.arrive_and_wait();
            for (const MPI_Comm comm : comms) {
                if (!stop.stop_requested()) {
                    use(queue, buffer, comm);
                }
            }
        });
        start.arrive_and_wait();
        for (int i = 0; i < errors; ++i) {
            MPI_Send(nullptr, 0, MPI_INT, mpi.size, 0, MPI_COMM_WORLD);
        }
        user.request_stop();
        user.join();
        free_all(comms);
    }
    CHECK(handled.load() == errors);
    CHECK(handlers_changed.load() == 0);
}

MPI_CASE("a freed communicator is CL_INVALID_COMMUNICATOR, and no handler is called", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.buffer(64);
    const world_handler handler;
    handlers_changed = 0;
    handled = 0;
    for (const bool used : {false, true}) {
        CAPTURE(used);
        std::vector<MPI_Comm> comms = duplicates(1);
        const MPI_Comm copy = comms.front();
        if (used) {
            CL_OK(use(queue, buffer, copy));
        }
        free_all(comms);
        CHECK(use(queue, buffer, copy) == CL_INVALID_COMMUNICATOR);
        CHECK(clDistInit(copy) == CL_INVALID_COMMUNICATOR);
        cl_device_id device = nullptr;
        CHECK(clDistLocalDevice(copy, nullptr, CL_DEVICE_TYPE_ALL, &device) ==
              CL_INVALID_COMMUNICATOR);
    }
    CHECK(handled.load() == 0);
    CHECK(handlers_changed.load() == 0);
    CHECK(handler.is_there());
}
