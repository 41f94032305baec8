/// Programs that stall, or end with commands in flight. Each needs its own job; the argument
/// selects the program. A script checks their standard error.

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <semaphore>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

/// Rank 1 waits for a message. Rank 0 sends it only after the stall is reported.
void stalled_receive(const bare_device &d, int rank) {
    if (rank == 1) {
        cl_event event = nullptr;
        expect("the receive",
               clEnqueueRecvBuffer(d.queue, d.buffer, CL_FALSE, 0, 4321, 0, 77, MPI_COMM_WORLD, 0,
                                   nullptr, &event),
               CL_SUCCESS);
        clWaitForEvents(1, &event);
        expect("the receive's status", status_told(event), CL_COMPLETE);
        clReleaseEvent(event);
    } else if (rank == 0) {
        // Sleeps until rank 1 has reported the stall.
        ::sleep(4);
        expect("the send",
               clEnqueueSendBuffer(d.queue, d.buffer, CL_TRUE, 0, 4321, 1, 77, MPI_COMM_WORLD, 0,
                                   nullptr, nullptr),
               CL_SUCCESS);
    }
    MPI_Finalize();
}

/// The same with a blocking receive. If `behind`, the call also waits for an earlier receive, which
/// is in its wait list.
void stalled_blocking_receive(const bare_device &d, int rank, bool behind) {
    if (rank == 1) {
        cl_event first = nullptr;
        if (behind) {
            expect("the first receive",
                   clEnqueueRecvBuffer(d.other_queue, d.buffer, CL_FALSE, 5000, 10, 0, 76,
                                       MPI_COMM_WORLD, 0, nullptr, &first),
                   CL_SUCCESS);
        }
        expect("the receive",
               clEnqueueRecvBuffer(d.queue, d.buffer, CL_TRUE, 0, 4321, 0, 77, MPI_COMM_WORLD,
                                   behind ? 1 : 0, behind ? &first : nullptr, nullptr),
               CL_SUCCESS);
    } else if (rank == 0) {
        // Sleeps until the stall is reported.
        ::sleep(4);
        for (const int tag : {76, 77}) {
            if (tag == 76 && !behind) {
                continue;
            }
            expect("the send",
                   clEnqueueSendBuffer(d.queue, d.buffer, CL_TRUE, 0, tag == 76 ? 10 : 4321, 1, tag,
                                       MPI_COMM_WORLD, 0, nullptr, nullptr),
                   CL_SUCCESS);
        }
    }
    MPI_Finalize();
}

/// A message in flight arrives even if both processes call MPI_Finalize.
void finalize_in_flight(const bare_device &d, int rank) {
    cl_event event = nullptr;
    std::vector<unsigned char> data(1 << 20, static_cast<unsigned char>(rank == 0 ? 5 : 0));
    clEnqueueWriteBuffer(d.queue, d.buffer, CL_TRUE, 0, data.size(), data.data(), 0, nullptr,
                         nullptr);
    if (rank == 0) {
        clEnqueueSendBuffer(d.queue, d.buffer, CL_FALSE, 0, data.size(), 1, 1, MPI_COMM_WORLD, 0,
                            nullptr, &event);
    } else if (rank == 1) {
        clEnqueueRecvBuffer(d.queue, d.buffer, CL_FALSE, 0, data.size(), 0, 1, MPI_COMM_WORLD, 0,
                            nullptr, &event);
    }
    MPI_Finalize();
    if (event != nullptr) {
        clWaitForEvents(1, &event);
        expect("the transfer's status", status_told(event), CL_COMPLETE);
        clReleaseEvent(event);
    }
    if (rank == 1) {
        clEnqueueReadBuffer(d.queue, d.buffer, CL_TRUE, 0, data.size(), data.data(), 0, nullptr,
                            nullptr);
        long wrong = 0;
        for (const unsigned char byte : data) {
            wrong += byte == 5 ? 0 : 1;
        }
        expect("the number of wrong bytes", wrong, 0);
    }
}

/// MPI_Finalize abandons a receive without matching send, and a send that waits for an event that
/// is never set.
void finalize_unmatched(const bare_device &d, int rank) {
    cl_event event = nullptr;
    cl_int error = CL_SUCCESS;
    cl_event gate = clCreateUserEvent(d.context, &error);
    if (rank == 1) {
        clEnqueueRecvBuffer(d.queue, d.buffer, CL_FALSE, 0, 4321, 0, 77, MPI_COMM_WORLD, 0, nullptr,
                            &event);
    } else if (rank == 0) {
        clEnqueueSendBuffer(d.queue, d.buffer, CL_FALSE, 0, 1234, 1, 78, MPI_COMM_WORLD, 1, &gate,
                            &event);
    }
    MPI_Finalize();
    if (event != nullptr) {
        expect("the transfer's status", status_told(event), CL_TRANSFER_ABANDONED);
    }
    std::fprintf(stderr, "rank %d returned from MPI_Finalize\n", rank);
    std::fflush(stderr);
    // Does not release the handles: the gate is never set, so the release of a queue may hang.
}

/// Rank 1 waits for a collective. Rank 0 joins it only after the stall is reported.
void stalled_collective(const bare_device &d, int rank) {
    if (rank == 0) {
        ::sleep(4);  // the stall is reported meanwhile
    }
    expect("the all-reduce",
           clEnqueueAllreduceBufferMPI(d.queue, d.buffer, CL_TRUE, 0, d.buffer, 0, 100, MPI_INT,
                                       MPI_SUM, MPI_COMM_WORLD, 0, nullptr, nullptr),
           CL_SUCCESS);
    MPI_Finalize();
}

/// The last collectives wait longer than CLDIST_STALL_SECONDS, while one ends every second.
void progressing_collectives(const bare_device &d, int rank) {
    const auto reduce = [&](cl_bool blocking) {
        expect("the all-reduce",
               clEnqueueAllreduceBufferMPI(d.queue, d.buffer, blocking, 0, d.buffer, 0, 100,
                                           MPI_INT, MPI_MAX, MPI_COMM_WORLD, 0, nullptr, nullptr),
               CL_SUCCESS);
    };
    for (int i = 0; i < 30; ++i) reduce(CL_TRUE);
    for (int i = 0; i < 12; ++i) {
        if (rank == 1) ::sleep(1);
        reduce(CL_FALSE);
        if (rank == 1) clFlush(d.queue);
    }
    clFinish(d.queue);
    MPI_Finalize();
}

/// The ranks call two collectives in different orders. With CLDIST_CHECK both fail in all
/// processes; otherwise they fail because a message has an unexpected size.
void mismatched_collectives(const bare_device &d, int rank) {
    for (int i = 0; i < 2; ++i) {
        const bool bcast = i == rank;
        expect("the code of a collective",
               bcast ? clEnqueueBcastBufferMPI(d.queue, d.buffer, CL_TRUE, 0, 1000, MPI_INT, 0,
                                               MPI_COMM_WORLD, 0, nullptr, nullptr)
                     : clEnqueueAllreduceBufferMPI(d.queue, d.buffer, CL_TRUE, 8192, d.buffer, 8192,
                                                   10, MPI_INT, MPI_SUM, MPI_COMM_WORLD, 0, nullptr,
                                                   nullptr),
               CL_COLLECTIVE_MISMATCH);
    }
    MPI_Finalize();
}

/// Rank 0 calls MPI_Finalize with a pending collective that the other processes have not called.
/// The communicator has completed a collective before.
void finalize_collective(const bare_device &d, int rank) {
    expect("the first barrier",
           clEnqueueBarrierMPI(d.queue, CL_TRUE, MPI_COMM_WORLD, 0, nullptr, nullptr), CL_SUCCESS);
    cl_event event = nullptr;
    if (rank == 0) {
        expect("the barrier",
               clEnqueueBarrierMPI(d.queue, CL_FALSE, MPI_COMM_WORLD, 0, nullptr, &event),
               CL_SUCCESS);
    }
    MPI_Finalize();
    if (event != nullptr) {
        expect("the barrier's status", status_told(event), CL_TRANSFER_ABANDONED);
    }
    std::fprintf(stderr, "rank %d returned from MPI_Finalize\n", rank);
    std::fflush(stderr);
}

/// Calls MPI_Finalize with an event of an unmatched MPI_Irecv (rank 0), and with a request of a
/// user event that is never set (rank 1). The program has freed both requests, as MPI demands.
void finalize_requests(const bare_device &d, int rank) {
    cl_int error = CL_SUCCESS;
    MPI_Request request = MPI_REQUEST_NULL;
    cl_event event = nullptr;
    if (rank == 0) {
        MPI_Irecv(&error, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
        event = clCreateEventFromMPIRequest(d.context, &request, &error);
        expect("clCreateEventFromMPIRequest", error, CL_SUCCESS);
    } else if (rank == 1) {
        expect("clCreateMPIRequestFromEvent",
               clCreateMPIRequestFromEvent(clCreateUserEvent(d.context, &error), &request),
               CL_SUCCESS);
    }
    MPI_Request_free(&request);
    MPI_Finalize();
    if (event != nullptr) {
        expect("the event's status", status_told(event), CL_TRANSFER_ABANDONED);
        clReleaseEvent(event);
    }
    std::fprintf(stderr, "rank %d returned from MPI_Finalize\n", rank);
    std::fflush(stderr);
}

/// Prints before main returns without MPI_Finalize. MPICH's mpirun then kills the other processes,
/// so no process leaves before all have printed.
void leave_main(int rank) {
    std::fprintf(stderr, "rank %d leaves main\n", rank);
    std::fflush(stderr);
    MPI_Barrier(MPI_COMM_WORLD);
}

void exit_in_flight(const bare_device &d, int rank) {
    cl_event event = nullptr;
    if (rank == 1) {
        clEnqueueRecvBuffer(d.queue, d.buffer, CL_FALSE, 0, 4321, 0, 77, MPI_COMM_WORLD, 0, nullptr,
                            &event);
    }
    leave_main(rank);
}

/// Ends with exit() instead of MPI_Finalize, with nothing in flight.
void exit_idle(const bare_device &d, int rank) {
    if (rank == 0) {
        clEnqueueSendBuffer(d.queue, d.buffer, CL_TRUE, 0, 100000, 1, 1, MPI_COMM_WORLD, 0, nullptr,
                            nullptr);
    } else if (rank == 1) {
        clEnqueueRecvBuffer(d.queue, d.buffer, CL_TRUE, 0, 100000, 0, 1, MPI_COMM_WORLD, 0, nullptr,
                            nullptr);
    }
    leave_main(rank);
    std::exit(0);
}

/// Sets an invalid value of cldist_wire, then "plain". Then rank 0's plain message fails with its
/// wait list: without a message header, the library can't report that to the receiver.
void plain_warnings(const bare_device &d, int rank) {
    for (const char *wire : {"planar", "plain"}) {
        MPI_Info info = MPI_INFO_NULL;
        MPI_Info_create(&info);
        MPI_Info_set(info, "cldist_wire", wire);
        MPI_Comm_set_info(MPI_COMM_WORLD, info);
        MPI_Info_free(&info);
    }
    if (rank == 0) {
        cl_int error = CL_SUCCESS;
        cl_event gate = clCreateUserEvent(d.context, &error);
        cl_event event = nullptr;
        expect("the send",
               clEnqueueSendBuffer(d.queue, d.buffer, CL_FALSE, 0, 100, 1, 55, MPI_COMM_WORLD, 1,
                                   &gate, &event),
               CL_SUCCESS);
        clSetUserEventStatus(gate, -77);
        clWaitForEvents(1, &event);
        // The platform may fail the event before the library has seen the gate's failure.
        while (status_told(event) >= CL_COMPLETE) {
            std::this_thread::yield();
        }
        expect("the send's status", status_told(event),
               CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        clReleaseEvent(event);
        clReleaseEvent(gate);
    }
    MPI_Finalize();
}

/// Receives a message that is too long. CLDIST_ON_ERROR decides whether the program sees the error
/// or the library ends the job.
void failed_receive(const bare_device &d, int rank, cl_bool blocking) {
    if (rank == 0) {
        clEnqueueSendBuffer(d.queue, d.buffer, CL_TRUE, 0, 2000, 1, 1, MPI_COMM_WORLD, 0, nullptr,
                            nullptr);
    } else if (rank == 1) {
        // Standard output is now a pipe, so its text is buffered; the library must flush it when it
        // ends the job. It must not wait forever for the other stream, whose lock a thread holds
        // until exit(). (exit() of glibc 2.39 waits for it, so an atexit function releases it.)
        ::dup2(STDERR_FILENO, STDOUT_FILENO);
        std::printf("printed before the receive\n");
        static std::binary_semaphore locked(0);
        static std::binary_semaphore exits(0);
        std::thread([stream = std::tmpfile()] {
            flockfile(stream);
            locked.release();
            exits.acquire();
            funlockfile(stream);
        }).detach();
        locked.acquire();
        std::atexit([] { exits.release(); });
        cl_event event = nullptr;
        cl_int code =
            clEnqueueRecvBuffer(d.queue, d.buffer, blocking, 0, 1000, 0, 1, MPI_COMM_WORLD, 0,
                                nullptr, blocking == CL_TRUE ? nullptr : &event);
        if (code == CL_SUCCESS) {
            clWaitForEvents(1, &event);
            code = status_told(event);
        }
        std::fprintf(stderr, "the receive ended with %d\n", code);
        std::fflush(stderr);
    }
    MPI_Finalize();
}

/// Rank 1 uses commands, but rank 0 still uses MPI calls, which do not know the message header.
void half_converted(const bare_device &d, int rank) {
    constexpr std::size_t half = 1 << 19;
    if (rank == 1) {
        cl_event event = nullptr;
        expect("the send-receive",
               clEnqueueSendrecvBuffer(d.queue, d.buffer, CL_FALSE, 0, half, 0, 3, d.buffer, half,
                                       half, 0, 3, MPI_COMM_WORLD, 0, nullptr, &event),
               CL_SUCCESS);
        // Sleeps until the stall is reported.
        ::sleep(4);
        clReleaseEvent(event);
    } else if (rank == 0) {
        std::vector<char> bytes(half);
        MPI_Send(bytes.data(), static_cast<int>(half), MPI_CHAR, 1, 3, MPI_COMM_WORLD);
        MPI_Recv(bytes.data(), static_cast<int>(half), MPI_CHAR, 1, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
}

/// Rank 0 receives small messages of rank 1's commands with MPI calls, and so gets the message
/// header (`prefix` bytes) before the payload.
void half_converted_small(const bare_device &d, int rank) {
    constexpr int size = 40;
    constexpr int prefix = 64;
    if (rank == 1) {
        const std::vector<char> sent(size, 'x');
        clEnqueueWriteBuffer(d.queue, d.buffer, CL_TRUE, 0, size, sent.data(), 0, nullptr, nullptr);
        for (const int tag : {1, 2, 3, 4})
            expect("a send",
                   clEnqueueSendBuffer(d.queue, d.buffer, CL_TRUE, 0, size, 0, tag, MPI_COMM_WORLD,
                                       0, nullptr, nullptr),
                   CL_SUCCESS);
        MPI_Send(sent.data(), 0, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
    } else if (rank == 0) {
        const auto expect_payload = [&](const std::vector<char> &found) {
            expect("the payload behind the library's bytes",
                   std::count(found.begin() + prefix, found.end(), 'x'), size);
        };
        std::vector<char> bytes(1000);
        MPI_Recv(bytes.data(), 1000, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_payload(bytes);
        std::vector<float> floats(100);
        MPI_Sendrecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, floats.data(), 100, MPI_FLOAT,
                     MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        std::vector<char> others(1000);
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Mprobe(1, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(others.data(), 1000, MPI_CHAR, &message, MPI_STATUS_IGNORE);
        expect_payload(others);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        std::vector<char> exact(size);
        int error_class = MPI_SUCCESS;
        MPI_Error_class(
            MPI_Recv(exact.data(), size, MPI_CHAR, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            &error_class);
        expect("the class of a receive without room for the library's bytes", error_class,
               MPI_ERR_TRUNCATE);
        // An empty message does not change the memory.
        MPI_Recv(bytes.data(), 1000, MPI_CHAR, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
}

/// Rank 0 receives the header of rank 1's message, but never the payload.
void half_converted_receive(const bare_device &d, int rank, const std::string &how) {
    constexpr std::size_t size = 1 << 19;
    if (rank == 1) {
        cl_event event = nullptr;
        expect("the send",
               clEnqueueSendBuffer(d.queue, d.buffer, CL_FALSE, 0, size, 0, 3, MPI_COMM_WORLD, 0,
                                   nullptr, &event),
               CL_SUCCESS);
        // Sleeps until the stall is reported.
        ::sleep(4);
        clReleaseEvent(event);
    } else if (rank == 0) {
        std::vector<char> bytes(size);
        const auto count = static_cast<int>(size);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Message message = MPI_MESSAGE_NULL;
        if (how == "irecv") {
            MPI_Irecv(bytes.data(), count, MPI_CHAR, 1, 3, MPI_COMM_WORLD, &request);
        } else {
            MPI_Mprobe(1, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            if (how == "mrecv") {
                MPI_Mrecv(bytes.data(), count, MPI_CHAR, &message, MPI_STATUS_IGNORE);
            } else {
                MPI_Imrecv(bytes.data(), count, MPI_CHAR, &message, &request);
            }
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
}

/// Rank 0's receive starts late. The stall is reported, but both commands succeed.
void late_receive(const bare_device &d, int rank) {
    if (rank == 1) {
        expect("the send",
               clEnqueueSendBuffer(d.queue, d.buffer, CL_TRUE, 0, 1 << 19, 0, 3, MPI_COMM_WORLD, 0,
                                   nullptr, nullptr),
               CL_SUCCESS);
    } else if (rank == 0) {
        // Sleeps until the stall is reported.
        ::sleep(3);
        expect("the receive",
               clEnqueueRecvBuffer(d.queue, d.buffer, CL_TRUE, 0, 1 << 19, 1, 3, MPI_COMM_WORLD, 0,
                                   nullptr, nullptr),
               CL_SUCCESS);
    }
    MPI_Finalize();
}

/// Calls `begin`, whose commands stall, sleeps until the stall is reported, calls `resolve`, and
/// waits for all commands.
template <typename Stall, typename Resolve>
void stall(const bare_device &d, const Stall &begin, const Resolve &resolve) {
    begin();
    clFlush(d.queue);
    clFlush(d.other_queue);
    // Sleeps until the stall is reported.
    ::sleep(4);
    resolve();
    clFinish(d.queue);
    clFinish(d.other_queue);
    MPI_Finalize();
}

void send_to_other(cl_command_queue queue, const bare_device &d, int rank, std::size_t size,
                   int tag, MPI_Comm comm, const cl_event *wait = nullptr) {
    expect("a send",
           clEnqueueSendBuffer(queue, d.buffer, CL_FALSE, 0, size, 1 - rank, tag, comm,
                               wait != nullptr ? 1 : 0, wait, nullptr),
           CL_SUCCESS);
}

void recv_from_other(cl_command_queue queue, const bare_device &d, int rank, std::size_t size,
                     int tag, MPI_Comm comm) {
    expect("a receive",
           clEnqueueRecvBuffer(queue, d.buffer, CL_FALSE, 0, size, 1 - rank, tag, comm, 0, nullptr,
                               nullptr),
           CL_SUCCESS);
}

/// Rank 0 sends with tags and on communicators that do not match rank 1's receives.
void stall_tags(const bare_device &d, int rank) {
    constexpr std::size_t large = 1 << 19;
    MPI_Comm second = MPI_COMM_NULL;
    MPI_Comm third = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    MPI_Comm_dup(MPI_COMM_WORLD, &third);
    // Separate queues, so that each command waits only for its own message.
    cl_int error = CL_SUCCESS;
    std::vector<cl_command_queue> queues;
    for (int i = 0; i < 3; ++i) queues.push_back(clCreateCommandQueue(d.context, d.id, 0, &error));
    stall(
        d,
        [&] {
            if (rank == 0) {
                send_to_other(queues[0], d, rank, large, 1, MPI_COMM_WORLD);
                send_to_other(queues[1], d, rank, 100, 3, second);
            } else {
                recv_from_other(queues[0], d, rank, large, 2, MPI_COMM_WORLD);
                recv_from_other(queues[1], d, rank, 100, 4, second);
                recv_from_other(queues[2], d, rank, large, 1, third);
            }
        },
        [&] {
            if (rank == 0) {
                send_to_other(d.queue, d, rank, large, 2, MPI_COMM_WORLD);
                send_to_other(d.queue, d, rank, 100, 4, second);
                send_to_other(d.queue, d, rank, large, 1, third);
            } else {
                recv_from_other(d.queue, d, rank, large, 1, MPI_COMM_WORLD);
                recv_from_other(d.queue, d, rank, 100, 3, second);
            }
            for (cl_command_queue queue : queues) clFinish(queue);
        });
}

void stall_both_send(const bare_device &d, int rank) {
    stall(
        d, [&] { send_to_other(d.queue, d, rank, 1 << 19, 9, MPI_COMM_WORLD); },
        [&] { recv_from_other(d.other_queue, d, rank, 1 << 19, 9, MPI_COMM_WORLD); });
}

void stall_both_receive(const bare_device &d, int rank) {
    stall(
        d, [&] { recv_from_other(d.queue, d, rank, 1 << 19, 9, MPI_COMM_WORLD); },
        [&] { send_to_other(d.other_queue, d, rank, 1 << 19, 9, MPI_COMM_WORLD); });
}

/// Rank 0's sends wait for a user event, for the event of an MPI request, and for an earlier
/// command in their queue.
void stall_wait_lists(const bare_device &d, int rank) {
    cl_int error = CL_SUCCESS;
    cl_event gate = clCreateUserEvent(d.context, &error);
    int number = 0;
    stall(
        d,
        [&] {
            if (rank == 0) {
                send_to_other(d.queue, d, rank, 500, 5, MPI_COMM_WORLD, &gate);
                send_to_other(d.queue, d, rank, 700, 7, MPI_COMM_WORLD);
                MPI_Request request = MPI_REQUEST_NULL;
                MPI_Irecv(&number, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, &request);
                cl_event event = clCreateEventFromMPIRequest(d.context, &request, &error);
                expect("clCreateEventFromMPIRequest", error, CL_SUCCESS);
                send_to_other(d.other_queue, d, rank, 600, 6, MPI_COMM_WORLD, &event);
                clReleaseEvent(event);
                MPI_Request_free(&request);
            } else {
                for (const int tag : {5, 7, 6})
                    recv_from_other(d.queue, d, rank, 700, tag, MPI_COMM_WORLD);
            }
        },
        [&] {
            if (rank == 0)
                clSetUserEventStatus(gate, CL_COMPLETE);
            else
                MPI_Send(&number, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
        });
    clReleaseEvent(gate);
}

/// Rank 1 kills itself once its trace contains an unmatched receive. The launcher then ends rank 0.
void killed_with_trace(const bare_device &d, int rank) {
    if (rank > 1) {
        return;
    }
    expect("the message",
           rank == 0 ? clEnqueueSendBuffer(d.queue, d.buffer, CL_TRUE, 0, 1000, 1, 5,
                                           MPI_COMM_WORLD, 0, nullptr, nullptr)
                     : clEnqueueRecvBuffer(d.queue, d.buffer, CL_TRUE, 0, 1000, 0, 5,
                                           MPI_COMM_WORLD, 0, nullptr, nullptr),
           CL_SUCCESS);
    if (rank == 1) {
        clEnqueueRecvBuffer(d.queue, d.buffer, CL_FALSE, 0, 4321, 0, 77, MPI_COMM_WORLD, 0, nullptr,
                            nullptr);
    }
    const std::string path = std::string(std::getenv("CLDIST_TRACE")) + "/cldist-trace-" +
                             std::to_string(rank) + ".json";
    const std::string last = rank == 0 ? "\"status\":0" : "\"size\":4321";
    for (std::string trace; trace.find(last) == std::string::npos; std::this_thread::yield()) {
        trace = (std::stringstream() << std::ifstream(path).rdbuf()).str();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        ::raise(SIGKILL);
    }
    ::pause();
}

}  // namespace

int main(int argc, char **argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const bare_device d(1 << 20);
    if (what == "stalled-receive") {
        stalled_receive(d, rank);
    } else if (what == "stalled-blocking-receive") {
        stalled_blocking_receive(d, rank, false);
    } else if (what == "stalled-behind-receive") {
        stalled_blocking_receive(d, rank, true);
    } else if (what == "half-converted") {
        half_converted(d, rank);
    } else if (what == "half-converted-small") {
        half_converted_small(d, rank);
    } else if (what == "half-converted-irecv") {
        half_converted_receive(d, rank, "irecv");
    } else if (what == "half-converted-mrecv") {
        half_converted_receive(d, rank, "mrecv");
    } else if (what == "half-converted-imrecv") {
        half_converted_receive(d, rank, "imrecv");
    } else if (what == "late-receive") {
        late_receive(d, rank);
    } else if (what == "finalize-in-flight") {
        finalize_in_flight(d, rank);
    } else if (what == "finalize-unmatched") {
        finalize_unmatched(d, rank);
    } else if (what == "stalled-collective") {
        stalled_collective(d, rank);
    } else if (what == "progressing-collectives") {
        progressing_collectives(d, rank);
    } else if (what == "mismatched-collectives") {
        mismatched_collectives(d, rank);
    } else if (what == "finalize-collective") {
        finalize_collective(d, rank);
    } else if (what == "finalize-requests") {
        finalize_requests(d, rank);
    } else if (what == "exit-in-flight") {
        exit_in_flight(d, rank);
    } else if (what == "exit-idle") {
        exit_idle(d, rank);
    } else if (what == "plain-warnings") {
        plain_warnings(d, rank);
    } else if (what == "stall-tags") {
        stall_tags(d, rank);
    } else if (what == "stall-both-send") {
        stall_both_send(d, rank);
    } else if (what == "stall-both-receive") {
        stall_both_receive(d, rank);
    } else if (what == "stall-wait-lists") {
        stall_wait_lists(d, rank);
    } else if (what == "killed-with-trace") {
        killed_with_trace(d, rank);
    } else if (what == "failed-receive") {
        failed_receive(d, rank, CL_FALSE);
    } else if (what == "failed-blocking-receive") {
        failed_receive(d, rank, CL_TRUE);
    } else {
        std::fprintf(stderr, "unknown case: %s\n", what.c_str());
        return 2;
    }
    return failures == 0 ? 0 : 1;
}
