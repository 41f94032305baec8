/// The guarantees of a command and its event, in one process that sends to itself.

#include <atomic>
#include <cstring>
#include <memory>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

/// A completed message of this process to itself.
struct self_message {
    self_message(const mpi_view &mpi, std::size_t size, int tag)
        : sending(cl.in_order_queue()),
          receiving(cl.in_order_queue()),
          source(cl.filled(size, 3)),
          target(cl.buffer(std::max<std::size_t>(size, 1))) {
        received = receive(receiving, target, 0, size, mpi.rank, tag, mpi.comm);
        sent = send(sending, source, 0, size, mpi.rank, tag, mpi.comm);
        expect_complete(sent);
        expect_received(received, size, mpi.rank, tag);
        cl.expect(target, 0, size, 3);
    }

    opencl cl;
    queue_handle sending;
    queue_handle receiving;
    buffer_handle source;
    buffer_handle target;
    event_handle sent;
    event_handle received;
};

}  // namespace

MPI_CASE("MPI_Init gives MPI_THREAD_MULTIPLE", 1) {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    CHECK(level == MPI_THREAD_MULTIPLE);
}

MPI_CASE("clDistInit after MPI_Init does nothing, even if called twice", 1) {
    CHECK(clDistInit(MPI_COMM_WORLD) == CL_SUCCESS);
    CHECK(clDistInit(MPI_COMM_WORLD) == CL_SUCCESS);
    const self_message message(mpi, 100, 1);
}

MPI_CASE("clDistInit is collective although a process has used the communicator before", 2) {
    const MPI_Comm comm = mpi.comm;
    MPI_Comm other = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &other);
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.buffer(8);
    if (mpi.rank == 0)
        CHECK(clEnqueueSendBuffer(queue, buffer, CL_TRUE, 0, 8, 1, 0, other, 0, nullptr, nullptr) ==
              CL_SUCCESS);
    for (int i = 0; i < 2; ++i) CHECK(clDistInit(other) == CL_SUCCESS);
    int sum = 1;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, other);
    CHECK(sum == 2);
    if (mpi.rank == 1)
        CHECK(clEnqueueRecvBuffer(queue, buffer, CL_TRUE, 0, 8, 0, 0, other, 0, nullptr, nullptr) ==
              CL_SUCCESS);
    MPI_Comm_free(&other);
}

MPI_CASE("clDistInit refuses MPI_COMM_NULL and a freed communicator", 1) {
    CHECK(clDistInit(MPI_COMM_NULL) == CL_INVALID_COMMUNICATOR);
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(mpi.comm, &comm);
    MPI_Comm copy = comm;
    MPI_Comm_free(&comm);
    CHECK(clDistInit(copy) == CL_INVALID_COMMUNICATOR);
}

MPI_CASE("a process sends to itself from one queue to another", 1) {
    for (const std::size_t size : {0UL, 1UL, 4096UL, 100000UL, 5UL << 20}) {
        CAPTURE(size);
        const self_message message(mpi, size, 1);
    }
}

MPI_CASE("a send-receive of a process with itself on one queue completes", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (const std::size_t size : {0UL, 1UL, 70000UL, 3UL << 20}) {
        CAPTURE(size);
        const buffer_handle source = cl.filled(size, 9);
        const buffer_handle target = cl.buffer(std::max<std::size_t>(size, 1));
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            event_handle event;
            CL_OK(clEnqueueSendrecvBuffer(queue, source, blocking, 0, size, mpi.rank, 4, target, 0,
                                          size, mpi.rank, 4, mpi.comm, 0, nullptr, event.out()));
            if (blocking == CL_TRUE) {
                CHECK(status_of(event) == CL_COMPLETE);
            }
            expect_received(event, size, mpi.rank, 4);
            CHECK(transfer_info<int>(event, CL_TRANSFER_DESTINATION) == mpi.rank);
            cl.expect(target, 0, size, 9);
        }
    }
}

MPI_CASE("a command works without an event and without a wait list", 1) {
    const opencl cl;
    const queue_handle sending = cl.in_order_queue();
    const queue_handle receiving = cl.in_order_queue();
    const buffer_handle source = cl.filled(1000, 1);
    const buffer_handle target = cl.buffer(1000);
    CL_OK(clEnqueueSendBuffer(sending, source, CL_FALSE, 0, 1000, mpi.rank, 1, mpi.comm, 0, nullptr,
                              nullptr));
    CL_OK(clEnqueueRecvBuffer(receiving, target, CL_FALSE, 0, 1000, mpi.rank, 1, mpi.comm, 0,
                              nullptr, nullptr));
    finish(sending);
    finish(receiving);
    cl.expect(target, 0, 1000, 1);
}

MPI_CASE("commands with MPI_PROC_NULL complete and change nothing", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle buffer = cl.filled(5000, 1);
    const buffer_handle other = cl.filled(5000, 2);
    const event_handle sent = send(queue, buffer, 0, 5000, MPI_PROC_NULL, 1, mpi.comm);
    expect_complete(sent);
    CHECK(transfer_info<int>(sent, CL_TRANSFER_DESTINATION) == MPI_PROC_NULL);
    const event_handle received = receive(queue, buffer, 0, 5000, MPI_PROC_NULL, 1, mpi.comm);
    expect_complete(received);
    CHECK(transfer_info<int>(received, CL_TRANSFER_SOURCE) == MPI_PROC_NULL);
    CHECK(transfer_info<std::size_t>(received, CL_TRANSFER_BYTES) == 0);
    for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
        event_handle both;
        CL_OK(clEnqueueSendrecvBuffer(queue, buffer, blocking, 0, 5000, MPI_PROC_NULL, 1, other, 0,
                                      5000, MPI_PROC_NULL, 1, mpi.comm, 0, nullptr, both.out()));
        expect_complete(both);
    }
    CL_OK(clEnqueueSendBuffer(queue, buffer, CL_TRUE, 0, 5000, MPI_PROC_NULL, 1, mpi.comm, 0,
                              nullptr, nullptr));
    CL_OK(clEnqueueRecvBuffer(queue, buffer, CL_TRUE, 0, 5000, MPI_PROC_NULL, 1, mpi.comm, 0,
                              nullptr, nullptr));
    cl.expect(buffer, 0, 5000, 1);
    cl.expect(other, 0, 5000, 2);
}

MPI_CASE("an empty range at the end of a buffer is sent as an empty message", 1) {
    const opencl cl;
    const queue_handle sending = cl.in_order_queue();
    const queue_handle receiving = cl.in_order_queue();
    const buffer_handle source = cl.filled(100, 1);
    const buffer_handle target = cl.filled(100, 2);
    const event_handle received = receive(receiving, target, 100, 0, mpi.rank, 1, mpi.comm);
    const event_handle sent = send(sending, source, 100, 0, mpi.rank, 1, mpi.comm);
    expect_complete(sent);
    expect_received(received, 0, mpi.rank, 1);
    cl.expect(target, 0, 100, 2);
}

MPI_CASE("sub-buffers send and receive within their own range", 1) {
    const opencl cl;
    const std::size_t unit = std::max<std::size_t>(sub_buffer_alignment(cl.device), 64);
    const queue_handle sending = cl.in_order_queue();
    const queue_handle receiving = cl.in_order_queue();
    const buffer_handle source = cl.filled(8 * unit, 1);
    const buffer_handle target = cl.filled(8 * unit, 2);
    const buffer_handle from = cl.sub_buffer(source, 2 * unit, 3 * unit);
    const buffer_handle to = cl.sub_buffer(target, 4 * unit, 3 * unit);
    const event_handle received = receive(receiving, to, 5, 2 * unit, mpi.rank, 1, mpi.comm);
    const event_handle sent = send(sending, from, 3, 2 * unit, mpi.rank, 1, mpi.comm);
    expect_complete(sent);
    expect_received(received, 2 * unit, mpi.rank, 1);
    cl.expect(target, 0, 4 * unit + 5, 2);
    cl.expect(target, 4 * unit + 5, 2 * unit, 1, 2 * unit + 3);
    cl.expect(target, 6 * unit + 5, 2 * unit - 5, 2, 6 * unit + 5);
}

MPI_CASE("buffers with sufficient host access are sent and received", 1) {
    const opencl cl;
    const queue_handle sending = cl.in_order_queue();
    const queue_handle receiving = cl.in_order_queue();
    bytes data = pattern(4, 1000);
    cl_int error = CL_SUCCESS;
    const buffer_handle source(
        clCreateBuffer(cl.context, CL_MEM_READ_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                       data.size(), data.data(), &error));
    CL_OK(error);
    const buffer_handle target = cl.buffer(1000, CL_MEM_READ_WRITE | CL_MEM_HOST_WRITE_ONLY);
    const buffer_handle readable = cl.buffer(1000);
    const event_handle received = receive(receiving, target, 0, 1000, mpi.rank, 1, mpi.comm);
    const event_handle sent = send(sending, source, 0, 1000, mpi.rank, 1, mpi.comm);
    expect_complete(sent);
    expect_complete(received);
    event_handle copied;
    CL_OK(clEnqueueCopyBuffer(receiving, target, readable, 0, 0, 1000, 0, nullptr, copied.out()));
    CL_OK(clFlush(receiving));
    wait_for(copied);
    cl.expect(readable, 0, 1000, 4);
}

MPI_CASE("the event of a command reports its queue and its context", 1) {
    const self_message message(mpi, 100, 1);
    for (const auto &[event, queue] :
         {std::pair<cl_event, cl_command_queue>{message.sent, message.sending},
          std::pair<cl_event, cl_command_queue>{message.received, message.receiving}}) {
        cl_command_queue found = nullptr;
        CL_OK(clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(found), &found, nullptr));
        CHECK(found == queue);
        cl_context context = nullptr;
        CL_OK(clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof(context), &context, nullptr));
        CHECK(context == message.cl.context.get());
    }
}

MPI_CASE("the profiling times of a command's event are in order", 1) {
    const self_message message(mpi, 100000, 1);
    for (cl_event event : {message.sent.get(), message.received.get()}) {
        cl_ulong last = 0;
        for (const cl_profiling_info name :
             {CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT, CL_PROFILING_COMMAND_START,
              CL_PROFILING_COMMAND_END}) {
            CAPTURE(name);
            cl_ulong time = 0;
            const cl_int result =
                clGetEventProfilingInfo(event, name, sizeof(time), &time, nullptr);
            if (result == CL_PROFILING_INFO_NOT_AVAILABLE) {
                skip_case("the platform has no profiling of barriers");
            }
            CHECK(result == CL_SUCCESS);
            CHECK(time >= last);
            last = time;
        }
        if (last == 0) {
            skip_case("the platform's profiling times of barriers are all zero");
        }
    }
}

MPI_CASE("a callback of a command's event is called once it is complete", 1) {
    const opencl cl;
    const queue_handle sending = cl.in_order_queue();
    const queue_handle receiving = cl.in_order_queue();
    const buffer_handle source = cl.filled(1000, 1);
    const buffer_handle target = cl.buffer(1000);
    struct called {
        std::atomic<int> times{0};
        std::atomic<cl_int> status{1};
    };
    const auto state = std::make_unique<called>();
    const event_handle received = receive(receiving, target, 0, 1000, mpi.rank, 1, mpi.comm);
    CL_OK(clSetEventCallback(
        received, CL_COMPLETE,
        [](cl_event, cl_int status, void *data) {
            static_cast<called *>(data)->status = status;
            ++static_cast<called *>(data)->times;
        },
        state.get()));
    CHECK(state->times == 0);
    const event_handle sent = send(sending, source, 0, 1000, mpi.rank, 1, mpi.comm);
    expect_complete(received);
    poll_until("the callback", [&] { return state->times != 0; });
    CHECK(state->times == 1);
    CHECK(state->status == CL_COMPLETE);
    expect_complete(sent);
}

MPI_CASE("a callback of a command's event may enqueue commands and query their status", 1) {
    const opencl cl;
    struct chain {
        const opencl &cl;
        const mpi_view &mpi;
        queue_handle sending, receiving;
        buffer_handle source, target;
        event_handle sent, received;
        MPI_Request request = MPI_REQUEST_NULL;
        std::vector<cl_int> codes;
        std::atomic<bool> called{false};
    };
    for (const std::size_t size : {1000UL, 3UL << 20}) {
        CAPTURE(size);
        chain next{cl,
                   mpi,
                   cl.in_order_queue(),
                   cl.in_order_queue(),
                   cl.filled(size, 1),
                   cl.buffer(size),
                   {},
                   {},
                   MPI_REQUEST_NULL,
                   {}};
        const queue_handle queue = cl.in_order_queue();
        const buffer_handle first = cl.buffer(size);
        const event_handle received = receive(queue, first, 0, size, mpi.rank, 1, mpi.comm);
        CL_OK(clSetEventCallback(
            received, CL_COMPLETE,
            [](cl_event event, cl_int, void *data) {
                chain &c = *static_cast<chain *>(data);
                std::size_t bytes = 0;
                c.codes.push_back(
                    clGetTransferInfo(event, CL_TRANSFER_BYTES, sizeof bytes, &bytes, nullptr));
                c.codes.push_back(clEnqueueRecvBuffer(c.receiving, c.target, CL_FALSE, 0, bytes,
                                                      c.mpi.rank, 2, c.mpi.comm, 0, nullptr,
                                                      c.received.out()));
                c.codes.push_back(clEnqueueSendBuffer(c.sending, c.source, CL_FALSE, 0, bytes,
                                                      c.mpi.rank, 2, c.mpi.comm, 0, nullptr,
                                                      c.sent.out()));
                c.codes.push_back(clCreateMPIRequestFromEvent(c.received, &c.request));
                c.called = true;
            },
            &next));
        const event_handle sent =
            send(cl.in_order_queue(), next.source, 0, size, mpi.rank, 1, mpi.comm);
        expect_complete(sent);
        expect_complete(received);
        poll_until("the callback", [&] { return next.called.load(); });
        CHECK(next.codes == std::vector<cl_int>(4, CL_SUCCESS));
        expect_complete(next.sent);
        expect_complete(next.received);
        MPI_OK(MPI_Wait(&next.request, MPI_STATUS_IGNORE));
        cl.expect(next.target, 0, size, 1);
    }
}

MPI_CASE("kernels and other queues can wait for the events of commands", 1) {
    const opencl cl;
    const queue_handle sending = cl.in_order_queue();
    const queue_handle receiving = cl.in_order_queue();
    const queue_handle third = cl.in_order_queue();
    const buffer_handle source = cl.filled(1000, 1);
    const buffer_handle target = cl.buffer(1000);
    const kernel_handle kernel = cl.kernel("add_one");
    const event_handle received = receive(receiving, target, 0, 1000, mpi.rank, 1, mpi.comm);
    cl_mem argument = target;
    CL_OK(clSetKernelArg(kernel, 0, sizeof(argument), &argument));
    const std::size_t size = 1000;
    const cl_event list[] = {received};
    event_handle ran;
    CL_OK(clEnqueueNDRangeKernel(third, kernel, 1, nullptr, &size, nullptr, 1, list, ran.out()));
    CL_OK(clFlush(third));
    const event_handle sent = send(sending, source, 0, 1000, mpi.rank, 1, mpi.comm);
    expect_ended(ran, CL_COMPLETE);
    bytes wanted = pattern(1, 1000);
    for (unsigned char &byte : wanted) {
        ++byte;
    }
    CHECK((cl.read(target, 0, 1000) == wanted));
    expect_complete(sent);
}

MPI_CASE("clGetTransferInfo returns every value of a finished transfer", 1) {
    const std::size_t size = 300000;
    const self_message message(mpi, size, 12);
    for (cl_event event : {message.sent.get(), message.received.get()}) {
        CHECK(transfer_info<cl_int>(event, CL_TRANSFER_STATUS) == CL_COMPLETE);
        CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == size);
        CHECK(transfer_info<int>(event, CL_TRANSFER_TAG) == 12);
        CHECK(transfer_info<int>(event, CL_TRANSFER_MPI_ERROR) == MPI_SUCCESS);
        CHECK(transfer_text(event, CL_TRANSFER_ERROR_MESSAGE) == "");
        const std::string path = transfer_text(event, CL_TRANSFER_PATH);
        CAPTURE(path);
        CHECK((path == "mapped" || path == "staged" || path == "chunked"));
        if (const char *forced = std::getenv("CLDIST_PATH");
            forced != nullptr && std::strcmp(forced, "auto") != 0) {
            CHECK(path == forced);
        }
        CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BLOCK_SIZE) > 0);
        CHECK(transfer_info<cl_uint>(event, CL_TRANSFER_DEPTH) > 0);
    }
    CHECK(transfer_info<int>(message.sent, CL_TRANSFER_SOURCE) == MPI_PROC_NULL);
    CHECK(transfer_info<int>(message.sent, CL_TRANSFER_DESTINATION) == mpi.rank);
    CHECK(transfer_info<int>(message.received, CL_TRANSFER_SOURCE) == mpi.rank);
    CHECK(transfer_info<int>(message.received, CL_TRANSFER_DESTINATION) == MPI_PROC_NULL);
}

MPI_CASE("clGetTransferInfo returns the stages in order, each with its start before its end", 1) {
    const self_message message(mpi, 3UL << 20, 1);
    for (cl_event event : {message.sent.get(), message.received.get()}) {
        const std::vector<cl_transfer_stage> stages = transfer_stages(event);
        CHECK(!stages.empty());
        bool device = false;
        bool messages = false;
        bool match = false;
        for (std::size_t i = 0; i < stages.size(); ++i) {
            CAPTURE(stages[i].stage);
            CHECK(stages[i].stage <= CL_STAGE_MESSAGE);
            CHECK(stages[i].start > 0);
            CHECK(stages[i].start <= stages[i].end);
            CHECK(stages[i].blocks > 0);
            if (i > 0) {
                CHECK(stages[i - 1].stage < stages[i].stage);
            }
            device = device || stages[i].stage == CL_STAGE_DEVICE;
            messages = messages || stages[i].stage == CL_STAGE_MESSAGE;
            match = match || stages[i].stage == CL_STAGE_MATCH;
        }
        // On other paths the program's queue copies before or after the transfer.
        const std::string path = transfer_text(event, CL_TRANSFER_PATH);
        CAPTURE(path);
        CHECK(device == (path == "chunked"));
        CHECK(messages);
        CHECK(match == (event == message.received.get()));
    }
}

MPI_CASE("clGetTransferInfo works while a transfer waits", 1) {
    const opencl cl;
    const queue_handle sending = cl.in_order_queue();
    const queue_handle receiving = cl.in_order_queue();
    const buffer_handle source = cl.filled(100, 1);
    const buffer_handle target = cl.buffer(100);
    const event_handle received = receive(receiving, target, 0, 100, mpi.rank, 8, mpi.comm);
    CHECK(transfer_status(received) > CL_COMPLETE);
    CHECK(transfer_info<std::size_t>(received, CL_TRANSFER_BYTES) == 0);
    CHECK(status_of(received) > CL_COMPLETE);
    const event_handle sent = send(sending, source, 0, 100, mpi.rank, 8, mpi.comm);
    expect_complete(sent);
    expect_received(received, 100, mpi.rank, 8);
}

MPI_CASE("clGetTransferInfo returns the size of a value, and refuses a smaller one", 1) {
    const self_message message(mpi, 100, 1);
    const std::pair<cl_transfer_info, std::size_t> table[] = {
        {CL_TRANSFER_STATUS, sizeof(cl_int)}, {CL_TRANSFER_BYTES, sizeof(std::size_t)},
        {CL_TRANSFER_SOURCE, sizeof(int)},    {CL_TRANSFER_DESTINATION, sizeof(int)},
        {CL_TRANSFER_TAG, sizeof(int)},       {CL_TRANSFER_BLOCK_SIZE, sizeof(std::size_t)},
        {CL_TRANSFER_DEPTH, sizeof(cl_uint)}, {CL_TRANSFER_MPI_ERROR, sizeof(int)},
        {CL_TRANSFER_ERROR_MESSAGE, 1},
    };
    for (const auto &row : table) {
        const cl_transfer_info name = row.first;
        const std::size_t wanted = row.second;
        CAPTURE(name);
        std::size_t size = 0;
        CHECK(clGetTransferInfo(message.sent, name, 0, nullptr, &size) == CL_SUCCESS);
        CHECK(size == wanted);
        unsigned char value[64] = {};
        CHECK(clGetTransferInfo(message.sent, name, wanted - 1, value, nullptr) ==
              CL_INVALID_VALUE);
        CHECK(clGetTransferInfo(message.sent, name, sizeof(value), value, &size) == CL_SUCCESS);
        CHECK(size == wanted);
        CHECK(clGetTransferInfo(message.sent, name, 0, nullptr, nullptr) == CL_SUCCESS);
    }
    for (const cl_transfer_info name : {CL_TRANSFER_PATH, CL_TRANSFER_STAGES}) {
        CAPTURE(name);
        std::size_t size = 0;
        CHECK(clGetTransferInfo(message.sent, name, 0, nullptr, &size) == CL_SUCCESS);
        CHECK(size > 1);
        bytes value(size);
        CHECK(clGetTransferInfo(message.sent, name, size - 1, value.data(), nullptr) ==
              CL_INVALID_VALUE);
    }
    CHECK(clGetTransferInfo(message.sent, 0x1, 0, nullptr, nullptr) == CL_INVALID_VALUE);
    CHECK(clGetTransferInfo(message.sent, CL_TRANSFER_DIRECT_IO + 1, 0, nullptr, nullptr) ==
          CL_INVALID_VALUE);
}

MPI_CASE("clGetTransferInfo refuses events of other commands", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const event_handle user = cl.user_event();
    event_handle marker;
    CL_OK(clEnqueueMarkerWithWaitList(queue, 0, nullptr, marker.out()));
    CL_OK(clFinish(queue));
    cl_int status = 0;
    CHECK(clGetTransferInfo(user, CL_TRANSFER_STATUS, sizeof(status), &status, nullptr) ==
          CL_INVALID_EVENT);
    CHECK(clGetTransferInfo(marker, CL_TRANSFER_STATUS, sizeof(status), &status, nullptr) ==
          CL_INVALID_EVENT);
    CHECK(clGetTransferInfo(nullptr, CL_TRANSFER_STATUS, sizeof(status), &status, nullptr) ==
          CL_INVALID_EVENT);
    CL_OK(clSetUserEventStatus(user, CL_COMPLETE));
}

MPI_CASE(
    "a new event at the address of a released transfer's event is not mistaken for the transfer",
    1) {
    // Platforms reuse the memory of released events, so a new event often has the same address.
    for (int i = 0; i < 50; ++i) {
        { const self_message message(mpi, 1, 1); }
        const opencl cl;
        const queue_handle queue = cl.in_order_queue();
        std::vector<event_handle> markers(5);
        for (event_handle &marker : markers) {
            CL_OK(clEnqueueMarkerWithWaitList(queue, 0, nullptr, marker.out()));
            CHECK(clGetTransferInfo(marker, CL_TRANSFER_STATUS, 0, nullptr, nullptr) ==
                  CL_INVALID_EVENT);
        }
        CL_OK(clFinish(queue));
    }
}

MPI_CASE("clTraceEvent accepts any event and refuses wrong arguments", 1) {
    const self_message message(mpi, 100, 1);
    CHECK(clTraceEvent(message.sent, "a send") == CL_SUCCESS);
    event_handle marker;
    CL_OK(clEnqueueMarkerWithWaitList(message.sending, 0, nullptr, marker.out()));
    CHECK(clTraceEvent(marker, "a marker") == CL_SUCCESS);
    CHECK(clTraceEvent(nullptr, "nothing") == CL_INVALID_EVENT);
    CHECK(clTraceEvent(marker, nullptr) == CL_INVALID_VALUE);
    CHECK(clTraceEvent(nullptr, nullptr) == CL_INVALID_EVENT);
    CL_OK(clFinish(message.sending));
    const queue_handle unprofiled = message.cl.in_order_queue(0);
    event_handle plain;
    CL_OK(clEnqueueMarkerWithWaitList(unprofiled, 0, nullptr, plain.out()));
    const bool traced = std::getenv("CLDIST_TRACE") != nullptr;
    CHECK(clTraceEvent(plain, "no profile") ==
          (traced ? CL_PROFILING_INFO_NOT_AVAILABLE : CL_SUCCESS));
    CL_OK(clFinish(unprofiled));
}

MPI_CASE("queue, buffer and events may be released while a command is in flight", 1) {
    const opencl cl;
    const queue_handle sending = cl.in_order_queue();
    const buffer_handle source = cl.filled(100000, 1);
    const buffer_handle target = cl.buffer(100000);
    const event_handle gate = cl.user_event();
    event_handle received;
    {
        const queue_handle receiving = cl.in_order_queue();
        const buffer_handle part = cl.sub_buffer(target, 0, 100000);
        received = receive(receiving, part, 0, 100000, mpi.rank, 1, mpi.comm, {gate});
    }
    CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
    const event_handle sent = send(sending, source, 0, 100000, mpi.rank, 1, mpi.comm);
    expect_complete(received);
    expect_complete(sent);
    cl.expect(target, 0, 100000, 1);
}
