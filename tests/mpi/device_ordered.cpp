/// Device-ordered messages (CLDIST_PATH=device) between two processes. Every message has different
/// bytes, which every kind of receive must find. Kernels must have moved most messages of a chain.
#include <algorithm>
#include <cstring>
#include <functional>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <CL/cl_ext_dist.h>

#include "support/bare_device.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t largest = std::size_t{5} << 20;
constexpr std::size_t sizes[] = {1, 8, 4097, 65536, 1000001, largest};
int rank_here, other;
cl_context context;
cl_command_queue queue, second_queue;
cl_mem out, in;

cl_device_id device_of_queue() {
    cl_device_id device = nullptr;
    clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, nullptr);
    return device;
}

struct asked_send {
    cl_event gate = nullptr, event = nullptr;
    std::binary_semaphore answered{0};
};

std::vector<unsigned char> bytes_of(int sender, int number, std::size_t size) {
    std::vector<unsigned char> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<unsigned char>(i * 7 + i / 251 +
                                              static_cast<std::size_t>(number * 31 + sender * 101));
    }
    return bytes;
}

void fill(int number, std::size_t size, std::size_t offset = 0) {
    const std::vector<unsigned char> bytes = bytes_of(rank_here, number, size);
    expect(
        "clEnqueueWriteBuffer",
        clEnqueueWriteBuffer(queue, out, CL_TRUE, offset, size, bytes.data(), 0, nullptr, nullptr),
        CL_SUCCESS);
}

void compare(const char *what, int number, std::size_t size, std::size_t offset = 0) {
    std::vector<unsigned char> found(size);
    expect("clEnqueueReadBuffer",
           clEnqueueReadBuffer(queue, in, CL_TRUE, offset, size, found.data(), 0, nullptr, nullptr),
           CL_SUCCESS);
    expect(what, found == bytes_of(other, number, size), 1);
}

cl_event send(cl_command_queue on, std::size_t offset, std::size_t size, int tag,
              cl_bool blocking = CL_FALSE) {
    cl_event event = nullptr;
    expect("clEnqueueSendBuffer",
           clEnqueueSendBuffer(on, out, blocking, offset, size, other, tag, MPI_COMM_WORLD, 0,
                               nullptr, &event),
           CL_SUCCESS);
    return event;
}

cl_event receive(cl_command_queue on, std::size_t offset, std::size_t size, int source, int tag,
                 cl_bool blocking = CL_FALSE) {
    cl_event event = nullptr;
    expect("clEnqueueRecvBuffer",
           clEnqueueRecvBuffer(on, in, blocking, offset, size, source, tag, MPI_COMM_WORLD, 0,
                               nullptr, &event),
           CL_SUCCESS);
    return event;
}

cl_event exchange(std::size_t offset, std::size_t size, int tag) {
    cl_event event = nullptr;
    expect("clEnqueueSendrecvBuffer",
           clEnqueueSendrecvBuffer(queue, out, CL_FALSE, offset, size, other, tag, in, offset, size,
                                   other, tag, MPI_COMM_WORLD, 0, nullptr, &event),
           CL_SUCCESS);
    return event;
}

/// Returns true if kernels have moved the bytes.
bool ended_on_device(cl_event event, std::size_t size) {
    expect("clWaitForEvents", clWaitForEvents(1, &event), CL_SUCCESS);
    expect("the status", status_told(event), CL_COMPLETE);
    std::size_t moved = 0;
    char path[16] = "";
    clGetTransferInfo(event, CL_TRANSFER_BYTES, sizeof moved, &moved, nullptr);
    clGetTransferInfo(event, CL_TRANSFER_PATH, sizeof path, path, nullptr);
    expect("the number of bytes", static_cast<long>(moved), static_cast<long>(size));
    clReleaseEvent(event);
    return std::string(path) == "device";
}

void chains_use_the_device() {
    int on_device = 0;
    for (int i = 0; i < 40; ++i) {
        const std::size_t size = sizes[i % 6];
        const std::size_t offset = i % 2 == 0 ? 0 : 16;
        fill(i, size, offset);
        on_device += ended_on_device(exchange(offset, size, i), size) ? 1 : 0;
        compare("an exchange's bytes are right", i, size, offset);
    }
    expect("most messages of the exchanges moved on path device", on_device >= 30, 1);
}

/// One peer of a Sendrecv is MPI_PROC_NULL, as at the ends of a chain of processes.
void exchanges_may_have_one_peer() {
    int on_device = 0;
    for (int i = 0; i < 20; ++i) {
        const std::size_t size = sizes[i % 6];
        const bool sends = rank_here == i % 2;
        fill(i, size);
        cl_event event = nullptr;
        expect("clEnqueueSendrecvBuffer",
               clEnqueueSendrecvBuffer(queue, out, CL_FALSE, 0, size, sends ? other : MPI_PROC_NULL,
                                       i, in, 0, size, sends ? MPI_PROC_NULL : other, i,
                                       MPI_COMM_WORLD, 0, nullptr, &event),
               CL_SUCCESS);
        clWaitForEvents(1, &event);
        int source = MPI_UNDEFINED;
        clGetTransferInfo(event, CL_TRANSFER_SOURCE, sizeof source, &source, nullptr);
        expect("the source of an exchange", source, sends ? MPI_PROC_NULL : other);
        on_device += ended_on_device(event, sends ? 0 : size) ? 1 : 0;
        if (!sends) compare("the bytes of an exchange with one peer are right", i, size);
    }
    expect("most exchanges with one peer used path device", on_device >= 7, 1);
}

/// The bytes are in regions of different shapes, and no byte around them changes.
void regions_use_the_device() {
    constexpr std::size_t widths[] = {1, 4, 16, 6};
    constexpr std::size_t rows = 100, slices = 30;
    int on_device = 0;
    for (int i = 0; i < 24; ++i) {
        const std::size_t width = widths[i % 4];
        const std::size_t size = width * rows * slices;
        const std::size_t origin[] = {width, 1, 2};
        const std::size_t from[] = {width, rows, slices}, to[] = {width * rows, slices, 1};
        const std::size_t from_row = 5 * width, from_slice = (rows + 1) * from_row;
        const std::size_t to_row = 3 * width * rows, to_slice = slices * to_row;
        fill(i, largest);
        const std::vector<unsigned char> sent = bytes_of(other, i, largest);
        std::vector<unsigned char> expected(largest, 9), found(largest);
        expect("clEnqueueWriteBuffer",
               clEnqueueWriteBuffer(queue, in, CL_TRUE, 0, largest, expected.data(), 0, nullptr,
                                    nullptr),
               CL_SUCCESS);
        for (std::size_t at = 0; at < size; ++at) {
            const std::size_t row = at / width, to_line = at / to[0];
            expected[width + (1 + to_line) * to_row + 2 * to_slice + at % to[0]] =
                sent[width + (1 + row % rows) * from_row + (2 + row / rows) * from_slice +
                     at % width];
        }
        cl_event event = nullptr;
        expect("clEnqueueSendrecvBufferRect",
               clEnqueueSendrecvBufferRect(queue, out, CL_FALSE, origin, from, from_row, from_slice,
                                           other, i, in, origin, to, to_row, to_slice, other, i,
                                           MPI_COMM_WORLD, 0, nullptr, &event),
               CL_SUCCESS);
        on_device += ended_on_device(event, size) ? 1 : 0;
        expect(
            "clEnqueueReadBuffer",
            clEnqueueReadBuffer(queue, in, CL_TRUE, 0, largest, found.data(), 0, nullptr, nullptr),
            CL_SUCCESS);
        expect("the bytes of regions are right", found == expected, 1);
    }
    expect("most messages of regions moved on path device", on_device >= 18, 1);
}

void either_end_may_come_first() {
    for (int i = 0; i < 24; ++i) {
        const std::size_t size = sizes[i % 6];
        const bool late = i % 4 < 2;
        fill(i, size);
        if (rank_here == i % 2) {
            if (late) MPI_Barrier(MPI_COMM_WORLD);
            ended_on_device(send(queue, 0, size, 1), size);
            if (!late) MPI_Barrier(MPI_COMM_WORLD);
        } else {
            cl_event event = nullptr;
            if (late) event = receive(queue, 0, largest, MPI_ANY_SOURCE, MPI_ANY_TAG);
            MPI_Barrier(MPI_COMM_WORLD);
            if (!late) event = receive(queue, 0, largest, MPI_ANY_SOURCE, MPI_ANY_TAG);
            ended_on_device(event, size);
            compare("the bytes of a send that came first or last are right", i, size);
        }
    }
}

/// Receives that no kernel carries out: blocking ones, MPI calls, and those behind a user event.
void hosts_receive_what_kernels_send() {
    for (int i = 0; i < 24; ++i) {
        const std::size_t size = sizes[i % 6];
        fill(i, size);
        if (rank_here == i % 2) {
            ended_on_device(send(queue, 0, size, 2), size);
            MPI_Barrier(MPI_COMM_WORLD);
            continue;
        }
        std::vector<unsigned char> host(size);
        if (i % 4 < 2) {
            ended_on_device(receive(queue, 0, size, other, 2, CL_TRUE), size);
            compare("the bytes of a blocking receive are right", i, size);
        } else if (i % 8 < 4) {
            MPI_Recv(host.data(), static_cast<int>(size), MPI_CL_MEM, other, 2, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            expect("the bytes of MPI_Recv are right", host == bytes_of(other, i, size), 1);
        } else {
            cl_int error = CL_SUCCESS;
            cl_event user = clCreateUserEvent(context, &error);
            cl_event event = nullptr;
            clEnqueueRecvBuffer(queue, in, CL_FALSE, 0, size, other, 2, MPI_COMM_WORLD, 1, &user,
                                &event);
            clSetUserEventStatus(user, CL_COMPLETE);
            ended_on_device(event, size);
            clReleaseEvent(user);
            compare("the bytes of a receive with a wait list are right", i, size);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/// The sends of the host (blocking) and of kernels alternate, with equal or different tags, and so
/// do the kinds of receives.
void messages_keep_their_order() {
    for (int round = 0; round < 10; ++round) {
        constexpr int count = 12;
        if (rank_here == 0) {
            std::vector<cl_event> events;
            for (int i = 0; i < count; ++i) {
                fill(i, 1000, static_cast<std::size_t>(i) * 1024);
            }
            for (int i = 0; i < count; ++i) {
                events.push_back(send(queue, static_cast<std::size_t>(i) * 1024, 1000,
                                      round % 2 == 0 ? 3 : 3 + i,
                                      (i + round) % 5 == 4 ? CL_TRUE : CL_FALSE));
            }
            for (cl_event event : events) {
                ended_on_device(event, 1000);
            }
        } else {
            std::vector<cl_event> events;
            for (int i = 0; i < count; ++i) {
                events.push_back(receive(i % 3 == 2 ? second_queue : queue,
                                         static_cast<std::size_t>(i) * 1024, 1000, MPI_ANY_SOURCE,
                                         MPI_ANY_TAG, i + 1 == count ? CL_TRUE : CL_FALSE));
                // Receives in different queues match in the order in which they start.
                clWaitForEvents(1, &events.back());
            }
            for (int i = 0; i < count; ++i) {
                ended_on_device(events[static_cast<std::size_t>(i)], 1000);
                compare("messages arrive in order", i, 1000, static_cast<std::size_t>(i) * 1024);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/// A send whose wait list contains a receive can't match before it starts, so a later send in
/// another queue overtakes it.
void messages_that_wait_for_messages_are_overtaken() {
    cl_int error = CL_SUCCESS;
    const cl_command_queue third = clCreateCommandQueue(context, device_of_queue(), 0, &error);
    for (int i = 0; i < 6; ++i) {
        fill(1, 1000);
        if (rank_here == 0) {
            cl_event before = receive(queue, 4096, 1000, other, 9);
            cl_event waiting = nullptr;
            clEnqueueSendBuffer(second_queue, out, CL_FALSE, 0, 1000, other, 1, MPI_COMM_WORLD, 1,
                                &before, &waiting);
            cl_event later = send(third, 0, 1000, 2);
            for (cl_event event : {later, before, waiting}) {
                ended_on_device(event, 1000);
            }
        } else {
            cl_event first = receive(queue, 0, 1000, MPI_ANY_SOURCE, MPI_ANY_TAG);
            clWaitForEvents(1, &first);
            int tag = 0;
            clGetTransferInfo(first, CL_TRANSFER_TAG, sizeof tag, &tag, nullptr);
            expect("the tag of the first message", tag, 2);
            ended_on_device(first, 1000);
            ended_on_device(send(queue, 0, 1000, 9), 1000);
            ended_on_device(receive(queue, 0, 1000, other, 1), 1000);
            compare("the bytes of the send that waited are right", 1, 1000);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    clReleaseCommandQueue(third);
}

/// Lets a send start, waits for its kernel, and asks about it.
void CL_CALLBACK ask(cl_event, cl_int, void *data) {
    auto *const asked = static_cast<asked_send *>(data);
    clSetUserEventStatus(asked->gate, CL_COMPLETE);
    cl_int status = CL_QUEUED;
    while (status > CL_COMPLETE) {
        clGetEventInfo(asked->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                       nullptr);
        std::this_thread::yield();
    }
    status_told(asked->event);
    asked->answered.release();
}

/// The event of an MPI request calls its callback on the progress thread, which has not noticed the
/// end of the send's kernel.
void callbacks_ask_about_commands() {
    fill(3, 1000);
    char number = 0;
    if (rank_here == 0) {
        cl_int error = CL_SUCCESS;
        asked_send asked;
        asked.gate = clCreateUserEvent(context, &error);
        // The library does not see what this command waits for.
        cl_event before = nullptr;
        clEnqueueFillBuffer(queue, in, &number, 1, 0, 1, 1, &asked.gate, &before);
        asked.event = send(queue, 0, 1000, 1);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Irecv(&number, 1, MPI_CHAR, other, 2, MPI_COMM_WORLD, &request);
        cl_event arrived = clCreateEventFromMPIRequest(context, &request, &error);
        expect("clCreateEventFromMPIRequest", error, CL_SUCCESS);
        clSetEventCallback(arrived, CL_COMPLETE, ask, &asked);
        MPI_Barrier(MPI_COMM_WORLD);
        asked.answered.acquire();
        expect("a send that a callback asked about used path device",
               ended_on_device(asked.event, 1000), 1);
        for (cl_event event : {arrived, before, asked.gate}) {
            clReleaseEvent(event);
        }
        if (request != MPI_REQUEST_NULL) {
            MPI_Request_free(&request);
        }
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Send(&number, 1, MPI_CHAR, other, 2, MPI_COMM_WORLD);
        ended_on_device(receive(queue, 0, 1000, other, 1), 1000);
        compare("the bytes of a send that a callback asked about are right", 3, 1000);
    }
}

/// Enqueues more bytes than the landing memory holds.
void far_ahead_of_the_receiver() {
    constexpr int count = 30;
    fill(7, largest);
    std::vector<cl_event> events;
    for (int i = 0; i < count; ++i) {
        events.push_back(exchange(0, largest, 9));
    }
    for (cl_event event : events) {
        ended_on_device(event, largest);
    }
    compare("the bytes of messages that were enqueued far ahead are right", 7, largest);
}

/// The number of kernels that may wait at once is limited, so other receives take another path.
/// Each queue is released while its command waits.
void many_queues_wait() {
    constexpr std::size_t size = 64;
    for (const std::size_t count : {std::size_t{64}, std::size_t{200}}) {
        fill(5, count * size);
        std::vector<cl_event> events;
        for (std::size_t i = 0; i < count; ++i) {
            cl_int error = CL_SUCCESS;
            const cl_command_queue own =
                clCreateCommandQueue(context, device_of_queue(), 0, &error);
            expect("clCreateCommandQueue", error, CL_SUCCESS);
            events.push_back(receive(own, i * size, size, other, static_cast<int>(i)));
            clReleaseCommandQueue(own);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (std::size_t i = count; i-- > 0;) {
            events.push_back(
                send(i % 2 == 0 ? queue : second_queue, i * size, size, static_cast<int>(i)));
        }
        for (cl_event event : events) {
            ended_on_device(event, size);
        }
        compare("the bytes of messages on many queues are right", 5, count * size);
    }
}

/// Kernels that wait for large messages in many queues leave room for the kernels that send what
/// the other process waits for.
void waiting_receives_leave_room() {
    constexpr std::size_t size = std::size_t{2} << 20;
    constexpr int count = 20;
    fill(6, size);
    cl_int error = CL_SUCCESS;
    const cl_event may_send = clCreateUserEvent(context, &error);
    std::vector<cl_event> events;
    const auto send_all = [&](const std::vector<cl_command_queue> &queues) {
        for (int i = 0; i < count; ++i)
            events.push_back(send(queues[static_cast<std::size_t>(i)], 0, size, i));
    };
    const auto receive_all = [&](const std::vector<cl_command_queue> &queues) {
        for (int i = 0; i < count; ++i)
            events.push_back(receive(queues[static_cast<std::size_t>(i)], 0, size, other, i));
    };
    std::vector<cl_command_queue> queues(count);
    for (cl_command_queue &own : queues)
        own = clCreateCommandQueue(context, device_of_queue(), 0, &error);
    expect("the code of creating queues and an event", error, CL_SUCCESS);
    // The receives of each rank match when they are called, so their kernels wait on the device.
    if (rank_here == 0) {
        expect("clEnqueueBarrierWithWaitList",
               clEnqueueBarrierWithWaitList(queue, 1, &may_send, nullptr), CL_SUCCESS);
        send_all(std::vector(count, queue));
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        receive_all(queues);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        receive_all(queues);
        send_all(queues);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    expect("clSetUserEventStatus", clSetUserEventStatus(may_send, CL_COMPLETE), CL_SUCCESS);
    for (cl_event event : events) ended_on_device(event, size);
    compare("the bytes that many queues have waited for are right", 6, size);
    for (cl_command_queue own : queues) clReleaseCommandQueue(own);
    clReleaseEvent(may_send);
}

/// The path is used in only one context. Messages of other contexts arrive, too.
void a_second_context_takes_part() {
    const cl_device_id device = device_of_queue();
    cl_int error = CL_SUCCESS;
    const cl_context own_context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
    const cl_command_queue own = clCreateCommandQueue(own_context, device, 0, &error);
    const cl_mem copy = clCreateBuffer(own_context, CL_MEM_READ_WRITE, largest, nullptr, &error);
    expect("the code of creating a second context", error, CL_SUCCESS);
    for (int i = 0; i < 24; ++i) {
        const std::size_t size = sizes[i % 6];
        const bool from_first = i % 4 < 2;
        fill(i, size);
        if (rank_here == i % 2) {
            if (!from_first) {
                const std::vector<unsigned char> bytes = bytes_of(rank_here, i, size);
                clEnqueueWriteBuffer(own, copy, CL_TRUE, 0, size, bytes.data(), 0, nullptr,
                                     nullptr);
            }
            expect("clEnqueueSendBuffer",
                   clEnqueueSendBuffer(from_first ? queue : own, from_first ? out : copy, CL_FALSE,
                                       0, size, other, 4, MPI_COMM_WORLD, 0, nullptr, nullptr),
                   CL_SUCCESS);
            clFinish(from_first ? queue : own);
        } else {
            cl_event event = nullptr;
            expect("clEnqueueRecvBuffer",
                   clEnqueueRecvBuffer(own, copy, CL_FALSE, 0, size, other, 4, MPI_COMM_WORLD, 0,
                                       nullptr, &event),
                   CL_SUCCESS);
            ended_on_device(event, size);
            std::vector<unsigned char> found(size);
            clEnqueueReadBuffer(own, copy, CL_TRUE, 0, size, found.data(), 0, nullptr, nullptr);
            expect("the bytes in the second context are right", found == bytes_of(other, i, size),
                   1);
        }
    }
    clReleaseMemObject(copy);
    clReleaseCommandQueue(own);
    clReleaseContext(own_context);
}

/// Kernels cannot fail events, so they move no messages if errors of the communicator return.
void errors_may_return() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < 12; ++i) {
        const std::size_t size = sizes[i % 6];
        fill(i, size);
        cl_event event = nullptr;
        expect("clEnqueueSendrecvBuffer",
               clEnqueueSendrecvBuffer(queue, out, CL_FALSE, 0, size, other, i, in, 0, size, other,
                                       i, comm, 0, nullptr, &event),
               CL_SUCCESS);
        expect("a message whose errors return uses the device", ended_on_device(event, size), 0);
        compare("the bytes of a message whose errors return are right", i, size);
    }
    // Only drivers of GPUs survive failed events.
    const cl_bool blocking = wants_gpu() ? CL_FALSE : CL_TRUE;
    cl_event event = nullptr;
    if (rank_here == 0) {
        clEnqueueSendBuffer(queue, out, CL_TRUE, 0, 2000, other, 1, comm, 0, nullptr, nullptr);
    } else {
        cl_int code = clEnqueueRecvBuffer(queue, in, blocking, 0, 1000, other, 1, comm, 0, nullptr,
                                          blocking == CL_TRUE ? nullptr : &event);
        if (code == CL_SUCCESS) {
            clWaitForEvents(1, &event);
            code = status_told(event);
            clReleaseEvent(event);
        }
        expect("the error of a receive that is too short", code, CL_MESSAGE_TRUNCATED);
    }
    MPI_Comm_free(&comm);
}

}  // namespace

int main() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_here);
    other = 1 - rank_here;
    const cl_device_id device = local_device();
    if (device == nullptr) {
        if (rank_here == 0)
            std::puts("SKIP: device-ordered messages: there is no device of the type");
        MPI_Finalize();
        return 0;
    }
    cl_int error = CL_SUCCESS;
    context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
    queue = clCreateCommandQueue(context, device, 0, &error);
    second_queue = clCreateCommandQueue(context, device, 0, &error);
    out = clCreateBuffer(context, CL_MEM_READ_WRITE, largest + 64, nullptr, &error);
    in = clCreateBuffer(context, CL_MEM_READ_WRITE, largest + 64, nullptr, &error);
    expect("the code of creating the OpenCL objects", error, CL_SUCCESS);
    run_cases("device-ordered", rank_here,
              {{"chains use the device", chains_use_the_device},
               {"exchanges may have one peer", exchanges_may_have_one_peer},
               {"messages of regions use the device", regions_use_the_device},
               {"either end may come first", either_end_may_come_first},
               {"hosts receive what kernels send", hosts_receive_what_kernels_send},
               {"messages keep their order", messages_keep_their_order},
               {"messages that wait for messages are overtaken",
                messages_that_wait_for_messages_are_overtaken},
               {"callbacks ask about commands", callbacks_ask_about_commands},
               {"messages are enqueued far ahead of the receiver", far_ahead_of_the_receiver},
               {"64 and 200 queues wait", many_queues_wait},
               {"waiting receives leave room for sends", waiting_receives_leave_room},
               {"a second context takes part", a_second_context_takes_part},
               {"errors of the communicator may return", errors_may_return}});
    clReleaseMemObject(in);
    clReleaseMemObject(out);
    clReleaseCommandQueue(second_queue);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
