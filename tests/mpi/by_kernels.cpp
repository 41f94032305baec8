/// Messages that kernels move (CLDIST_PATH=kernel). The library prepares this during the first
/// messages to a peer, so tests/meson.build runs each case about first messages in a new process,
/// also with CLDIST_PATH=staged, because the first messages page-lock memory.

#include <atomic>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t size = 100000;

/// Exchanges messages one after the other. Each command is enqueued in the callback of the one
/// before.
struct chain {
    static constexpr int length = 30;

    const mpi_view &mpi;
    cl_command_queue queue;
    cl_mem buffer;
    int enqueued = 0;
    cl_int error = CL_SUCCESS;
    event_handle last{};
    std::atomic<bool> ended = false;

    void next() {
        if (error == CL_SUCCESS && enqueued++ < length) {
            error = clEnqueueSendrecvBuffer(queue, buffer, CL_FALSE, 0, size, 1 - mpi.rank, 1,
                                            buffer, size, size, 1 - mpi.rank, 1, mpi.comm, 0,
                                            nullptr, last.out());
            if (error == CL_SUCCESS) error = clFlush(queue);
            if (error == CL_SUCCESS)
                error = clSetEventCallback(last, CL_COMPLETE, on_complete, this);
            if (error == CL_SUCCESS) return;
        }
        ended = true;
    }

    static void CL_CALLBACK on_complete(cl_event, cl_int status, void *data) {
        auto *const self = static_cast<chain *>(data);
        if (status != CL_COMPLETE) self->error = status;
        self->next();
    }
};

std::atomic<bool> is_busy = false;
std::atomic<bool> may_end = false;

/// Occupies the device with a function of the host until the object is destroyed. On PoCL, it takes
/// one thread, and tests/meson.build gives PoCL only one.
struct occupation {
    explicit occupation(cl_command_queue queue) {
        is_busy = may_end = false;
        CL_OK(clEnqueueNativeKernel(queue, run, nullptr, 0, 0, nullptr, nullptr, 0, nullptr,
                                    nullptr));
        CL_OK(clFlush(queue));
    }
    occupation(const occupation &) = delete;
    occupation &operator=(const occupation &) = delete;
    ~occupation() { may_end = true; }

    static void CL_CALLBACK run(void *) {
        is_busy = true;
        while (!may_end) std::this_thread::yield();
    }
};

// Regions of one size and their buffers.
const box from{{4, 1, 1}, {4, 100, 50}, 20, 2200}, to{{3, 0, 0}, {1000, 20, 1}, 1001};
constexpr std::size_t sent_size = 52 * 2200, received_size = 22000;

/// The bytes of `from` in the buffer of a rank.
bytes message_of(int rank) {
    const bytes memory = pattern(static_cast<std::uint64_t>(rank), sent_size);
    bytes message;
    for (const std::size_t at : from.places()) message.push_back(memory[at]);
    return message;
}

/// The buffer that contained pattern(7, …), after it has received the message to `to`.
bytes with(const bytes &message) {
    bytes memory = pattern(7, received_size);
    const std::vector<std::size_t> places = to.places();
    for (std::size_t i = 0; i < places.size(); ++i) memory[places[i]] = message[i];
    return memory;
}

void require_path_kernel() {
    const char *const path = std::getenv("CLDIST_PATH");
    if (path == nullptr || std::string_view(path) != "kernel")
        skip_case("needs CLDIST_PATH=kernel");
}

}  // namespace

MPI_CASE("the first messages to a peer may be enqueued in callbacks", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(2 * size, static_cast<std::uint64_t>(mpi.rank));
    if (mpi.rank >= 2) return;
    chain messages{mpi, queue, buffer};
    messages.next();
    poll_until("the last callback", [&] { return messages.ended.load(); });
    CHECK(messages.error == CL_SUCCESS);
    expect_received(messages.last, size, 1 - mpi.rank, 1);
    cl.expect(buffer, size, size, static_cast<std::uint64_t>(1 - mpi.rank));
    const char *const path = std::getenv("CLDIST_PATH");
    if (path != nullptr && std::string(path) == "kernel")
        CHECK(transfer_text(messages.last, CL_TRANSFER_PATH) == "kernel");
}

MPI_CASE("calls return although the device is busy when the first messages are enqueued", 2) {
    const opencl cl;
    cl_device_exec_capabilities can = 0;
    CL_OK(clGetDeviceInfo(cl.device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof can, &can, nullptr));
    if ((can & CL_EXEC_NATIVE_KERNEL) == 0) skip_case("the device runs no functions of the host");
    const queue_handle queue = cl.in_order_queue();
    const queue_handle busy = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(2 * size, static_cast<std::uint64_t>(mpi.rank));
    if (mpi.rank >= 2) return;
    // The calls of later rounds find what the other process has told in the rounds before.
    for (int round = 0; round < 5; ++round) {
        event_handle exchanged;
        {
            const occupation kernel(busy);
            poll_until("the device to be busy", [] { return is_busy.load(); });
            CL_OK(clEnqueueSendrecvBuffer(queue, buffer, CL_FALSE, 0, size, 1 - mpi.rank, 1, buffer,
                                          size, size, 1 - mpi.rank, 1, mpi.comm, 0, nullptr,
                                          exchanged.out()));
        }
        expect_received(exchanged, size, 1 - mpi.rank, 1);
        cl.expect(buffer, size, size, static_cast<std::uint64_t>(1 - mpi.rank));
        finish(busy);
    }
}

MPI_CASE("kernels move messages of regions", 2) {
    require_path_kernel();
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle sent = cl.filled(sent_size, static_cast<std::uint64_t>(mpi.rank));
    const buffer_handle received = cl.filled(received_size, 7);
    if (mpi.rank >= 2) return;
    const int other = 1 - mpi.rank;
    event_handle last;
    // The first messages may take other paths.
    for (int i = 0; i < 20; ++i) {
        last = sendrecv_rect(queue, sent, from, other, received, to, other, 1, mpi.comm);
        expect_received(last, from.size(), other, 1);
    }
    CHECK(transfer_text(last, CL_TRANSFER_PATH) == "kernel");
    CHECK(cl.read(received, 0, received_size) == with(message_of(other)));
}

MPI_CASE("a host receives messages of regions that kernels send", 2) {
    require_path_kernel();
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle sent = cl.filled(sent_size, 0);
    const buffer_handle received = cl.filled(received_size, 7);
    if (mpi.rank >= 2) return;
    const bytes message = message_of(0), expected = with(message);
    for (int i = 0; i < 20; ++i) {
        if (mpi.rank == 0) {
            for (int half = 0; half < 2; ++half) {
                const event_handle event = send_rect(queue, sent, from, 1, 1, mpi.comm);
                expect_complete(event);
                if (i == 19) CHECK(transfer_text(event, CL_TRANSFER_PATH) == "kernel");
            }
            continue;
        }
        expect_received(receive_rect(queue, received, to, 0, 1, mpi.comm, {}, CL_TRUE), from.size(),
                        0, 1);
        CHECK(cl.read(received, 0, received_size) == expected);
        bytes host(from.size());
        MPI_Recv(host.data(), static_cast<int>(host.size()), MPI_CL_MEM, 0, 1, mpi.comm,
                 MPI_STATUS_IGNORE);
        CHECK(host == message);
    }
}

MPI_CASE("messages that kernels move have a device stage in both processes", 2) {
    require_path_kernel();
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    constexpr std::size_t size = 100000;
    const buffer_handle buffer = cl.filled(size, 1);
    if (mpi.rank >= 2) return;
    int by_kernels = 0;
    // The first messages may take other paths.
    for (int i = 0; i < 20; ++i) {
        const event_handle event = mpi.rank == 0 ? send(queue, buffer, 0, size, 1, 1, mpi.comm)
                                                 : receive(queue, buffer, 0, size, 0, 1, mpi.comm);
        expect_complete(event);
        if (transfer_text(event, CL_TRANSFER_PATH) != "kernel") continue;
        ++by_kernels;
        const auto stages = transfer_stages(event);
        CHECK(std::any_of(stages.begin(), stages.end(),
                          [](const auto &s) { return s.stage == CL_STAGE_DEVICE; }));
    }
    CHECK(by_kernels > 0);
}

MPI_CASE("messages avoid kernels if the program's kernels keep the GPU busy", 2) {
    if (std::getenv("CLDIST_PATH") != nullptr) skip_case("needs the automatic path");
    const opencl cl;
    if (cl.is_cpu()) skip_case("needs a GPU");
    const queue_handle queue = cl.in_order_queue();
    const queue_handle busy = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(2 * size, static_cast<std::uint64_t>(mpi.rank));
    const buffer_handle unused = cl.buffer(4);
    const kernel_handle compute = cl.kernel("compute");
    const cl_mem argument = unused;
    CL_OK(clSetKernelArg(compute, 0, sizeof argument, &argument));
    if (mpi.rank >= 2) return;
    const auto path_of_exchange = [&] {
        event_handle exchanged;
        CL_OK(clEnqueueSendrecvBuffer(queue, buffer, CL_FALSE, 0, size, 1 - mpi.rank, 1, buffer,
                                      size, size, 1 - mpi.rank, 1, mpi.comm, 0, nullptr,
                                      exchanged.out()));
        expect_received(exchanged, size, 1 - mpi.rank, 1);
        cl.expect(buffer, size, size, static_cast<std::uint64_t>(1 - mpi.rank));
        return transfer_text(exchanged, CL_TRANSFER_PATH);
    };
    std::string path;
    for (int i = 0; i < 20; ++i) path = path_of_exchange();  // the first ones take other paths
    if (path != "kernel") skip_case("needs a GPU for each process");
    for (int round = 0; round < 40; ++round) {
        const std::size_t many = std::size_t{1} << 21U;  // some milliseconds on an H200
        CL_OK(
            clEnqueueNDRangeKernel(busy, compute, 1, nullptr, &many, nullptr, 0, nullptr, nullptr));
        CL_OK(clFlush(busy));
        path = path_of_exchange();
        finish(busy);
    }
    CHECK(path != "kernel");
}
