/// Measures the cost of a command while many commands wait, and of an exchange of messages.
/// bench/load.py also runs it while other programs load the machine.
///
/// In "chain", every command waits for the previous one. In "receives", all receives are enqueued
/// before the first send. In "files", all writes to one file wait for one event. In "exchange",
/// blocking messages of 8 bytes go back and forth.
///
/// --native measures the same with plain OpenCL, MPI and the file system.
#include "bench.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <CL/cl_ext_dist.h>

namespace {

using namespace bench;

constexpr size_t size = 64;
// MPI guarantees only tags up to 32767.
constexpr int tags = 30000;

[[noreturn]] void usage(int code) {
    fmt::print("usage: mpirun -n 2 load chain|receives|files|exchange COUNT [--native]\n");
    std::exit(code);
}

struct Load {
    const Device &device;
    int rank;
    int count;
    bool native;
    cl_command_queue queue = device.queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    cl_mem buffer = device.buffer(size);
    std::vector<char> host = std::vector<char>(size);

    [[nodiscard]] cl_event user_event() const {
        cl_int status = CL_SUCCESS;
        cl_event made = clCreateUserEvent(device.context, &status);
        check(status, "clCreateUserEvent");
        return made;
    }

    /// Sets `gate` and returns the seconds until all commands are complete. Uses no marker, because
    /// its time in PoCL 3.1 grows with the square of the number of commands.
    [[nodiscard]] double released(cl_event gate) const {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = now();
        check(clSetUserEventStatus(gate, CL_COMPLETE), "clSetUserEventStatus");
        check(clFinish(queue), "clFinish");
        return now() - start;
    }

    [[nodiscard]] double chain() {
        const cl_event gate = user_event();
        cl_event last = gate;
        for (int i = 0; i < count; ++i) {
            const cl_event before = last;
            const int other = 1 - rank;
            if (native)
                check(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, size, host.data(), 1, &before,
                                          &last),
                      "read");
            else if (i % 2 == rank)
                check(clEnqueueSendBuffer(queue, buffer, CL_FALSE, 0, size, other, i % tags,
                                          MPI_COMM_WORLD, 1, &before, &last),
                      "clEnqueueSendBuffer");
            else
                check(clEnqueueRecvBuffer(queue, buffer, CL_FALSE, 0, size, other, i % tags,
                                          MPI_COMM_WORLD, 1, &before, &last),
                      "clEnqueueRecvBuffer");
            if (before != gate) clReleaseEvent(before);
        }
        clFlush(queue);
        return released(gate);
    }

    [[nodiscard]] double receives() {
        std::vector<MPI_Request> requests(static_cast<size_t>(count));
        if (rank == 1) {
            for (int i = 0; i < count; ++i) {
                if (native)
                    MPI_Irecv(host.data(), size, MPI_BYTE, 0, i % tags, MPI_COMM_WORLD,
                              &requests[static_cast<size_t>(i)]);
                else
                    check(clEnqueueRecvBuffer(queue, buffer, CL_FALSE, 0, size, 0, i % tags,
                                              MPI_COMM_WORLD, 0, nullptr, nullptr),
                          "clEnqueueRecvBuffer");
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = now();
        if (rank == 0) {
            for (int i = 0; i < count; ++i)
                MPI_Send(host.data(), size, native ? MPI_BYTE : MPI_CL_MEM, 1, i % tags,
                         MPI_COMM_WORLD);
        } else if (native) {
            MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
        } else {
            check(clFinish(queue), "clFinish");
        }
        MPI_Barrier(MPI_COMM_WORLD);
        return now() - start;
    }

    [[nodiscard]] double files() {
        char name[] = "/tmp/cldist-load-XXXXXX";
        const int file = mkstemp(name);
        if (file < 0) die("can't create a temporary file");
        unlink(name);
        const cl_event gate = user_event();
        for (int i = 0; i < count; ++i) {
            if (native)
                check(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, size, host.data(), 1, &gate,
                                          nullptr),
                      "read");
            else
                check(clEnqueueReadBufferToFile(queue, buffer, CL_FALSE, 0, size, file,
                                                static_cast<off_t>(i) * 64, 1, &gate, nullptr),
                      "clEnqueueReadBufferToFile");
        }
        clFlush(queue);
        double seconds = released(gate);
        const double start = now();
        if (native)
            for (int i = 0; i < count; ++i)
                if (pwrite(file, host.data(), size, static_cast<off_t>(i) * 64) != size)
                    die("pwrite failed");
        seconds += now() - start;
        close(file);
        return seconds;
    }

    [[nodiscard]] double exchange() {
        cl_command_queue in_order = device.queue();
        const auto send = [&] {
            if (native) {
                check(clEnqueueReadBuffer(in_order, buffer, CL_TRUE, 0, 8, host.data(), 0, nullptr,
                                          nullptr),
                      "read");
                MPI_Send(host.data(), 8, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD);
            } else {
                check(clEnqueueSendBuffer(in_order, buffer, CL_TRUE, 0, 8, 1 - rank, 1,
                                          MPI_COMM_WORLD, 0, nullptr, nullptr),
                      "clEnqueueSendBuffer");
            }
        };
        const auto receive = [&] {
            if (native) {
                MPI_Recv(host.data(), 8, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                check(clEnqueueWriteBuffer(in_order, buffer, CL_TRUE, 0, 8, host.data(), 0, nullptr,
                                           nullptr),
                      "write");
            } else {
                check(clEnqueueRecvBuffer(in_order, buffer, CL_TRUE, 0, 8, 1 - rank, 1,
                                          MPI_COMM_WORLD, 0, nullptr, nullptr),
                      "clEnqueueRecvBuffer");
            }
        };
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = now();
        for (int i = 0; i < count; ++i) {
            if (i % 2 == rank)
                send();
            else
                receive();
        }
        return now() - start;
    }
};

}  // namespace

int main(int argc, char **argv) {
    if (argc < 3) usage(2);
    const int rank = rank_of_two(argc, argv);
    const std::string_view what = argv[1];
    {
        const Device device(CL_DEVICE_TYPE_CPU);
        Load load{device, rank, std::atoi(argv[2]),
                  argc > 3 && std::string_view(argv[3]) == "--native"};
        if (load.count <= 0) usage(2);
        double seconds = 0;
        if (what == "chain")
            seconds = load.chain();
        else if (what == "receives")
            seconds = load.receives();
        else if (what == "files")
            seconds = load.files();
        else if (what == "exchange")
            seconds = load.exchange();
        else
            usage(2);
        if (rank == 0) fmt::print("{:.3f}\n", seconds * 1e6 / load.count);
    }
    MPI_Finalize();
    return 0;
}
