/// MPI calls with MPI_CL_MEM: one end of a message is host memory, the other end is host memory or
/// a command's buffer.

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <string>
#include <thread>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

constexpr std::array<std::size_t, 6> sizes{0, 1, 64, 16 << 10, 100 << 10, 5 << 20};

int count_of(std::size_t size) { return static_cast<int>(size); }

/// Waits for a request like MPI_Wait, but stops if another rank has left the case.
MPI_Status wait_request(MPI_Request &request) {
    MPI_Status status{};
    poll_until("a request", [&] {
        int done = 0;
        MPI_OK(MPI_Test(&request, &done, &status));
        return done != 0;
    });
    return status;
}

bool is_complete(MPI_Request request) {
    int done = 0;
    MPI_OK(MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE));
    return done != 0;
}

int payload_of(const MPI_Status &status) {
    int count = -1;
    MPI_OK(MPI_Get_count(&status, MPI_CL_MEM, &count));
    return count;
}

void expect_status(const MPI_Status &status, int source, int tag, std::size_t size) {
    CHECK(status.MPI_SOURCE == source);
    CHECK(status.MPI_TAG == tag);
    CHECK(payload_of(status) == count_of(size));
    int plain = -1;
    MPI_OK(MPI_Get_count(&status, MPI_BYTE, &plain));
    CHECK(plain == count_of(size));
    int elements = -1;
    MPI_OK(MPI_Get_elements(&status, MPI_CL_MEM, &elements));
    CHECK(elements == count_of(size));
    MPI_Count many = -1;
    MPI_OK(MPI_Get_elements_x(&status, MPI_CL_MEM, &many));
    CHECK(many == static_cast<MPI_Count>(size));
    int cancelled = -1;
    MPI_OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled == 0);
}

/// During its life, errors of a communicator and of MPI_COMM_WORLD are returned. MPI reports errors
/// of requests to MPI_COMM_WORLD.
class errors_return {
public:
    explicit errors_return(MPI_Comm comm_in) : comm(comm_in) {
        MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    }
    ~errors_return() {
        MPI_Comm_set_errhandler(comm, before);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
        MPI_Errhandler_free(&before);
    }
    errors_return(const errors_return &) = delete;
    errors_return &operator=(const errors_return &) = delete;

private:
    MPI_Comm comm;
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
};

int class_of(int code) {
    int error_class = -1;
    MPI_Error_class(code, &error_class);
    return error_class;
}

/// The kind of call at one end of a message.
enum class way { blocking, synchronous, request, synchronous_request, command, blocking_command };
constexpr std::array send_ways{way::blocking, way::synchronous,
                               way::request,  way::synchronous_request,
                               way::command,  way::blocking_command};
constexpr std::array recv_ways{way::blocking, way::request, way::command, way::blocking_command};

std::string name_of(way w) {
    constexpr std::array names{"blocking", "synchronous",     "request", "synchronous request",
                               "command",  "blocking command"};
    return names.at(static_cast<std::size_t>(w));
}

/// Sends and receives messages of pattern(seed, size) with any kind of call.
struct mover {
    explicit mover(const mpi_view &mpi_in) : mpi(mpi_in), queue(cl.in_order_queue()) {}

    void send_one(way w, std::size_t size, std::uint64_t seed, int dest, int tag) const {
        if (w == way::command || w == way::blocking_command) {
            const buffer_handle buffer = cl.filled(size, seed);
            const cl_bool blocking = w == way::command ? CL_FALSE : CL_TRUE;
            event_handle event;
            CL_OK(clEnqueueSendBuffer(queue, buffer, blocking, 0, size, dest, tag, mpi.comm, 0,
                                      nullptr, event.out()));
            expect_complete(event);
            return;
        }
        const bytes data = pattern(seed, size);
        const int count = count_of(size);
        MPI_Request request = MPI_REQUEST_NULL;
        switch (w) {
            case way::blocking:
                MPI_OK(MPI_Send(data.data(), count, MPI_CL_MEM, dest, tag, mpi.comm));
                break;
            case way::synchronous:
                MPI_OK(MPI_Ssend(data.data(), count, MPI_CL_MEM, dest, tag, mpi.comm));
                break;
            case way::request:
                MPI_OK(MPI_Isend(data.data(), count, MPI_CL_MEM, dest, tag, mpi.comm, &request));
                break;
            default:
                MPI_OK(MPI_Issend(data.data(), count, MPI_CL_MEM, dest, tag, mpi.comm, &request));
                break;
        }
        if (w == way::request || w == way::synchronous_request) {
            CHECK(request != MPI_REQUEST_NULL);
            wait_request(request);
            CHECK(request == MPI_REQUEST_NULL);
        }
    }

    void receive_one(way w, std::size_t size, std::uint64_t seed, int source, int tag) const {
        if (w == way::command || w == way::blocking_command) {
            const buffer_handle buffer = cl.buffer(size + 8);
            const cl_bool blocking = w == way::command ? CL_FALSE : CL_TRUE;
            event_handle event;
            CL_OK(clEnqueueRecvBuffer(queue, buffer, blocking, 0, size + 8, source, tag, mpi.comm,
                                      0, nullptr, event.out()));
            expect_received(event, size, source, tag);
            cl.expect(buffer, 0, size, seed);
            return;
        }
        bytes data(size + 8, 0xEE);
        const int count = count_of(data.size());
        MPI_Status status{};
        if (w == way::blocking) {
            MPI_OK(MPI_Recv(data.data(), count, MPI_CL_MEM, source, tag, mpi.comm, &status));
        } else {
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_OK(MPI_Irecv(data.data(), count, MPI_CL_MEM, source, tag, mpi.comm, &request));
            status = wait_request(request);
        }
        expect_status(status, source, tag, size);
        bytes wanted = pattern(seed, size);
        wanted.resize(data.size(), 0xEE);
        CHECK((data == wanted));
    }

    const mpi_view &mpi;
    opencl cl;
    queue_handle queue;
};

/// Combines every way to send with every way to receive.
void all_ways(const mpi_view &mpi, std::size_t size) {
    const mover m(mpi);
    std::uint64_t seed = 1;
    for (const way sending : send_ways) {
        for (const way receiving : recv_ways) {
            CAPTURE(size);
            CAPTURE(name_of(sending));
            CAPTURE(name_of(receiving));
            ++seed;
            if (mpi.rank == 0) {
                m.send_one(sending, size, seed, 1, 7);
            } else if (mpi.rank == 1) {
                m.receive_one(receiving, size, seed, 0, 7);
            }
        }
    }
    mpi.barrier();
}

}  // namespace

MPI_CASE("MPI_CL_MEM is a type of one byte with a name", 1) {
    int size = 0;
    MPI_OK(MPI_Type_size(MPI_CL_MEM, &size));
    CHECK(size == 1);
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    MPI_OK(MPI_Type_get_name(MPI_CL_MEM, name, &length));
    CHECK(std::string(name) == "MPI_CL_MEM");
}

MPI_CASE("messages between host memory and buffers arrive in every way, small ones", 2) {
    for (const std::size_t size : {sizes[0], sizes[1], sizes[2]}) {
        all_ways(mpi, size);
    }
}
MPI_CASE("messages between host memory and buffers arrive in every way, 16 KiB and 100 KiB", 2) {
    for (const std::size_t size : {sizes[3], sizes[4]}) {
        all_ways(mpi, size);
    }
}
MPI_CASE("messages between host memory and buffers arrive in every way, 5 MiB", 2) {
    all_ways(mpi, sizes[5]);
}

MPI_CASE("a message may be shorter than its receive, and the status may be ignored", 2) {
    for (const std::size_t size : sizes) {
        const bytes data = pattern(3, size);
        if (mpi.rank == 0) {
            MPI_OK(MPI_Send(data.data(), count_of(size), MPI_CL_MEM, 1, 1, mpi.comm));
        } else if (mpi.rank == 1) {
            bytes found(size + 100);
            MPI_OK(MPI_Recv(found.data(), count_of(found.size()), MPI_CL_MEM, 0, 1, mpi.comm,
                            MPI_STATUS_IGNORE));
            found.resize(size);
            CHECK((found == data));
        }
    }
}

// ---- Requests ---------------------------------------------------------------------------------

namespace {

/// Requests of three kinds in one array: MPI_CL_MEM, plain and null.
struct request_mix {
    static constexpr std::size_t pairs = 8;

    explicit request_mix(const mpi_view &mpi) {
        for (std::size_t i = 0; i < pairs; ++i) {
            const int tag = static_cast<int>(i);
            const std::size_t size = sizes.at(i % sizes.size());
            sent.push_back(pattern(i, size));
            received.emplace_back(size + 1);
            plain_sent.at(i) = static_cast<int>(100 + i);
            if (mpi.rank == 0) {
                MPI_OK(MPI_Isend(sent[i].data(), count_of(size), MPI_CL_MEM, 1, tag, mpi.comm,
                                 next()));
                MPI_OK(MPI_Isend(&plain_sent.at(i), 1, MPI_INT, 1, 100 + tag, mpi.comm, next()));
            } else {
                MPI_OK(MPI_Irecv(received[i].data(), count_of(size + 1), MPI_CL_MEM, 0, tag,
                                 mpi.comm, next()));
                MPI_OK(
                    MPI_Irecv(&plain_received.at(i), 1, MPI_INT, 0, 100 + tag, mpi.comm, next()));
            }
            requests.push_back(MPI_REQUEST_NULL);
        }
    }
    MPI_Request *next() { return &requests.emplace_back(MPI_REQUEST_NULL); }
    [[nodiscard]] int count() const { return static_cast<int>(requests.size()); }

    /// Checks the status and the data of request number `at`, if it is a receive.
    void expect(const mpi_view &mpi, int at, const MPI_Status &status) const {
        CAPTURE(at);
        const auto i = static_cast<std::size_t>(at) / 3;
        if (mpi.rank == 0 || at % 3 == 2) {
            return;
        }
        if (at % 3 == 1) {
            CHECK(status.MPI_TAG == 100 + static_cast<int>(i));
            CHECK(plain_received.at(i) == plain_sent.at(i));
            return;
        }
        expect_status(status, 0, static_cast<int>(i), sent[i].size());
        CHECK((bytes(received[i].begin(), received[i].end() - 1) == sent[i]));
    }

    std::vector<bytes> sent;
    std::vector<bytes> received;
    std::array<int, pairs> plain_sent{};
    std::array<int, pairs> plain_received{};
    std::vector<MPI_Request> requests;
};

void expect_all_null(const request_mix &mix) {
    CHECK(std::all_of(mix.requests.begin(), mix.requests.end(),
                      [](MPI_Request r) { return r == MPI_REQUEST_NULL; }));
}

}  // namespace

MPI_CASE("no send with MPI_CL_MEM overtakes an earlier one, whatever its tag", 2) {
    constexpr int rounds = 50;
    bytes data(1000);
    for (int round = 0; round < rounds && mpi.rank == 0; ++round) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_OK(MPI_Isend(data.data(), 1000, MPI_CL_MEM, 1, 2 * round, mpi.comm, &request));
        MPI_OK(MPI_Send(data.data(), 0, MPI_CL_MEM, 1, 2 * round + 1, mpi.comm));
        wait_request(request);
    }
    for (int tag = 0; tag < 2 * rounds && mpi.rank == 1; ++tag) {
        MPI_Status status{};
        MPI_OK(MPI_Recv(data.data(), 1000, MPI_CL_MEM, 0, MPI_ANY_TAG, mpi.comm, &status));
        CHECK(status.MPI_TAG == tag);
    }
}

MPI_CASE("a plain receive from MPI_PROC_NULL does not touch its memory", 1) {
    MPI_Status status{};
    MPI_OK(
        MPI_Recv(reinterpret_cast<void *>(8), 100, MPI_INT, MPI_PROC_NULL, 0, mpi.comm, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
}

MPI_CASE("MPI_Waitall accepts requests with MPI_CL_MEM, plain and null requests in one array", 2) {
    if (mpi.rank > 1) {
        return;
    }
    request_mix mix(mpi);
    std::vector<MPI_Status> statuses(mix.requests.size());
    MPI_OK(MPI_Waitall(mix.count(), mix.requests.data(), statuses.data()));
    expect_all_null(mix);
    for (int i = 0; i < mix.count(); ++i) {
        mix.expect(mpi, i, statuses[static_cast<std::size_t>(i)]);
    }
}

MPI_CASE("MPI_Waitany and MPI_Testany find requests with MPI_CL_MEM among plain ones", 2) {
    if (mpi.rank > 1) {
        return;
    }
    for (const bool test : {false, true}) {
        request_mix mix(mpi);
        std::size_t ended = 0;
        poll_until("all requests", [&] {
            int at = MPI_UNDEFINED;
            int done = 1;
            MPI_Status status{};
            if (test) {
                MPI_OK(MPI_Testany(mix.count(), mix.requests.data(), &at, &done, &status));
            } else {
                MPI_OK(MPI_Waitany(mix.count(), mix.requests.data(), &at, &status));
            }
            if (done == 0) {
                return false;
            }
            if (at == MPI_UNDEFINED) {
                return true;
            }
            ++ended;
            mix.expect(mpi, at, status);
            return false;
        });
        CHECK(ended == 2 * request_mix::pairs);
        expect_all_null(mix);
    }
}

MPI_CASE("MPI_Waitsome and MPI_Testsome find requests with MPI_CL_MEM among plain ones", 2) {
    if (mpi.rank > 1) {
        return;
    }
    for (const bool test : {false, true}) {
        request_mix mix(mpi);
        std::vector<int> indices(mix.requests.size());
        std::vector<MPI_Status> statuses(mix.requests.size());
        std::size_t ended = 0;
        poll_until("all requests", [&] {
            int count = 0;
            const auto some = test ? MPI_Testsome : MPI_Waitsome;
            MPI_OK(some(mix.count(), mix.requests.data(), &count, indices.data(), statuses.data()));
            if (count == MPI_UNDEFINED) {
                return true;
            }
            for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
                ++ended;
                mix.expect(mpi, indices[i], statuses[i]);
            }
            return false;
        });
        CHECK(ended == 2 * request_mix::pairs);
        expect_all_null(mix);
    }
}

MPI_CASE("MPI_Testall reports completion only when the last request is complete", 2) {
    if (mpi.rank == 0) {
        await(mpi, 1);
        const bytes data = pattern(1, 1000);
        MPI_OK(MPI_Send(data.data(), 1000, MPI_CL_MEM, 1, 2, mpi.comm));
    } else if (mpi.rank == 1) {
        bytes data(1000);
        int plain = 0;
        const int word = 5;
        std::array<MPI_Request, 3> requests{};
        std::array<MPI_Status, 3> statuses{};
        MPI_OK(MPI_Irecv(&plain, 1, MPI_INT, 1, 3, mpi.comm, &requests[0]));
        MPI_OK(MPI_Irecv(data.data(), 1000, MPI_CL_MEM, 0, 2, mpi.comm, &requests[1]));
        MPI_OK(MPI_Isend(&word, 1, MPI_INT, 1, 3, mpi.comm, &requests[2]));
        int done = 1;
        MPI_OK(MPI_Testall(3, requests.data(), &done, statuses.data()));
        CHECK(done == 0);
        tell(mpi, 0);
        poll_until("all requests", [&] {
            MPI_OK(MPI_Testall(3, requests.data(), &done, statuses.data()));
            return done != 0;
        });
        expect_status(statuses[1], 0, 2, 1000);
        CHECK(plain == 5);
        CHECK((data == pattern(1, 1000)));
    }
}

MPI_CASE("a receive without a message can be cancelled, and the next receive gets the message", 2) {
    if (mpi.rank == 0) {
        await(mpi, 1);
        const bytes data = pattern(9, 300);
        MPI_OK(MPI_Send(data.data(), 300, MPI_CL_MEM, 1, 2, mpi.comm));
    } else if (mpi.rank == 1) {
        bytes cancelled_data(300, 0xEE);
        bytes data(300);
        std::array<MPI_Request, 2> requests{};
        MPI_OK(MPI_Irecv(cancelled_data.data(), 300, MPI_CL_MEM, 0, 2, mpi.comm, &requests[0]));
        MPI_OK(MPI_Irecv(data.data(), 300, MPI_CL_MEM, 0, 2, mpi.comm, &requests[1]));
        MPI_OK(MPI_Cancel(&requests[0]));
        MPI_Status status = wait_request(requests[0]);
        int cancelled = 0;
        MPI_OK(MPI_Test_cancelled(&status, &cancelled));
        CHECK(cancelled != 0);
        CHECK_FALSE(is_complete(requests[1]));
        tell(mpi, 0);
        status = wait_request(requests[1]);
        expect_status(status, 0, 2, 300);
        CHECK((data == pattern(9, 300)));
        CHECK((cancelled_data == bytes(300, 0xEE)));
    }
}

MPI_CASE("MPI_Cancel does not affect a send or a completed receive", 2) {
    const bytes data = pattern(4, 70000);
    MPI_Request request = MPI_REQUEST_NULL;
    if (mpi.rank == 0) {
        MPI_OK(MPI_Isend(data.data(), count_of(data.size()), MPI_CL_MEM, 1, 2, mpi.comm, &request));
        MPI_OK(MPI_Cancel(&request));
        const MPI_Status status = wait_request(request);
        int cancelled = 1;
        MPI_OK(MPI_Test_cancelled(&status, &cancelled));
        CHECK(cancelled == 0);
    } else if (mpi.rank == 1) {
        bytes found(data.size());
        MPI_OK(
            MPI_Irecv(found.data(), count_of(found.size()), MPI_CL_MEM, 0, 2, mpi.comm, &request));
        poll_until("the receive", [&] { return is_complete(request); });
        MPI_OK(MPI_Cancel(&request));
        expect_status(wait_request(request), 0, 2, data.size());
        CHECK((found == data));
    }
}

namespace {

/// Reads memory that the progress thread may be writing: MPI reports no end of a freed request.
[[gnu::no_sanitize("thread")]] bool has_become(const volatile unsigned char *found,
                                               const bytes &wanted) {
    for (const unsigned char byte : wanted) {
        if (*found++ != byte) {
            return false;
        }
    }
    return true;
}

}  // namespace

MPI_CASE("the operation of a freed request continues", 2) {
    for (const std::size_t size : {std::size_t{100}, std::size_t{1} << 20}) {
        const bytes data = pattern(4, size);
        bytes found(size);
        MPI_Request request = MPI_REQUEST_NULL;
        if (mpi.rank == 0) {
            MPI_OK(MPI_Isend(data.data(), count_of(size), MPI_CL_MEM, 1, 2, mpi.comm, &request));
            MPI_OK(MPI_Request_free(&request));
            await(mpi, 1);
        } else if (mpi.rank == 1) {
            MPI_OK(MPI_Irecv(found.data(), count_of(size), MPI_CL_MEM, 0, 2, mpi.comm, &request));
            MPI_OK(MPI_Request_free(&request));
            poll_until("the bytes", [&] { return has_become(found.data(), data); });
            tell(mpi, 0);
        }
        CHECK(request == MPI_REQUEST_NULL);
    }
}

MPI_CASE("a communicator may be freed while requests with MPI_CL_MEM are pending on it", 2) {
    for (const std::size_t size : {std::size_t{100}, std::size_t{1} << 20}) {
        CAPTURE(size);
        const bytes data = pattern(4, size);
        bytes found(size);
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_OK(MPI_Comm_dup(mpi.comm, &comm));
        std::vector<MPI_Request> requests;
        if (mpi.rank == 1) {
            requests.resize(2);
            MPI_OK(MPI_Irecv(found.data(), count_of(size), MPI_CL_MEM, 0, MPI_ANY_TAG, comm,
                             &requests[0]));
            // No message matches this receive, which is cancelled after the communicator is freed.
            MPI_OK(MPI_Irecv(found.data(), 1, MPI_CL_MEM, 0, 3, comm, &requests[1]));
            tell(mpi, 0);
        } else if (mpi.rank == 0) {
            await(mpi, 1);
            requests.resize(1);
            MPI_OK(MPI_Isend(data.data(), count_of(size), MPI_CL_MEM, 1, 2, comm, requests.data()));
        }
        MPI_OK(MPI_Comm_free(&comm));
        CHECK(comm == MPI_COMM_NULL);
        // MPI may reuse the freed handle. The library must distinguish the two communicators.
        MPI_Comm another = MPI_COMM_NULL;
        MPI_OK(MPI_Comm_dup(mpi.comm, &another));
        if (mpi.rank < 2) {
            MPI_OK(MPI_Wait(requests.data(), MPI_STATUS_IGNORE));
        }
        if (mpi.rank == 1) {
            CHECK((found == data));
            MPI_OK(MPI_Cancel(&requests[1]));
            MPI_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        }
        MPI_OK(MPI_Comm_free(&another));
    }
}

MPI_CASE("MPI_Ssend and MPI_Issend of a small message end only when its receive has started", 2) {
    const bytes data = pattern(4, 10);
    if (mpi.rank == 0) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_OK(MPI_Issend(data.data(), 10, MPI_CL_MEM, 1, 2, mpi.comm, &request));
        MPI_Request ordinary = MPI_REQUEST_NULL;
        MPI_OK(MPI_Isend(data.data(), 10, MPI_CL_MEM, 1, 3, mpi.comm, &ordinary));
        wait_request(ordinary);  // the progress thread sends it after `request`
        CHECK_FALSE(is_complete(request));
        tell(mpi, 1);
        wait_request(request);
        std::atomic<bool> received{false};
        std::thread receiver([&] {
            await(mpi, 1);
            received = true;
        });
        MPI_OK(MPI_Ssend(data.data(), 10, MPI_CL_MEM, 1, 4, mpi.comm));
        receiver.join();
    } else if (mpi.rank == 1) {
        bytes found(10);
        await(mpi, 0);
        for (const int tag : {2, 3, 4}) {
            if (tag == 4) {
                tell(mpi, 0);
            }
            MPI_OK(MPI_Recv(found.data(), 10, MPI_CL_MEM, 0, tag, mpi.comm, MPI_STATUS_IGNORE));
            CHECK((found == data));
        }
    }
}

// ---- Matching ---------------------------------------------------------------------------------

MPI_CASE("messages of one tag keep their order through requests, blocking calls and commands", 2) {
    const mover m(mpi);
    constexpr int rounds = 24;
    constexpr std::array<std::size_t, 5> mixed{10, 200000, 0, 3 << 20, 5000};
    std::vector<bytes> data;
    std::vector<MPI_Request> requests;
    for (int i = 0; i < rounds; ++i) {
        data.push_back(pattern(static_cast<std::uint64_t>(i),
                               mixed.at(static_cast<std::size_t>(i) % mixed.size())));
    }
    std::vector<bytes> found(rounds);
    std::vector<buffer_handle> buffers(rounds);
    std::vector<event_handle> events;
    for (int i = 0; i < rounds; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const std::size_t size = data[at].size();
        if (mpi.rank == 0) {
            // Every third send blocks; if its message is large, until its receive has started.
            if (i % 3 == 1) {
                MPI_OK(MPI_Send(data[at].data(), count_of(size), MPI_CL_MEM, 1, 5, mpi.comm));
            } else {
                requests.push_back(MPI_REQUEST_NULL);
                MPI_OK(MPI_Isend(data[at].data(), count_of(size), MPI_CL_MEM, 1, 5, mpi.comm,
                                 &requests.back()));
            }
        } else if (mpi.rank == 1) {
            found[at].resize(size);
            if (i % 4 == 1) {
                MPI_OK(MPI_Recv(found[at].data(), count_of(size), MPI_CL_MEM, 0, 5, mpi.comm,
                                MPI_STATUS_IGNORE));
            } else if (i % 4 == 3) {
                // Blocking, so that it starts before the next receive.
                buffers[at] = m.cl.buffer(size + 1);
                CL_OK(clEnqueueRecvBuffer(m.queue, buffers[at], CL_TRUE, 0, size, 0, 5, mpi.comm, 0,
                                          nullptr, nullptr));
            } else {
                requests.push_back(MPI_REQUEST_NULL);
                MPI_OK(MPI_Irecv(found[at].data(), count_of(size), MPI_CL_MEM, 0, 5, mpi.comm,
                                 &requests.back()));
            }
        }
    }
    for (MPI_Request &request : requests) {
        wait_request(request);
    }
    for (std::size_t i = 0; mpi.rank == 1 && i < data.size(); ++i) {
        CAPTURE(i);
        if (buffers[i].get() != nullptr) {
            m.cl.expect(buffers[i], 0, data[i].size(), i);
        } else {
            CHECK((found[i] == data[i]));
        }
    }
}

MPI_CASE(
    "receives of any source and any tag accept messages with MPI_CL_MEM and report source and tag",
    2) {
    const std::size_t senders = static_cast<std::size_t>(mpi.size) - 1;
    if (mpi.rank != 0) {
        const bytes data = pattern(static_cast<std::uint64_t>(mpi.rank),
                                   static_cast<std::size_t>(mpi.rank) * 1000);
        MPI_OK(
            MPI_Send(data.data(), count_of(data.size()), MPI_CL_MEM, 0, 40 + mpi.rank, mpi.comm));
        return;
    }
    std::vector<bool> seen(senders + 1, false);
    for (std::size_t i = 0; i < senders; ++i) {
        bytes data(5000);
        MPI_Status status{};
        if (i % 2 == 0) {
            MPI_OK(MPI_Recv(data.data(), 5000, MPI_CL_MEM, MPI_ANY_SOURCE, MPI_ANY_TAG, mpi.comm,
                            &status));
        } else {
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_OK(MPI_Irecv(data.data(), 5000, MPI_CL_MEM, MPI_ANY_SOURCE, MPI_ANY_TAG, mpi.comm,
                             &request));
            status = wait_request(request);
        }
        const auto from = static_cast<std::size_t>(status.MPI_SOURCE);
        expect_status(status, status.MPI_SOURCE, 40 + status.MPI_SOURCE, from * 1000);
        REQUIRE(from <= senders);
        CHECK_FALSE(seen[from]);
        seen[from] = true;
        data.resize(from * 1000);
        CHECK((data == pattern(from, from * 1000)));
    }
}

MPI_CASE("a process exchanges with itself", 1) {
    for (const std::size_t size : sizes) {
        CAPTURE(size);
        const bytes data = pattern(size, size);
        bytes found(size);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_OK(MPI_Isend(data.data(), count_of(size), MPI_CL_MEM, mpi.rank, 3, mpi.comm, &request));
        MPI_Status status{};
        MPI_OK(MPI_Recv(found.data(), count_of(size), MPI_CL_MEM, mpi.rank, 3, mpi.comm, &status));
        expect_status(status, mpi.rank, 3, size);
        wait_request(request);
        CHECK((found == data));

        bytes again(size);
        MPI_OK(MPI_Sendrecv(data.data(), count_of(size), MPI_CL_MEM, mpi.rank, 4, again.data(),
                            count_of(size), MPI_CL_MEM, mpi.rank, 4, mpi.comm, &status));
        expect_status(status, mpi.rank, 4, size);
        CHECK((again == data));
    }
}

MPI_CASE("MPI_Sendrecv passes messages around a ring", 2) {
    const int to = (mpi.rank + 1) % mpi.size;
    const int from = (mpi.rank + mpi.size - 1) % mpi.size;
    for (const std::size_t size : sizes) {
        CAPTURE(size);
        const bytes data = pattern(static_cast<std::uint64_t>(mpi.rank), size);
        bytes found(size + 3);
        MPI_Status status{};
        MPI_OK(MPI_Sendrecv(data.data(), count_of(size), MPI_CL_MEM, to, 4, found.data(),
                            count_of(size + 3), MPI_CL_MEM, from, MPI_ANY_TAG, mpi.comm, &status));
        expect_status(status, from, 4, size);
        found.resize(size);
        CHECK((found == pattern(static_cast<std::uint64_t>(from), size)));
    }
}

MPI_CASE("MPI_Sendrecv exchanges messages with clEnqueueSendrecvBuffer", 2) {
    const mover m(mpi);
    for (const std::size_t size : sizes) {
        CAPTURE(size);
        if (mpi.rank == 0) {
            const bytes data = pattern(5, size);
            bytes found(size);
            MPI_OK(MPI_Sendrecv(data.data(), count_of(size), MPI_CL_MEM, 1, 4, found.data(),
                                count_of(size), MPI_CL_MEM, 1, 5, mpi.comm, MPI_STATUS_IGNORE));
            CHECK((found == pattern(6, size)));
        } else if (mpi.rank == 1) {
            const buffer_handle out = m.cl.filled(size, 6);
            const buffer_handle in = m.cl.buffer(size + 1);
            event_handle event;
            CL_OK(clEnqueueSendrecvBuffer(m.queue, out, CL_FALSE, 0, size, 0, 5, in, 0, size, 0, 4,
                                          mpi.comm, 0, nullptr, event.out()));
            expect_complete(event);
            m.cl.expect(in, 0, size, 5);
        }
    }
}

MPI_CASE("MPI_Sendrecv may have MPI_CL_MEM on one side only", 2) {
    constexpr std::size_t size = 300000;
    const bytes data = pattern(5, size);
    bytes found(size);
    MPI_Status status{};
    // Rank 0 sends with MPI_CL_MEM and receives MPI_BYTE; rank 1 does the reverse.
    if (mpi.rank < 2) {
        const int peer = 1 - mpi.rank;
        const MPI_Datatype out = mpi.rank == 0 ? MPI_CL_MEM : MPI_BYTE;
        const MPI_Datatype in = mpi.rank == 0 ? MPI_BYTE : MPI_CL_MEM;
        MPI_OK(MPI_Sendrecv(data.data(), size, out, peer, mpi.rank, found.data(), size, in, peer,
                            peer, mpi.comm, &status));
        CHECK(status.MPI_SOURCE == peer);
        CHECK(status.MPI_TAG == peer);
        CHECK((found == data));
    }
}

MPI_CASE("calls with MPI_PROC_NULL transfer nothing", 1) {
    bytes data(10, 0xEE);
    MPI_Status status{};
    MPI_OK(MPI_Send(data.data(), 10, MPI_CL_MEM, MPI_PROC_NULL, 1, mpi.comm));
    MPI_OK(MPI_Ssend(data.data(), 10, MPI_CL_MEM, MPI_PROC_NULL, 1, mpi.comm));
    MPI_OK(MPI_Recv(data.data(), 10, MPI_CL_MEM, MPI_PROC_NULL, 1, mpi.comm, &status));
    expect_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_OK(MPI_Isend(data.data(), 10, MPI_CL_MEM, MPI_PROC_NULL, 1, mpi.comm, &request));
    wait_request(request);
    MPI_OK(MPI_Irecv(data.data(), 10, MPI_CL_MEM, MPI_PROC_NULL, 1, mpi.comm, &request));
    expect_status(wait_request(request), MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MPI_OK(MPI_Probe(MPI_PROC_NULL, 1, mpi.comm, &status));
    CHECK(payload_of(status) == 0);
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_OK(MPI_Mprobe(MPI_PROC_NULL, 1, mpi.comm, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC);
    MPI_OK(MPI_Mrecv(data.data(), 10, MPI_CL_MEM, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL);
    expect_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    bytes found(10);
    MPI_OK(MPI_Irecv(found.data(), 10, MPI_CL_MEM, mpi.rank, 2, mpi.comm, &request));
    MPI_OK(MPI_Sendrecv(data.data(), 10, MPI_CL_MEM, mpi.rank, 2, data.data(), 0, MPI_CL_MEM,
                        MPI_PROC_NULL, 2, mpi.comm, &status));
    expect_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    wait_request(request);
    CHECK(found == data);
    CHECK((data == bytes(10, 0xEE)));
}

MPI_CASE("messages with MPI_CL_MEM cross an inter-communicator", 2) {
    const int side = mpi.rank % 2;
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm across = MPI_COMM_NULL;
    MPI_OK(MPI_Comm_split(mpi.comm, side, mpi.rank, &half));
    MPI_OK(MPI_Intercomm_create(half, 0, mpi.comm, 1 - side, 9, &across));
    if (mpi.rank < 2) {
        for (const std::size_t size : sizes) {
            const bytes data = pattern(static_cast<std::uint64_t>(side), size);
            bytes found(size);
            MPI_Status status{};
            MPI_OK(MPI_Sendrecv(data.data(), count_of(size), MPI_CL_MEM, 0, side, found.data(),
                                count_of(size), MPI_CL_MEM, 0, 1 - side, across, &status));
            expect_status(status, 0, 1 - side, size);
            CHECK((found == pattern(static_cast<std::uint64_t>(1 - side), size)));
        }
    }
    MPI_OK(MPI_Comm_free(&across));
    MPI_OK(MPI_Comm_free(&half));
}

MPI_CASE("threads exchange with MPI_CL_MEM at the same time, each with its tag", 2) {
    constexpr int threads = 4;
    constexpr int rounds = 20;
    std::atomic<int> wrong{0};
    std::vector<std::thread> all;
    const auto exchange = [&](int tag) {
        for (int i = 0; i < rounds; ++i) {
            const std::size_t size =
                sizes.at(static_cast<std::size_t>(i) % 5) + static_cast<std::size_t>(tag);
            const int peer = 1 - mpi.rank;
            const bytes data = pattern(static_cast<std::uint64_t>(100 * tag + i), size);
            bytes found(size);
            int code = MPI_SUCCESS;
            if (i % 2 == 0) {
                code = MPI_Sendrecv(data.data(), count_of(size), MPI_CL_MEM, peer, tag,
                                    found.data(), count_of(size), MPI_CL_MEM, peer, tag, mpi.comm,
                                    MPI_STATUS_IGNORE);
            } else {
                std::array<MPI_Request, 2> requests{};
                MPI_Irecv(found.data(), count_of(size), MPI_CL_MEM, peer, tag, mpi.comm,
                          &requests[0]);
                MPI_Isend(data.data(), count_of(size), MPI_CL_MEM, peer, tag, mpi.comm,
                          &requests[1]);
                code = MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
            }
            wrong += code != MPI_SUCCESS || found != data ? 1 : 0;
        }
    };
    if (mpi.rank < 2) {
        for (int tag = 0; tag < threads; ++tag) {
            all.emplace_back(exchange, tag);
        }
    }
    for (std::thread &thread : all) {
        thread.join();
    }
    CHECK(wrong == 0);
}

// ---- Probing ----------------------------------------------------------------------------------

namespace {

enum class probing { probe, iprobe, mprobe, improbe };

struct probed {
    MPI_Status status{};
    MPI_Message message = MPI_MESSAGE_NULL;
};

probed probe(probing how, int source, int tag, MPI_Comm comm) {
    probed found;
    int flag = 0;
    switch (how) {
        case probing::probe: MPI_OK(MPI_Probe(source, tag, comm, &found.status)); break;
        case probing::mprobe:
            MPI_OK(MPI_Mprobe(source, tag, comm, &found.message, &found.status));
            break;
        case probing::iprobe:
            poll_until("a message to arrive", [&] {
                MPI_OK(MPI_Iprobe(source, tag, comm, &flag, &found.status));
                return flag != 0;
            });
            break;
        case probing::improbe:
            poll_until("a message to arrive", [&] {
                MPI_OK(MPI_Improbe(source, tag, comm, &flag, &found.message, &found.status));
                return flag != 0;
            });
            break;
    }
    return found;
}

bool is_there(int tag, MPI_Comm comm) {
    int flag = 0;
    MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &flag, MPI_STATUS_IGNORE));
    return flag != 0;
}

}  // namespace

MPI_CASE("MPI_Probe and MPI_Iprobe report the payload's size", 2) {
    const mover m(mpi);
    int tag = 0;  // a different tag for each message prevents confusion with the next message
    for (const probing how : {probing::probe, probing::iprobe}) {
        for (const way sending : {way::blocking, way::command}) {
            for (const std::size_t size : sizes) {
                CAPTURE(size);
                ++tag;
                if (mpi.rank == 0) {
                    m.send_one(sending, size, size, 1, tag);
                } else if (mpi.rank == 1) {
                    for (const bool wildcards : {false, true, false}) {
                        const probed found = probe(how, wildcards ? MPI_ANY_SOURCE : 0,
                                                   wildcards ? MPI_ANY_TAG : tag, mpi.comm);
                        CHECK(found.status.MPI_SOURCE == 0);
                        CHECK(found.status.MPI_TAG == tag);
                        CHECK(payload_of(found.status) == count_of(size));
                        // a second query must return the same size
                        CHECK(payload_of(found.status) == count_of(size));
                    }
                    m.receive_one(size % 3 == 0 ? way::command : way::blocking, size, size, 0, tag);
                    CHECK_FALSE(is_there(tag, mpi.comm));
                }
            }
        }
    }
}

MPI_CASE("MPI_Mprobe and MPI_Improbe take a message that MPI_Mrecv and MPI_Imrecv receive", 2) {
    const mover m(mpi);
    int tag = 0;  // a different tag for each message prevents confusion with the next message
    for (const probing how : {probing::mprobe, probing::improbe}) {
        for (const bool request_too : {false, true}) {
            for (const std::size_t size : sizes) {
                CAPTURE(size);
                ++tag;
                if (mpi.rank == 0) {
                    m.send_one(way::request, size, size, 1, tag);
                } else if (mpi.rank == 1) {
                    probed found = probe(how, MPI_ANY_SOURCE, tag, mpi.comm);
                    CHECK(payload_of(found.status) == count_of(size));
                    CHECK_FALSE(is_there(tag, mpi.comm));
                    bytes data(size + 5);
                    MPI_Status status{};
                    if (request_too) {
                        MPI_Request request = MPI_REQUEST_NULL;
                        MPI_OK(MPI_Imrecv(data.data(), count_of(size + 5), MPI_CL_MEM,
                                          &found.message, &request));
                        status = wait_request(request);
                    } else {
                        MPI_OK(MPI_Mrecv(data.data(), count_of(size + 5), MPI_CL_MEM,
                                         &found.message, &status));
                    }
                    CHECK(found.message == MPI_MESSAGE_NULL);
                    expect_status(status, 0, tag, size);
                    data.resize(size);
                    CHECK((data == pattern(size, size)));
                }
            }
        }
    }
}

MPI_CASE("plain messages are probed and received as usual, even with the length of a header", 2) {
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{63}, std::size_t{64}, std::size_t{65}}) {
        CAPTURE(size);
        const int count = count_of(size);
        const bytes data = pattern(size, size);
        if (mpi.rank == 0) {
            for (int i = 0; i < 4; ++i) {
                MPI_OK(MPI_Send(data.data(), count, MPI_BYTE, 1, 6, mpi.comm));
            }
        } else if (mpi.rank == 1) {
            const auto expect_plain = [&](const MPI_Status &status) {
                int found = -1;
                MPI_OK(MPI_Get_count(&status, MPI_BYTE, &found));
                CHECK(found == count);
                CHECK(status.MPI_SOURCE == 0);
                CHECK(status.MPI_TAG == 6);
            };
            bytes found(size);
            MPI_Status status{};
            expect_plain(probe(probing::probe, 0, 6, mpi.comm).status);
            MPI_OK(MPI_Recv(found.data(), count, MPI_BYTE, 0, MPI_ANY_TAG, mpi.comm, &status));
            expect_plain(status);
            CHECK((found == data));

            found.assign(size, 0);
            probed taken = probe(probing::mprobe, 0, MPI_ANY_TAG, mpi.comm);
            expect_plain(taken.status);
            probed second = probe(probing::improbe, 0, MPI_ANY_TAG, mpi.comm);
            expect_plain(second.status);
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_OK(MPI_Imrecv(found.data(), count, MPI_BYTE, &second.message, &request));
            CHECK(second.message == MPI_MESSAGE_NULL);
            expect_plain(wait_request(request));
            CHECK((found == data));
            found.assign(size, 0);
            MPI_OK(MPI_Mrecv(found.data(), count, MPI_BYTE, &taken.message, &status));
            CHECK(taken.message == MPI_MESSAGE_NULL);
            expect_plain(status);
            CHECK((found == data));
            MPI_OK(MPI_Recv(found.data(), count, MPI_BYTE, 0, MPI_ANY_TAG, mpi.comm, &status));
            expect_plain(status);
        }
    }
}

MPI_CASE("a probe does not see the message that a pending receive will get", 2) {
    if (mpi.rank == 0) {
        const bytes data = pattern(1, 100);
        for (int i = 0; i < 50; ++i) {
            await(mpi, 1);
            MPI_OK(MPI_Send(data.data(), 100, MPI_CL_MEM, 1, 6, mpi.comm));
            MPI_OK(MPI_Send(data.data(), 50, MPI_CL_MEM, 1, 6, mpi.comm));
        }
    } else if (mpi.rank == 1) {
        bytes first(100);
        bytes second(50);
        for (int i = 0; i < 50; ++i) {
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_OK(MPI_Irecv(first.data(), 100, MPI_CL_MEM, 0, MPI_ANY_TAG, mpi.comm, &request));
            tell(mpi, 0);
            const probed found =
                probe(i % 2 == 0 ? probing::probe : probing::iprobe, 0, 6, mpi.comm);
            CHECK(payload_of(found.status) == 50);
            MPI_Status status{};
            MPI_OK(MPI_Recv(second.data(), 50, MPI_CL_MEM, 0, 6, mpi.comm, &status));
            expect_status(status, 0, 6, 50);
            expect_status(wait_request(request), 0, 6, 100);
        }
    }
}

MPI_CASE("probed messages keep their order with later ones", 2) {
    constexpr std::array<std::size_t, 6> lengths{300000, 0, 400000, 10, 500000, 0};
    if (mpi.rank == 0) {
        std::vector<bytes> data;
        std::vector<MPI_Request> requests(lengths.size());
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            data.push_back(pattern(i, lengths.at(i)));
            MPI_OK(MPI_Isend(data[i].data(), count_of(lengths.at(i)), MPI_CL_MEM, 1, 6, mpi.comm,
                             &requests[i]));
        }
        for (MPI_Request &request : requests) {
            wait_request(request);
        }
    } else if (mpi.rank == 1) {
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            const probed found = probe(probing::probe, 0, 6, mpi.comm);
            CHECK(payload_of(found.status) == count_of(lengths.at(i)));
            probed taken;
            bytes data(lengths.at(i));
            if (i % 2 == 0) {
                taken = probe(probing::mprobe, MPI_ANY_SOURCE, MPI_ANY_TAG, mpi.comm);
                CHECK(payload_of(taken.status) == count_of(lengths.at(i)));
                MPI_OK(MPI_Mrecv(data.data(), count_of(data.size()), MPI_CL_MEM, &taken.message,
                                 MPI_STATUS_IGNORE));
            } else {
                MPI_OK(MPI_Recv(data.data(), count_of(data.size()), MPI_CL_MEM, MPI_ANY_SOURCE,
                                MPI_ANY_TAG, mpi.comm, MPI_STATUS_IGNORE));
            }
            CHECK((data == pattern(i, lengths.at(i))));
        }
    }
}

// ---- Failures ---------------------------------------------------------------------------------

MPI_CASE(
    "a message longer than its receive is an MPI_ERR_TRUNCATE, and the next message is complete",
    2) {
    const errors_return handler(mpi.comm);
    for (const std::size_t size : {std::size_t{100}, std::size_t{3} << 20}) {
        CAPTURE(size);
        const bytes data = pattern(8, size);
        if (mpi.rank == 0) {
            for (int i = 0; i < 4; ++i) {
                MPI_OK(MPI_Send(data.data(), count_of(size), MPI_CL_MEM, 1, 3, mpi.comm));
            }
        } else if (mpi.rank == 1) {
            const int less = count_of(size) - 1;
            bytes found(size, 0xEE);
            MPI_Status status{};
            CHECK(class_of(MPI_Recv(found.data(), less, MPI_CL_MEM, 0, 3, mpi.comm, &status)) ==
                  MPI_ERR_TRUNCATE);
            CHECK(status.MPI_SOURCE == 0);
            CHECK(status.MPI_TAG == 3);
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_OK(MPI_Irecv(found.data(), less, MPI_CL_MEM, 0, 3, mpi.comm, &request));
            CHECK(class_of(MPI_Wait(&request, &status)) == MPI_ERR_TRUNCATE);
            CHECK(request == MPI_REQUEST_NULL);
            MPI_Message message = MPI_MESSAGE_NULL;
            MPI_OK(MPI_Mprobe(0, 3, mpi.comm, &message, MPI_STATUS_IGNORE));
            CHECK(class_of(MPI_Mrecv(found.data(), less, MPI_CL_MEM, &message, &status)) ==
                  MPI_ERR_TRUNCATE);
            CHECK((found == bytes(size, 0xEE)));
            MPI_OK(MPI_Recv(found.data(), count_of(size), MPI_CL_MEM, 0, 3, mpi.comm, &status));
            CHECK((found == data));
        }
    }
    mpi.barrier();
}

MPI_CASE("MPI_Waitall reports which of its requests failed", 2) {
    const errors_return handler(mpi.comm);
    const bytes data = pattern(8, 100);
    if (mpi.rank == 0) {
        for (const int tag : {1, 2, 3}) {
            MPI_OK(MPI_Send(data.data(), 100, tag == 3 ? MPI_BYTE : MPI_CL_MEM, 1, tag, mpi.comm));
        }
    } else if (mpi.rank == 1) {
        std::array<bytes, 3> found{bytes(100), bytes(100), bytes(100)};
        std::array<MPI_Request, 3> requests{};
        std::array<MPI_Status, 3> statuses{};
        MPI_OK(MPI_Irecv(found[0].data(), 100, MPI_CL_MEM, 0, 1, mpi.comm, &requests[0]));
        MPI_OK(MPI_Irecv(found[1].data(), 99, MPI_CL_MEM, 0, 2, mpi.comm, &requests[1]));
        MPI_OK(MPI_Irecv(found[2].data(), 100, MPI_BYTE, 0, 3, mpi.comm, &requests[2]));
        CHECK(MPI_Waitall(3, requests.data(), statuses.data()) == MPI_ERR_IN_STATUS);
        CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS);
        // With several requests, MPICH uses one error class for all errors of generalised requests.
        const int failed = class_of(statuses[1].MPI_ERROR);
        CHECK((failed == MPI_ERR_TRUNCATE || failed == MPI_ERR_OTHER));
        // MPI may leave later requests incomplete. MPICH does.
        if (statuses[2].MPI_ERROR != MPI_SUCCESS) {
            CHECK(class_of(statuses[2].MPI_ERROR) == MPI_ERR_PENDING);
            wait_request(requests[2]);
        }
        CHECK((found[0] == data));
        CHECK((found[2] == data));
    }
    mpi.barrier();
}

MPI_CASE("a plain message that matches a receive with MPI_CL_MEM is an MPI_ERR_TYPE", 2) {
    const errors_return handler(mpi.comm);
    for (const std::size_t size : {std::size_t{0}, std::size_t{64}, std::size_t{100000}}) {
        CAPTURE(size);
        bytes data(size);
        if (mpi.rank == 0) {
            MPI_OK(MPI_Send(data.data(), count_of(size), MPI_BYTE, 1, 3, mpi.comm));
            MPI_OK(MPI_Send(data.data(), count_of(size), MPI_BYTE, 1, 3, mpi.comm));
        } else if (mpi.rank == 1) {
            MPI_Status status{};
            const int count = count_of(size);
            CHECK(class_of(MPI_Recv(data.data(), count, MPI_CL_MEM, 0, 3, mpi.comm, &status)) ==
                  MPI_ERR_TYPE);
            MPI_Message message = MPI_MESSAGE_NULL;
            MPI_OK(MPI_Mprobe(0, 3, mpi.comm, &message, &status));
            CHECK(class_of(MPI_Mrecv(data.data(), count, MPI_CL_MEM, &message, &status)) ==
                  MPI_ERR_TYPE);
        }
    }
    mpi.barrier();
}

MPI_CASE("if a sender's wait list failed, the receiver's error has its own class and a text", 2) {
    const errors_return handler(mpi.comm);
    const mover m(mpi);
    if (mpi.rank == 0) {
        const buffer_handle buffer = m.cl.buffer(100);
        const event_handle gate = m.cl.user_event();
        const event_handle event = send(m.queue, buffer, 0, 100, 1, 3, mpi.comm, {gate});
        CL_OK(clSetUserEventStatus(gate, -5));
        expect_failed(event);
    } else if (mpi.rank == 1) {
        bytes data(100);
        const int code = MPI_Recv(data.data(), 100, MPI_CL_MEM, 0, 3, mpi.comm, MPI_STATUS_IGNORE);
        CHECK(class_of(code) > MPI_ERR_LASTCODE);
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        MPI_OK(MPI_Error_string(code, text, &length));
        CHECK(std::string(text).find("of the peer failed") != std::string::npos);
    }
    mpi.barrier();
}

namespace {

std::atomic<int> handler_calls{0};
std::atomic<int> handler_code{MPI_SUCCESS};
void count_error(MPI_Comm *, int *code, ...) {
    ++handler_calls;
    handler_code = *code;
}

}  // namespace

MPI_CASE("errors of blocking calls go to the communicator's own error handler", 1) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_OK(MPI_Comm_create_errhandler(&count_error, &handler));
    MPI_OK(MPI_Comm_set_errhandler(mpi.comm, handler));
    handler_calls = 0;
    bytes data(10);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_OK(MPI_Isend(data.data(), 10, MPI_CL_MEM, mpi.rank, 3, mpi.comm, &request));
    CHECK(class_of(MPI_Recv(data.data(), 9, MPI_CL_MEM, mpi.rank, 3, mpi.comm,
                            MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
    wait_request(request);
    CHECK(handler_calls == 1);
    CHECK(class_of(handler_code) == MPI_ERR_TRUNCATE);
    MPI_OK(MPI_Comm_set_errhandler(mpi.comm, MPI_ERRORS_ARE_FATAL));
    MPI_OK(MPI_Errhandler_free(&handler));
}

// ---- Large counts -----------------------------------------------------------------------------

MPI_CASE("the large-count calls exchange the same messages", 2) {
#ifdef CLDIST_MPI_LARGE_COUNTS
    for (const std::size_t size : sizes) {
        CAPTURE(size);
        const auto count = static_cast<MPI_Count>(size);
        const bytes data = pattern(5, size);
        MPI_Request request = MPI_REQUEST_NULL;
        if (mpi.rank == 0) {
            MPI_OK(MPI_Send_c(data.data(), count, MPI_CL_MEM, 1, 1, mpi.comm));
            MPI_OK(MPI_Ssend_c(data.data(), count, MPI_CL_MEM, 1, 1, mpi.comm));
            MPI_OK(MPI_Isend_c(data.data(), count, MPI_CL_MEM, 1, 1, mpi.comm, &request));
            wait_request(request);
            MPI_OK(MPI_Sendrecv_c(data.data(), count, MPI_CL_MEM, 1, 1, nullptr, 0, MPI_CL_MEM,
                                  MPI_PROC_NULL, 1, mpi.comm, MPI_STATUS_IGNORE));
        } else if (mpi.rank == 1) {
            for (int i = 0; i < 4; ++i) {
                bytes found(size);
                MPI_Status status{};
                MPI_Message message = MPI_MESSAGE_NULL;
                if (i == 0) {
                    MPI_OK(MPI_Recv_c(found.data(), count, MPI_CL_MEM, 0, 1, mpi.comm, &status));
                } else if (i == 1) {
                    MPI_OK(MPI_Irecv_c(found.data(), count, MPI_CL_MEM, 0, 1, mpi.comm, &request));
                    status = wait_request(request);
                } else {
                    MPI_OK(MPI_Mprobe(0, 1, mpi.comm, &message, &status));
                    MPI_Count payload = -1;
                    MPI_OK(MPI_Get_count_c(&status, MPI_CL_MEM, &payload));
                    CHECK(payload == count);
                    if (i == 2) {
                        MPI_OK(MPI_Mrecv_c(found.data(), count, MPI_CL_MEM, &message, &status));
                    } else {
                        MPI_OK(MPI_Imrecv_c(found.data(), count, MPI_CL_MEM, &message, &request));
                        status = wait_request(request);
                    }
                }
                expect_status(status, 0, 1, size);
                CHECK((found == data));
            }
        }
    }
#else
    skip_case("this MPI library has no large-count calls");
#endif
}
