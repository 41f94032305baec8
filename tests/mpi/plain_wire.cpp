/// A communicator with cldist_wire=plain: commands at one end, any other MPI call at the other.

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

/// An info object with the key cldist_wire, or without any key if `wire` is empty.
class hints {
public:
    explicit hints(const std::string &wire) {
        MPI_Info_create(&info);
        if (!wire.empty()) {
            MPI_Info_set(info, "cldist_wire", wire.c_str());
        }
    }
    hints(const hints &) = delete;
    hints &operator=(const hints &) = delete;
    ~hints() { MPI_Info_free(&info); }

    operator MPI_Info() const { return info; }  // NOLINT: handles are passed to C calls

private:
    MPI_Info info = MPI_INFO_NULL;
};

MPI_Comm plain_duplicate(MPI_Comm comm) {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup_with_info(comm, hints("plain"), &copy);
    return copy;
}

/// Waits for a request of an MPI call.
MPI_Status complete(MPI_Request &request, const std::string &what = "a plain message") {
    MPI_Status status;
    poll_until(what, [&] {
        int done = 0;
        MPI_Test(&request, &done, &status);
        return done != 0;
    });
    return status;
}

int count_of(const MPI_Status &status, MPI_Datatype type = MPI_BYTE) {
    int count = 0;
    MPI_Get_count(&status, type, &count);
    return count;
}

/// Whether messages on `comm` have no header: rank 0's command sends an empty message, and rank 1
/// checks with MPI_Irecv that it is empty. All ranks get the result.
bool is_plain(const mpi_view &mpi, const opencl &cl, MPI_Comm comm) {
    int plain = 0;
    if (mpi.rank == 0) {
        const queue_handle queue = cl.in_order_queue();
        expect_complete(send(queue, cl.filled(10, 1), 0, 0, 1, 1, comm));
    } else if (mpi.rank == 1) {
        bytes data(1000);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Irecv(data.data(), 1000, MPI_BYTE, 0, 1, comm, &request);
        plain = count_of(complete(request)) == 0 ? 1 : 0;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(&plain, 1, MPI_INT, 1, mpi.comm, &request);
    complete(request, "the answer");
    return plain != 0;
}

/// Host memory with a derived datatype, and the positions of the datatype's bytes.
struct scattered {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    std::size_t payload = 0;
    bytes host;
    std::vector<std::size_t> places;

    ~scattered() { MPI_Type_free(&type); }
    scattered() = default;
    scattered(const scattered &) = delete;
    scattered &operator=(const scattered &) = delete;
};

void make_vector(scattered &s, int groups) {
    MPI_Type_vector(groups, 2, 5, MPI_SHORT, &s.type);
    MPI_Type_commit(&s.type);
    for (std::size_t group = 0; group < static_cast<std::size_t>(groups); ++group) {
        for (std::size_t i = 0; i < 4; ++i) {
            s.places.push_back(10 * group + i);
        }
    }
    s.payload = s.places.size();
    s.host = pattern(77, 10 * static_cast<std::size_t>(groups));
}

void make_struct(scattered &s, int doubles) {
    // The fields are aligned, because MPICH 4.0 can't receive large messages into unaligned fields.
    const std::array<int, 3> lengths{4, 1, doubles};
    const std::array<MPI_Aint, 3> offsets{1, 8, 32};
    const std::array<MPI_Datatype, 3> types{MPI_CHAR, MPI_INT, MPI_DOUBLE};
    MPI_Type_create_struct(3, lengths.data(), offsets.data(), types.data(), &s.type);
    MPI_Type_commit(&s.type);
    const std::array<std::size_t, 3> sizes{4, 4, 8 * static_cast<std::size_t>(doubles)};
    for (std::size_t part = 0; part < 3; ++part) {
        for (std::size_t i = 0; i < sizes.at(part); ++i) {
            s.places.push_back(static_cast<std::size_t>(offsets.at(part)) + i);
        }
    }
    s.payload = s.places.size();
    s.host = pattern(77, 32 + 8 * static_cast<std::size_t>(doubles));
}

/// Sends a message from rank 0's device to rank 1's host memory, where it has the datatype of `s`,
/// and one back.
void derived_type_arrives(const mpi_view &mpi, const opencl &cl, MPI_Comm comm, scattered &s) {
    CAPTURE(s.payload);
    if (mpi.rank == 0) {
        const queue_handle queue = cl.in_order_queue();
        const buffer_handle buffer = cl.filled(s.payload, 1);
        expect_complete(send(queue, buffer, 0, s.payload, 1, 1, comm));
        expect_received(receive(queue, buffer, 0, s.payload, 1, 2, comm), s.payload, 1, 2);
        bytes expected;
        for (const std::size_t place : s.places) {
            expected.push_back(s.host[place]);
        }
        CHECK((cl.read(buffer, 0, s.payload) == expected));
    } else if (mpi.rank == 1) {
        bytes memory = s.host;
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Irecv(memory.data(), 1, s.type, 0, 1, comm, &request);
        CHECK(count_of(complete(request), s.type) == 1);
        bytes expected = s.host;
        const bytes payload = pattern(1, s.payload);
        for (std::size_t i = 0; i < s.payload; ++i) {
            expected[s.places[i]] = payload[i];
        }
        CHECK((memory == expected));
        MPI_Isend(s.host.data(), 1, s.type, 0, 2, comm, &request);
        complete(request);
    }
}

void need_huge() {
    if (const char *huge = std::getenv("CLDIST_TEST_HUGE");
        huge == nullptr || std::string(huge) != "1") {
        skip_case("takes much memory; set CLDIST_TEST_HUGE=1");
    }
}

}  // namespace

MPI_CASE("plain: MPI receives a device's message of any size, and a device receives one of MPI",
         2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    MPI_Comm comm = plain_duplicate(mpi.comm);
    std::size_t offset = 0;
    for (const std::size_t size : {0UL, 1UL, 63UL, 64UL, 65UL, 4096UL, 16 * KiB, 16 * KiB + 1,
                                   100000UL, 256 * KiB + 1, MiB, 5 * MiB + 3}) {
        CAPTURE(size);
        ++offset;
        if (mpi.rank == 0) {
            const buffer_handle outgoing = cl.buffer(offset + size + 16);
            cl.fill(outgoing, offset, size, size);
            expect_complete(send(queue, outgoing, offset, size, 1, 1, comm));
            const buffer_handle incoming = cl.filled(offset + size + 16, 7);
            expect_received(receive(queue, incoming, offset, size, 1, 2, comm), size, 1, 2);
            cl.expect(incoming, 0, offset, 7);
            cl.expect(incoming, offset, size, size + 1);
            cl.expect(incoming, offset + size, 16, 7, offset + size);
        } else if (mpi.rank == 1) {
            bytes data(size + 8);
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, 0, 1, comm, &request);
            REQUIRE(count_of(complete(request)) == static_cast<int>(size));
            data.resize(size);
            CHECK((data == pattern(size, size)));
            const bytes answer = pattern(size + 1, size);
            MPI_Isend(answer.data(), static_cast<int>(size), MPI_BYTE, 0, 2, comm, &request);
            complete(request);
        }
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: blocking commands work with blocking MPI calls, with and without an event", 2) {
    const opencl cl;
    MPI_Comm comm = plain_duplicate(mpi.comm);
    for (const std::size_t size : {0UL, 100UL, 100 * KiB, 3 * MiB}) {
        for (const bool with_event : {false, true}) {
            CAPTURE(size);
            CAPTURE(with_event);
            if (mpi.rank == 0) {
                const queue_handle queue = cl.in_order_queue();
                const buffer_handle buffer = cl.filled(size + 1, 3);
                event_handle event;
                CL_OK(clEnqueueSendBuffer(queue, buffer, CL_TRUE, 1, size, 1, 1, comm, 0, nullptr,
                                          with_event ? event.out() : nullptr));
                CL_OK(clEnqueueRecvBuffer(queue, buffer, CL_TRUE, 1, size, 1, 2, comm, 0, nullptr,
                                          with_event ? event.out() : nullptr));
                cl.expect(buffer, 0, 1, 3);
                cl.expect(buffer, 1, size, 4);
                if (with_event) {
                    CHECK(status_of(event) == CL_COMPLETE);
                    CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == size);
                }
            } else if (mpi.rank == 1) {
                bytes data(size);
                MPI_Recv(data.data(), static_cast<int>(size), MPI_BYTE, 0, 1, comm,
                         MPI_STATUS_IGNORE);
                bytes expected = pattern(3, size + 1);
                expected.erase(expected.begin());
                CHECK((data == expected));
                data = pattern(4, size);
                MPI_Send(data.data(), static_cast<int>(size), MPI_BYTE, 0, 2, comm);
            }
        }
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: the other end may use derived datatypes of equal size", 2) {
    const opencl cl;
    MPI_Comm comm = plain_duplicate(mpi.comm);
    for (const int count : {3, 5000, 300000}) {
        scattered vector;
        make_vector(vector, count);
        derived_type_arrives(mpi, cl, comm, vector);
        scattered structure;
        make_struct(structure, count);
        derived_type_arrives(mpi, cl, comm, structure);
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: an MPI_Irecv posted before the command starts gets its message", 2) {
    const opencl cl;
    MPI_Comm comm = plain_duplicate(mpi.comm);
    for (const std::size_t size : {100UL, 2 * MiB}) {
        CAPTURE(size);
        if (mpi.rank == 0) {
            await(mpi, 1);
            const queue_handle queue = cl.in_order_queue();
            expect_complete(send(queue, cl.filled(size, 5), 0, size, 1, 1, comm));
        } else if (mpi.rank == 1) {
            bytes data(size);
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Irecv(data.data(), static_cast<int>(size), MPI_BYTE, 0, 1, comm, &request);
            tell(mpi, 0);
            complete(request);
            CHECK((data == pattern(5, size)));
        }
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: a probe at the other end reports the bytes of a device's message", 2) {
    const opencl cl;
    MPI_Comm comm = plain_duplicate(mpi.comm);
    for (const std::size_t size : {0UL, 1000UL, 3 * MiB}) {
        CAPTURE(size);
        if (mpi.rank == 0) {
            const queue_handle queue = cl.in_order_queue();
            expect_complete(send(queue, cl.filled(size, 5), 0, size, 1, 9, comm));
        } else if (mpi.rank == 1) {
            MPI_Status status;
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
            CHECK(status.MPI_SOURCE == 0);
            CHECK(status.MPI_TAG == 9);
            REQUIRE(count_of(status) == static_cast<int>(size));
            bytes data(size);
            MPI_Recv(data.data(), static_cast<int>(size), MPI_BYTE, 0, 9, comm, &status);
            CHECK((data == pattern(5, size)));
        }
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: a message longer than its receive fails it, and the next message arrives", 2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    MPI_Comm comm = plain_duplicate(mpi.comm);
    for (const auto &[longer, fits] :
         {std::pair{100UL, 10UL}, {1UL, 0UL}, {5 * MiB, 5 * MiB - 1}, {5 * MiB, 20UL}}) {
        const std::size_t sent = longer;  // clang can't capture structured bindings
        const std::size_t room = fits;
        CAPTURE(sent);
        CAPTURE(room);
        if (mpi.rank == 0) {
            const bytes data = pattern(1, sent);
            std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
            MPI_Isend(data.data(), static_cast<int>(sent), MPI_BYTE, 1, 1, comm, &requests[0]);
            MPI_Isend(data.data(), static_cast<int>(room), MPI_BYTE, 1, 1, comm, &requests[1]);
            complete(requests[0]);
            complete(requests[1]);
        } else if (mpi.rank == 1) {
            const buffer_handle buffer = cl.filled(room + 64, 3);
            const buffer_handle second = cl.filled(room + 64, 4);
            const event_handle truncated = receive(queue, buffer, 0, room, 0, 1, comm);
            const event_handle fitting = receive(queue, second, 0, room, 0, 1, comm);
            expect_failure(truncated, CL_MESSAGE_TRUNCATED);
            CHECK(transfer_info<int>(truncated, CL_TRANSFER_SOURCE) == 0);
            CHECK(transfer_info<int>(truncated, CL_TRANSFER_TAG) == 1);
            cl.expect(buffer, 0, room + 64, 3);
            expect_received(fitting, room, 0, 1);
            cl.expect(second, 0, room, 1);
            cl.expect(second, room, 64, 4, room);
        }
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: a shorter message leaves the rest of the buffer unchanged", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    MPI_Comm comm = plain_duplicate(mpi.comm);
    const std::size_t room = 4 * MiB;
    for (const std::size_t size : {0UL, 1UL, 1000UL, 100 * KiB, 3 * MiB}) {
        CAPTURE(size);
        if (mpi.rank == 0) {
            const bytes data = pattern(1, size);
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Isend(data.data(), static_cast<int>(size), MPI_BYTE, 1, 1, comm, &request);
            complete(request);
        } else if (mpi.rank == 1) {
            const buffer_handle buffer = cl.filled(room, 2);
            expect_received(receive(queue, buffer, 0, room, 0, 1, comm), size, 0, 1);
            cl.expect(buffer, 0, size, 1);
            cl.expect(buffer, size, room - size, 2, size);
        }
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: many messages of differing sizes keep their order, either way", 2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    MPI_Comm comm = plain_duplicate(mpi.comm);
    constexpr std::size_t count = 60;
    constexpr std::size_t slot = 200 * KiB;
    const auto size_of = [](std::size_t i) {
        return i % 4 == 0 ? slot - i : i % 4 == 1 ? 20 * KiB + i : 10 + i;
    };
    if (mpi.rank == 0) {
        const buffer_handle outgoing = cl.filled(count * slot, 1);
        const buffer_handle incoming = cl.filled(count * slot, 2);
        std::vector<event_handle> events;
        for (std::size_t i = 0; i < count; ++i) {
            events.push_back(receive(queue, incoming, i * slot, slot, MPI_ANY_SOURCE, 2, comm));
        }
        for (std::size_t i = 0; i < count; ++i) {
            events.push_back(send(queue, outgoing, i * slot, size_of(i), 1, 1, comm));
        }
        for (std::size_t i = 0; i < count; ++i) {
            CAPTURE(i);
            expect_received(events[i], size_of(i), 1, 2);
            cl.expect(incoming, i * slot, size_of(i), 100 + i);
            expect_complete(events[count + i]);
        }
    } else if (mpi.rank == 1) {
        const bytes all = pattern(1, count * slot);
        for (std::size_t i = 0; i < count; ++i) {
            CAPTURE(i);
            bytes data(slot);
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Irecv(data.data(), static_cast<int>(slot), MPI_BYTE, 0, 1, comm, &request);
            REQUIRE(count_of(complete(request)) == static_cast<int>(size_of(i)));
            const auto from = all.begin() + static_cast<std::ptrdiff_t>(i * slot);
            CHECK(std::equal(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(size_of(i)),
                             from));
        }
        for (std::size_t i = 0; i < count; ++i) {
            const bytes data = pattern(100 + i, size_of(i));
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, 0, 2, comm, &request);
            complete(request);
        }
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: a send-receive exchanges messages with an MPI_Sendrecv", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    MPI_Comm comm = plain_duplicate(mpi.comm);
    for (const std::size_t size : {50UL, 3 * MiB}) {
        CAPTURE(size);
        if (mpi.rank == 0) {
            const buffer_handle buffer = cl.filled(2 * size, 1);
            event_handle event;
            CL_OK(clEnqueueSendrecvBuffer(queue, buffer, CL_FALSE, 0, size, 1, 1, buffer, size,
                                          size, 1, 2, comm, 0, nullptr, event.out()));
            expect_received(event, size, 1, 2);
            cl.expect(buffer, 0, size, 1);
            cl.expect(buffer, size, size, 2);
        } else if (mpi.rank == 1) {
            const bytes outgoing = pattern(2, size);
            bytes incoming(size);
            MPI_Sendrecv(outgoing.data(), static_cast<int>(size), MPI_BYTE, 0, 2, incoming.data(),
                         static_cast<int>(size), MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE);
            CHECK((incoming == pattern(1, size)));
        }
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: commands at both ends exchange messages of any size", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    MPI_Comm comm = plain_duplicate(mpi.comm);
    for (const std::size_t size : {0UL, 10UL, 64UL, 100 * KiB, 5 * MiB + 1}) {
        CAPTURE(size);
        const buffer_handle buffer = cl.filled(size, static_cast<std::uint64_t>(mpi.rank));
        if (mpi.rank == 0) {
            expect_complete(send(queue, buffer, 0, size, 1, 1, comm));
            expect_complete(send(queue, buffer, 0, size, MPI_PROC_NULL, 1, comm));
        } else if (mpi.rank == 1) {
            const event_handle received =
                receive(queue, buffer, 0, size, MPI_ANY_SOURCE, MPI_ANY_TAG, comm);
            expect_received(received, size, 0, 1);
            cl.expect(buffer, 0, size, 0);
            const event_handle nothing = receive(queue, buffer, 0, size, MPI_PROC_NULL, 1, comm);
            expect_complete(nothing);
            CHECK(transfer_info<std::size_t>(nothing, CL_TRANSFER_BYTES) == 0);
            cl.expect(buffer, 0, size, 0);
        }
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: a transfer reports its path, one block, and the times of its stages", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    MPI_Comm comm = plain_duplicate(mpi.comm);
    const std::size_t size = 2 * MiB;
    if (mpi.rank < 2) {
        const buffer_handle buffer = cl.filled(size, static_cast<std::uint64_t>(mpi.rank));
        const event_handle event = mpi.rank == 0 ? send(queue, buffer, 0, size, 1, 1, comm)
                                                 : receive(queue, buffer, 0, size, 0, 1, comm);
        expect_complete(event);
        CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == size);
        const std::string path = transfer_text(event, CL_TRANSFER_PATH);
        CHECK((path == "mapped" || path == "staged"));
        CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BLOCK_SIZE) == size);
        CHECK(transfer_info<cl_uint>(event, CL_TRANSFER_DEPTH) == 1);
        const auto stages = transfer_stages(event);
        const auto has = [&](cl_uint stage) {
            return std::any_of(stages.begin(), stages.end(),
                               [&](const auto &s) { return s.stage == stage; });
        };
        CHECK(has(CL_STAGE_MESSAGE));
        CHECK(has(CL_STAGE_MATCH) == (mpi.rank == 1));
        // By default the program's queue copies the data before or after the transfer. With a
        // forced block path, the transfer has a device stage, and on path staged until the library
        // has page-locked memory for the queue's copies.
        const char *const forced = std::getenv("CLDIST_PATH");
        const std::string path_wanted = forced != nullptr ? forced : "";
        const bool in_blocks =
            path_wanted == "chunked" || path_wanted == "shared" || path_wanted == "peer-to-peer";
        if (in_blocks || path == "mapped") CHECK(has(CL_STAGE_DEVICE) == in_blocks);
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: a send whose wait list fails sends nothing, and the next one arrives", 2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    MPI_Comm comm = plain_duplicate(mpi.comm);
    if (mpi.rank == 0) {
        const buffer_handle buffer = cl.filled(2000, 1);
        const event_handle gate = cl.user_event();
        const event_handle failed = send(queue, buffer, 0, 1000, 1, 1, comm, {gate});
        CL_OK(clSetUserEventStatus(gate, -77));
        expect_failure(failed, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        const queue_handle other = cl.in_order_queue();
        expect_complete(send(other, buffer, 0, 2000, 1, 1, comm));
    } else if (mpi.rank == 1) {
        bytes data(3000);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Irecv(data.data(), 3000, MPI_BYTE, 0, 1, comm, &request);
        CHECK(count_of(complete(request)) == 2000);
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: a receive whose wait list fails drops its message", 2) {
    const opencl cl;
    MPI_Comm comm = plain_duplicate(mpi.comm);
    for (const std::size_t size : {500UL, 2 * MiB}) {
        CAPTURE(size);
        if (mpi.rank == 0) {
            for (const std::uint64_t seed : {1U, 2U}) {
                const bytes data = pattern(seed, size);
                MPI_Request request = MPI_REQUEST_NULL;
                MPI_Isend(data.data(), static_cast<int>(size), MPI_BYTE, 1, 1, comm, &request);
                complete(request);
            }
        } else if (mpi.rank == 1) {
            const queue_handle queue = cl.in_order_queue();
            const queue_handle other = cl.in_order_queue();
            const buffer_handle dropped = cl.filled(size, 3);
            const buffer_handle buffer = cl.filled(size, 3);
            const event_handle gate = cl.user_event();
            const event_handle failed = receive(queue, dropped, 0, size, 0, 1, comm, {gate});
            CL_OK(clSetUserEventStatus(gate, -77));
            poll_until("the receive to start or to end",
                       [&] { return transfer_status(failed) <= CL_RUNNING; });
            expect_received(receive(other, buffer, 0, size, 0, 1, comm), size, 0, 1);
            expect_failure(failed, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            cl.expect(buffer, 0, size, 2);
            cl.expect(dropped, 0, size, 3);
        }
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: an inter-communicator accepts the key", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const int side = mpi.rank == 0 ? 0 : 1;
    MPI_Comm local = MPI_COMM_NULL;
    MPI_Comm inter = MPI_COMM_NULL;
    MPI_Comm_split(mpi.comm, side, mpi.rank, &local);
    MPI_Intercomm_create(local, 0, mpi.comm, side == 0 ? 1 : 0, 11, &inter);
    MPI_Comm_set_info(inter, hints("plain"));
    constexpr std::size_t size = 200000;
    if (mpi.rank == 0) {
        const buffer_handle buffer = cl.filled(size, 1);
        expect_complete(send(queue, buffer, 0, size, 0, 1, inter));
        expect_received(receive(queue, buffer, 0, size, MPI_ANY_SOURCE, 2, inter), size, 0, 2);
        cl.expect(buffer, 0, size, 2);
    } else if (mpi.rank == 1) {
        bytes data(size);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Irecv(data.data(), static_cast<int>(size), MPI_BYTE, 0, 1, inter, &request);
        CHECK(count_of(complete(request)) == static_cast<int>(size));
        CHECK((data == pattern(1, size)));
        const bytes answer = pattern(2, size);
        MPI_Isend(answer.data(), static_cast<int>(size), MPI_BYTE, 0, 2, inter, &request);
        complete(request);
    }
    MPI_Comm_free(&inter);
    MPI_Comm_free(&local);
}

MPI_CASE("a communicator is plain only if its key says so, and the key may change at any time", 2) {
    const opencl cl;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(mpi.comm, &comm);
    CHECK_FALSE(is_plain(mpi, cl, comm));
    MPI_Comm_set_info(comm, hints(""));
    CHECK_FALSE(is_plain(mpi, cl, comm));
    MPI_Comm_set_info(comm, hints("plain"));
    CHECK(is_plain(mpi, cl, comm));
    MPI_Comm_set_info(comm, hints(""));  // an info object without the key changes nothing
    CHECK(is_plain(mpi, cl, comm));
    MPI_Comm_set_info(comm, hints("planar"));  // an invalid value changes nothing
    CHECK(is_plain(mpi, cl, comm));
    CHECK_FALSE(is_plain(mpi, cl, mpi.comm));
    MPI_Comm_set_info(comm, hints("cldist"));
    CHECK_FALSE(is_plain(mpi, cl, comm));
    MPI_Comm_free(&comm);
}

MPI_CASE("a receive enqueued before the key changed keeps the message format of that time", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    MPI_Comm comm = plain_duplicate(mpi.comm);
    const buffer_handle buffer = cl.filled(1000, static_cast<std::uint64_t>(mpi.rank));
    event_handle received;
    if (mpi.rank == 1) {
        received = receive(queue, buffer, 0, 1000, 0, 1, comm);
    }
    MPI_Comm_set_info(comm, hints("cldist"));
    if (mpi.rank == 0) {
        const bytes data = pattern(8, 1000);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Isend(data.data(), 1000, MPI_BYTE, 1, 1, comm, &request);
        complete(request);
    } else if (mpi.rank == 1) {
        expect_received(received, 1000, 0, 1);
        cl.expect(buffer, 0, 1000, 8);
    }
    MPI_Comm_free(&comm);
}

MPI_CASE("duplicates inherit plain mode from the original, or take it from their own hints", 2) {
    const opencl cl;
    MPI_Comm plain = plain_duplicate(mpi.comm);
    MPI_Comm copy = MPI_COMM_NULL;

    MPI_Comm_dup(plain, &copy);
    CHECK(is_plain(mpi, cl, copy));
    MPI_Comm_free(&copy);

    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_idup(plain, &copy, &request);
    complete(request, "the duplicate");
    CHECK(is_plain(mpi, cl, copy));
    MPI_Comm_free(&copy);

    MPI_Comm_dup_with_info(plain, hints(""), &copy);
    CHECK_FALSE(is_plain(mpi, cl, copy));
    MPI_Comm_free(&copy);

    MPI_Comm_dup_with_info(plain, hints("cldist"), &copy);
    CHECK_FALSE(is_plain(mpi, cl, copy));
    MPI_Comm_free(&copy);

    MPI_Comm_split(plain, 0, mpi.rank, &copy);
    CHECK_FALSE(is_plain(mpi, cl, copy));
    MPI_Comm_free(&copy);

#if MPI_VERSION >= 4
    MPI_Comm_idup_with_info(mpi.comm, hints("plain"), &copy, &request);
    complete(request, "the duplicate");
    CHECK(is_plain(mpi, cl, copy));
    MPI_Comm_free(&copy);

    MPI_Comm_idup_with_info(plain, hints(""), &copy, &request);
    complete(request, "the duplicate");
    CHECK_FALSE(is_plain(mpi, cl, copy));
    MPI_Comm_free(&copy);
#endif

    CHECK(is_plain(mpi, cl, plain));
    CHECK_FALSE(is_plain(mpi, cl, mpi.comm));
    MPI_Comm_free(&plain);
}

MPI_CASE("if cldist could not see the call, a key that MPI itself stores is used", 2) {
    const opencl cl;
    MPI_Comm comm = MPI_COMM_NULL;
    // Calls through dlsym, because the library also intercepts direct calls of PMPI functions.
    const auto duplicate = reinterpret_cast<decltype(&PMPI_Comm_dup_with_info)>(
        dlsym(RTLD_DEFAULT, "PMPI_Comm_dup_with_info"));
    REQUIRE((duplicate != nullptr));
    MPI_OK(duplicate(mpi.comm, hints("plain"), &comm));
    MPI_Info kept = MPI_INFO_NULL;
    MPI_Comm_get_info(comm, &kept);
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int found = 0;
    MPI_Info_get(kept, "cldist_wire", MPI_MAX_INFO_VAL, value, &found);
    MPI_Info_free(&kept);
    CHECK(is_plain(mpi, cl, comm) == (found != 0));
    MPI_Comm_free(&comm);
}

MPI_CASE("plain: for MPI_CL_MEM, a message that MPI_Mprobe found is plain bytes, whoever sent it",
         2) {
    const opencl cl;
    MPI_Comm comm = plain_duplicate(mpi.comm);
    const queue_handle queue = cl.in_order_queue();
    for (const std::size_t size : {std::size_t{4}, std::size_t{64}, std::size_t{776}, MiB}) {
        const int length = static_cast<int>(size);
        std::vector<std::byte> sent(size, std::byte{7});
        const buffer_handle buffer = cl.buffer(size);
        cl.fill(buffer, 0, size, size);
        for (const bool by_command : {false, true}) {
            // Received with MPI_Mrecv, with MPI_Imrecv, and with MPI_BYTE instead of MPI_CL_MEM.
            for (const int how : {0, 1, 2}) {
                CAPTURE(size);
                CAPTURE(by_command);
                CAPTURE(how);
                if (mpi.rank == 0) {
                    if (by_command) {
                        expect_complete(send(queue, buffer, 0, size, 1, 5, comm));
                    } else {
                        MPI_Request request = MPI_REQUEST_NULL;
                        MPI_OK(MPI_Isend(sent.data(), length, MPI_CL_MEM, 1, 5, comm, &request));
                        complete(request, "the send");
                    }
                } else if (mpi.rank == 1) {
                    MPI_Message message = MPI_MESSAGE_NULL;
                    MPI_Status status{};
                    poll_until("the message", [&] {
                        int found = 0;
                        MPI_OK(MPI_Improbe(0, 5, comm, &found, &message, &status));
                        return found != 0;
                    });
                    CHECK(count_of(status, MPI_CL_MEM) == length);
                    std::vector<std::byte> got(size + 1);
                    if (how == 1) {
                        MPI_Request request = MPI_REQUEST_NULL;
                        MPI_OK(MPI_Imrecv(got.data(), length + 1, MPI_CL_MEM, &message, &request));
                        status = complete(request, "the receive");
                    } else {
                        const MPI_Datatype type = how == 0 ? MPI_CL_MEM : MPI_BYTE;
                        MPI_OK(MPI_Mrecv(got.data(), length + 1, type, &message, &status));
                    }
                    CHECK(message == MPI_MESSAGE_NULL);
                    CHECK(count_of(status, MPI_CL_MEM) == length);
                    CHECK(status.MPI_SOURCE == 0);
                    CHECK(status.MPI_TAG == 5);
                    got.pop_back();
                    if (by_command) {
                        CL_OK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, size, sent.data(), 0,
                                                  nullptr, nullptr));
                    } else {
                        sent.assign(size, std::byte{7});
                    }
                    CHECK(got == sent);
                }
            }
        }
    }
    MPI_Comm_free(&comm);
}

MPI_CASE(
    "plain: a message of more bytes than an int can count is one MPI message, in both directions",
    2) {
    need_huge();
    const opencl cl;
    constexpr std::size_t size = std::size_t{2} << 30;  // many devices allow no larger buffer
    constexpr std::size_t step = 64 * MiB;
    need_memory(cl, size);
    const std::chrono::seconds limit(50);
    MPI_Comm comm = plain_duplicate(mpi.comm);
    if (mpi.rank == 0) {
        const queue_handle queue = cl.in_order_queue();
        const buffer_handle buffer = cl.buffer(size);
        for (std::size_t at = 0; at < size; at += step) {
            cl.fill(buffer, at, std::min(step, size - at), at);
        }
        expect_complete(send(queue, buffer, 0, size, 1, 1, comm), limit);
        const buffer_handle back = cl.buffer(size);
        const event_handle received = receive(queue, back, 0, size, 1, 2, comm);
        expect_complete(received, limit);
        CHECK(transfer_info<std::size_t>(received, CL_TRANSFER_BYTES) == size);
        for (std::size_t at = 0; at < size; at += step) {
            cl.expect(back, at, std::min(step, size - at), at);
        }
    } else if (mpi.rank == 1) {
        const std::array<int, 2> lengths{(1 << 30) + 5, (1 << 30) - 5};
        const std::array<MPI_Aint, 2> offsets{0, (1 << 30) + 5};
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_Type_create_hindexed(2, lengths.data(), offsets.data(), MPI_BYTE, &type);
        MPI_Type_commit(&type);
        bytes data(size);
        MPI_Recv(data.data(), 1, type, 0, 1, comm, MPI_STATUS_IGNORE);
        for (std::size_t at = 0; at < size; at += step) {
            const bytes expected = pattern(at, std::min(step, size - at));
            CHECK(std::equal(expected.begin(), expected.end(),
                             data.begin() + static_cast<std::ptrdiff_t>(at)));
        }
        MPI_Send(data.data(), 1, type, 0, 2, comm);
        MPI_Type_free(&type);
    }
    MPI_Comm_free(&comm);
}
