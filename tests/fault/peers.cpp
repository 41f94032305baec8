/// Programs that lose their peer, or the connection to it, during two large messages, one in each
/// direction. The argument selects the program:
///
/// killed: one job of three. Rank 1 kills itself (SIGKILL), rank 2 remains for further messages.
/// cut FOLDER: one job of two. Once the messages move, rank 0 writes FOLDER/moving, and the script
/// cuts the connection for a while. Both messages must arrive in the end.
/// accept FILE, connect FILE: two jobs, joined by a port whose name is in FILE.
/// accept-killed FILE, connect-killed FILE: the same; then the connecting job kills itself.
///
/// Scripts check their standard error.

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

using clock_type = std::chrono::steady_clock;
using bytes = std::vector<unsigned char>;

constexpr std::size_t MiB = std::size_t{1} << 20;

template <typename... Values>
void say(const char *format, Values... values) {
    std::fprintf(stderr, format, values...);
    std::fputc('\n', stderr);
    std::fflush(stderr);
}

void say(const char *text) { say("%s", text); }

bytes pattern(unsigned seed, std::size_t size) {
    bytes data(size);
    std::uint32_t state = seed * 2654435761U + 1;
    for (unsigned char &byte : data) {
        state = state * 1664525U + 1013904223U;
        byte = static_cast<unsigned char>(state >> 24U);
    }
    return data;
}

cl_command_queue new_queue(const bare_device &d) {
    cl_int error = CL_SUCCESS;
    cl_command_queue queue = clCreateCommandQueue(d.context, d.id, 0, &error);
    expect("a queue", error, CL_SUCCESS);
    return queue;
}

void write(const bare_device &d, std::size_t offset, const bytes &data) {
    expect("the write",
           clEnqueueWriteBuffer(d.queue, d.buffer, CL_TRUE, offset, data.size(), data.data(), 0,
                                nullptr, nullptr),
           CL_SUCCESS);
}

/// The number of bytes in the buffer, from `offset` on, that differ from `wanted`.
long wrong_bytes(const bare_device &d, std::size_t offset, const bytes &wanted) {
    bytes found(wanted.size());
    if (wanted.empty()) {
        return 0;
    }
    expect("the read",
           clEnqueueReadBuffer(d.queue, d.buffer, CL_TRUE, offset, found.size(), found.data(), 0,
                               nullptr, nullptr),
           CL_SUCCESS);
    long wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        wrong += found[i] != wanted[i] ? 1 : 0;
    }
    return wrong;
}

std::size_t moved(cl_event event) {
    std::size_t value = 0;
    expect("clGetTransferInfo",
           clGetTransferInfo(event, CL_TRANSFER_BYTES, sizeof(value), &value, nullptr), CL_SUCCESS);
    return value;
}

/// Two large messages in flight with one peer, one in each direction.
struct exchange {
    exchange(const bare_device &device_in, MPI_Comm comm, int peer, unsigned own_seed,
             unsigned peer_seed, std::size_t size_in)
        : d(device_in), size(size_in), theirs(pattern(peer_seed, size)) {
        write(d, 0, pattern(own_seed, size));
        write(d, size, bytes(size, 0));
        expect("the send",
               clEnqueueSendBuffer(new_queue(d), d.buffer, CL_FALSE, 0, size, peer, 1, comm, 0,
                                   nullptr, &sending),
               CL_SUCCESS);
        expect("the receive",
               clEnqueueRecvBuffer(new_queue(d), d.buffer, CL_FALSE, size, size, peer, 1, comm, 0,
                                   nullptr, &receiving),
               CL_SUCCESS);
    }

    /// Returns while at least one of the messages is partly transferred. MPI may transfer one
    /// before the other.
    void wait_for_middle() const {
        const auto in_middle = [this](cl_event event) {
            const std::size_t now = moved(event);
            return now != 0 && now != size;
        };
        while (!in_middle(sending) && !in_middle(receiving)) {
            if (ended()) {
                expect("whether the messages have ended before they were seen to move", 1, 0);
                return;
            }
            std::this_thread::yield();
        }
    }

    [[nodiscard]] bool ended() const {
        return status_told(sending) <= CL_COMPLETE && status_told(receiving) <= CL_COMPLETE;
    }

    /// Returns when both messages have ended, or nothing has moved for `patience`.
    void wait_while_moving(std::chrono::milliseconds patience) const {
        std::size_t last = 0;
        for (auto since = clock_type::now(); !ended() && clock_type::now() - since < patience;) {
            if (const std::size_t now = moved(sending) + moved(receiving); now != last) {
                last = now;
                since = clock_type::now();
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    }

    /// Checks that a receive which is reported as complete has received all bytes.
    void check_honest() const {
        cl_int event_status = CL_QUEUED;
        clGetEventInfo(receiving, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(event_status),
                       &event_status, nullptr);
        const cl_int told = status_told(receiving);
        say("the send: status %d, %zu of %zu bytes; the receive: status %d (event %d), %zu of %zu "
            "bytes",
            status_told(sending), moved(sending), size, told, event_status, moved(receiving), size);
        if (told == CL_COMPLETE || event_status == CL_COMPLETE) {
            expect("the number of wrong bytes of a receive that is complete",
                   wrong_bytes(d, size, theirs), 0);
        }
    }

    const bare_device &d;
    const std::size_t size;
    const bytes theirs;
    cl_event sending = nullptr;
    cl_event receiving = nullptr;
};

/// Exchanges messages of many sizes with a peer, blocking and non-blocking, and checks them.
void talk(const bare_device &d, MPI_Comm comm, int peer, unsigned own_seed, unsigned peer_seed) {
    cl_command_queue queue = new_queue(d);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{4000}, std::size_t{70001}, 3 * MiB}) {
        for (unsigned turn = 0; turn < 4; ++turn) {
            write(d, 0, pattern(own_seed + turn, size + 1));
            cl_event event = nullptr;
            expect("a talk",
                   clEnqueueSendrecvBuffer(queue, d.buffer, turn % 2 == 0 ? CL_TRUE : CL_FALSE, 0,
                                           size, peer, 5, d.buffer, 4 * MiB, size, peer, 5, comm, 0,
                                           nullptr, &event),
                   CL_SUCCESS);
            clWaitForEvents(1, &event);
            expect("the status of a talk", status_told(event), CL_COMPLETE);
            expect("the number of wrong bytes of a talk",
                   wrong_bytes(d, 4 * MiB, pattern(peer_seed + turn, size)), 0);
            clReleaseEvent(event);
        }
    }
}

[[noreturn]] void die() {
    say("the victim dies");
    ::kill(::getpid(), SIGKILL);
    std::abort();
}

/// Skips MPI_Finalize, which would wait for dead processes.
[[noreturn]] void leave() {
    say(failures == 0 ? "the survivor passed" : "the survivor failed");
    std::_Exit(failures == 0 ? 0 : 1);
}

/// Waits until the messages have ended or stalled, and checks them. Then limits the rest of the
/// program to 30 s.
void survive(const exchange &both) {
    both.wait_while_moving(std::chrono::seconds(8));  // longer than until the stall report
    both.check_honest();
    say(both.ended() ? "both messages have ended" : "a message is still pending");
    // Later messages need a working MPI. Open MPI's TCP can deadlock when a connection breaks.
    ::signal(SIGALRM, [](int) {
        constexpr char text[] = "the survivor's MPI does not respond\n";
        [[maybe_unused]] const auto written = ::write(2, text, sizeof text - 1);
        ::_exit(failures == 0 ? 0 : 1);
    });
    ::alarm(30);
}

void killed(int rank) {
    constexpr std::size_t size = 384 * MiB;
    const bare_device d(2 * size);
    // For messages that the pending large messages must not block.
    const bare_device for_talks(8 * MiB);
    if (rank == 2) {
        talk(for_talks, MPI_COMM_WORLD, 0, 20, 30);
        ::alarm(150);  // ends the process if rank 0 can't send any more
        char word = 0;
        MPI_Recv(&word, 1, MPI_CHAR, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        talk(for_talks, MPI_COMM_WORLD, 0, 21, 31);
        leave();
    }
    if (rank == 0) {
        talk(for_talks, MPI_COMM_WORLD, 2, 30, 20);
    }
    const exchange both(d, MPI_COMM_WORLD, 1 - rank, static_cast<unsigned>(rank),
                        static_cast<unsigned>(1 - rank), size);
    if (rank == 1) {
        both.wait_for_middle();
        die();
    }
    survive(both);
    const char word = 0;
    MPI_Send(&word, 1, MPI_CHAR, 2, 9, MPI_COMM_WORLD);
    talk(for_talks, MPI_COMM_WORLD, 2, 31, 21);
    leave();
}

void cut(int rank, const std::string &folder) {
    constexpr std::size_t size = 64 * MiB;
    const bare_device d(2 * size);
    const exchange both(d, MPI_COMM_WORLD, 1 - rank, static_cast<unsigned>(rank),
                        static_cast<unsigned>(1 - rank), size);
    if (rank == 0) {
        both.wait_for_middle();
        std::ofstream(folder + "/moving") << "now\n";
    }
    both.wait_while_moving(std::chrono::seconds(60));
    both.check_honest();
    expect("whether both have ended", both.ended() ? 1 : 0, 1);
    expect("the send's status", status_told(both.sending), CL_COMPLETE);
    expect("the receive's status", status_told(both.receiving), CL_COMPLETE);
    say("rank %d has received its message", rank);
    MPI_Finalize();
}

/// Joins two jobs by an inter-communicator. Each process's peer has the same rank in the other job.
void joined(int rank, const std::string &what, const std::string &file) {
    constexpr std::size_t size = 384 * MiB;
    const bool accepts = what.rfind("accept", 0) == 0;
    std::string port(MPI_MAX_PORT_NAME, '\0');
    if (accepts) {
        if (rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port.data());
            std::ofstream(file + ".new") << port.c_str() << '\n';
            std::rename((file + ".new").c_str(), file.c_str());
        }
    } else if (rank == 0) {
        std::string name;
        while (!std::getline(std::ifstream(file), name)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        name.copy(port.data(), name.size());
    }
    MPI_Comm comm = MPI_COMM_NULL;
    const int code = accepts
                         ? MPI_Comm_accept(port.data(), MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm)
                         : MPI_Comm_connect(port.data(), MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm);
    expect("the joining of the jobs", code, MPI_SUCCESS);
    const bare_device d(2 * size);
    const unsigned own = accepts ? 40 : 50;
    const unsigned other = accepts ? 50 : 40;
    const auto number = static_cast<unsigned>(rank);
    expect(
        "a send before clDistInit",
        clEnqueueSendBuffer(d.queue, d.buffer, CL_TRUE, 0, 1, rank, 5, comm, 0, nullptr, nullptr),
        CL_INVALID_COMMUNICATOR);
    expect("clDistInit", clDistInit(comm), CL_SUCCESS);
    talk(d, comm, rank, own + number, other + number);
    say("rank %d has talked with the other job", rank);
    if (what.find("killed") != std::string::npos) {
        const exchange both(d, comm, rank, own + number, other + number, size);
        if (!accepts) {
            both.wait_for_middle();
            die();
        }
        survive(both);
        const bare_device for_talks(8 * MiB);
        int ranks = 0;
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        if (ranks > 1 && rank < 2) {
            talk(for_talks, MPI_COMM_WORLD, 1 - rank, 60 + number, 61 - number);
        }
        leave();
    }
    MPI_Comm_disconnect(&comm);
    MPI_Finalize();
}

}  // namespace

int main(int argc, char **argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    const std::string where = argc > 2 ? argv[2] : "";
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (what == "killed") {
        killed(rank);
    } else if (what == "cut") {
        cut(rank, where);
    } else if (what.rfind("accept", 0) == 0 || what.rfind("connect", 0) == 0) {
        joined(rank, what, where);
    } else {
        std::fprintf(stderr, "no case of that name: %s\n", what.c_str());
        return 2;
    }
    return failures == 0 ? 0 : 1;
}
