/// MPI's order of messages when receives with and without wildcards compete (MPI standard, section
/// 3.5). The receiver polls while the messages arrive, and each round has a different timing.

#include <array>
#include <barrier>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

constexpr int rounds = 400;  // a wrong order shows within about 20 rounds
constexpr std::size_t message_size = 8;

/// A communicator in plain mode, whose messages have no header.
class plain_communicator {
public:
    explicit plain_communicator(MPI_Comm original) {
        MPI_Info info = MPI_INFO_NULL;
        MPI_Info_create(&info);
        MPI_Info_set(info, "cldist_wire", "plain");
        MPI_OK(MPI_Comm_dup_with_info(original, info, &comm));
        MPI_Info_free(&info);
    }
    ~plain_communicator() { MPI_Comm_free(&comm); }
    plain_communicator(const plain_communicator &) = delete;
    plain_communicator &operator=(const plain_communicator &) = delete;
    operator MPI_Comm() const { return comm; }

private:
    MPI_Comm comm = MPI_COMM_NULL;
};

/// Delays the sends by a time that differs between rounds.
void spin(int round) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(round % 200);
    while (std::chrono::steady_clock::now() < until) continue;
}

void send_both(MPI_Comm comm, MPI_Datatype datatype, int dest) {
    const std::array<char, message_size> data{};
    MPI_OK(MPI_Send(data.data(), message_size, datatype, dest, 0, comm));
    MPI_OK(MPI_Send(data.data(), message_size, datatype, dest, 1, comm));
}

/// In each round, rank 0 sends messages with tags 0 and 1 after rank 1's `receive_both` has called
/// `ready`. `receive_both` posts the broader receive first and checks that it gets tag 0.
void compete(
    const mpi_view &mpi, MPI_Comm comm, MPI_Datatype datatype,
    const std::function<void(int round, const std::function<void()> &ready)> &receive_both) {
    for (int round = 0; round < rounds; ++round) {
        CAPTURE(round);
        if (mpi.rank == 1) {
            receive_both(round, [&] { tell(mpi, 0); });
        } else if (mpi.rank == 0) {
            await(mpi, 1);
            spin(round);
            int inter = 0;
            MPI_OK(MPI_Comm_test_inter(comm, &inter));
            // Rank 1 of the job is the first rank of the remote group.
            send_both(comm, datatype, inter != 0 ? 0 : 1);
        }
    }
}

void requests_compete(const mpi_view &mpi, MPI_Comm comm, int broad_source) {
    compete(mpi, comm, MPI_CL_MEM, [&](int /*round*/, const auto &ready) {
        std::array<char, message_size> data{};
        std::array<MPI_Request, 2> requests{};
        std::array<MPI_Status, 2> statuses{};
        MPI_OK(MPI_Irecv(data.data(), message_size, MPI_CL_MEM, broad_source, MPI_ANY_TAG, comm,
                         requests.data()));
        MPI_OK(MPI_Irecv(data.data(), message_size, MPI_CL_MEM, 0, 1, comm, &requests[1]));
        ready();
        MPI_OK(MPI_Waitall(2, requests.data(), statuses.data()));
        REQUIRE(statuses[0].MPI_TAG == 0);
        REQUIRE(statuses[1].MPI_TAG == 1);
    });
}

void commands_compete(const mpi_view &mpi, MPI_Comm comm, MPI_Datatype datatype,
                      bool second_blocks) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const queue_handle other = cl.in_order_queue();
    const buffer_handle buffer = cl.buffer(message_size);
    const buffer_handle other_buffer = cl.buffer(message_size);
    compete(mpi, comm, datatype, [&](int /*round*/, const auto &ready) {
        const event_handle broad = receive(queue, buffer, 0, message_size, 0, MPI_ANY_TAG, comm);
        await_start(broad);
        if (second_blocks) {
            ready();
            CL_OK(clEnqueueRecvBuffer(other, other_buffer, CL_TRUE, 0, message_size, 0, 1, comm, 0,
                                      nullptr, nullptr));
        } else {
            const event_handle narrow = receive(other, other_buffer, 0, message_size, 0, 1, comm);
            await_start(narrow);
            ready();
            expect_complete(narrow);
        }
        expect_complete(broad);
        REQUIRE(transfer_info<int>(broad, CL_TRANSFER_TAG) == 0);
    });
}

}  // namespace

MPI_CASE("a receive of any tag that was posted first gets the first message", 2) {
    requests_compete(mpi, mpi.comm, 0);
    requests_compete(mpi, mpi.comm, MPI_ANY_SOURCE);
}

MPI_CASE(
    "on an inter-communicator, a receive of any tag that was posted first gets the first message",
    2) {
    MPI_Comm group = MPI_COMM_NULL;
    MPI_Comm inter = MPI_COMM_NULL;
    MPI_OK(MPI_Comm_split(mpi.comm, mpi.rank == 0 ? 0 : 1, mpi.rank, &group));
    MPI_OK(MPI_Intercomm_create(group, 0, mpi.comm, mpi.rank == 0 ? 1 : 0, 9, &inter));
    requests_compete(mpi, inter, 0);
    requests_compete(mpi, inter, MPI_ANY_SOURCE);
    commands_compete(mpi, inter, MPI_CL_MEM, true);
    MPI_OK(MPI_Comm_free(&inter));
    MPI_OK(MPI_Comm_free(&group));
}

MPI_CASE("a command that receives any tag and started first gets the first message", 2) {
    commands_compete(mpi, mpi.comm, MPI_CL_MEM, false);
}

MPI_CASE("a blocking command does not get the message of a broader command that started earlier",
         2) {
    commands_compete(mpi, mpi.comm, MPI_CL_MEM, true);
}

MPI_CASE("plain: a command that receives any tag and started first gets the first message", 2) {
    const plain_communicator plain(mpi.comm);
    commands_compete(mpi, plain, MPI_BYTE, false);
    commands_compete(mpi, plain, MPI_BYTE, true);
}

MPI_CASE(
    "a blocking MPI_Recv does not get the message of a broader receive that was posted earlier",
    2) {
    compete(mpi, mpi.comm, MPI_CL_MEM, [&](int /*round*/, const auto &ready) {
        std::array<char, message_size> data{};
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Status status;
        MPI_OK(
            MPI_Irecv(data.data(), message_size, MPI_CL_MEM, 0, MPI_ANY_TAG, mpi.comm, &request));
        ready();
        MPI_OK(MPI_Recv(data.data(), message_size, MPI_CL_MEM, 0, 1, mpi.comm, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Wait(&request, &status));
        REQUIRE(status.MPI_TAG == 0);
    });
}

MPI_CASE("a probe does not find a message that belongs to a broader receive posted earlier", 2) {
    compete(mpi, mpi.comm, MPI_CL_MEM, [&](int round, const auto &ready) {
        std::array<char, message_size> data{};
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Status status;
        MPI_OK(
            MPI_Irecv(data.data(), message_size, MPI_CL_MEM, 0, MPI_ANY_TAG, mpi.comm, &request));
        ready();
        if (round % 2 == 0) {
            MPI_OK(MPI_Probe(0, 1, mpi.comm, &status));
            MPI_OK(MPI_Recv(data.data(), message_size, MPI_CL_MEM, 0, 1, mpi.comm, &status));
        } else {
            MPI_Message message = MPI_MESSAGE_NULL;
            MPI_OK(MPI_Mprobe(MPI_ANY_SOURCE, 1, mpi.comm, &message, &status));
            MPI_OK(MPI_Mrecv(data.data(), message_size, MPI_CL_MEM, &message, &status));
        }
        CHECK(status.MPI_TAG == 1);
        MPI_OK(MPI_Wait(&request, &status));
        REQUIRE(status.MPI_TAG == 0);
    });
}

MPI_CASE(
    "receives that several threads post as the first use of a communicator precede a later one",
    1) {
    constexpr int threads = 4;
    for (int round = 0; round < 100; ++round) {
        CAPTURE(round);
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
        std::array<std::array<char, message_size>, threads + 1> data{};
        std::array<MPI_Request, threads + 1> requests{};
        std::array<MPI_Status, threads + 1> statuses{};
        {
            std::barrier start(threads);
            std::vector<std::jthread> posters;
            for (int t = 0; t < threads; ++t) {
                posters.emplace_back([&, t, at = static_cast<std::size_t>(t)] {
                    start.arrive_and_wait();
                    MPI_Irecv(data.at(at).data(), message_size, MPI_CL_MEM, 0, t, comm,
                              &requests.at(at));
                });
            }
        }
        MPI_OK(MPI_Irecv(data.back().data(), message_size, MPI_CL_MEM, 0, MPI_ANY_TAG, comm,
                         &requests.back()));
        for (int tag = 0; tag <= threads; ++tag) {
            MPI_OK(MPI_Send(data.front().data(), message_size, MPI_CL_MEM, 0, tag, comm));
        }
        MPI_OK(MPI_Waitall(threads + 1, requests.data(), statuses.data()));
        for (int t = 0; t <= threads; ++t) {
            REQUIRE(statuses.at(static_cast<std::size_t>(t)).MPI_TAG == t);
        }
        MPI_OK(MPI_Comm_free(&comm));
    }
}

MPI_CASE("messages of different sizes and tags reach receives of any tag in the order of the calls",
         2) {
    if (mpi.rank > 1) return;
    constexpr std::size_t large = 1 << 20;
    constexpr int messages = 4;
    const opencl cl;
    const buffer_handle buffer = cl.buffer(messages * large);
    for (const queue_set &set : cl.independent_queues(1)) {
        for (int round = 0; round < 20; ++round) {
            CAPTURE(round);
            std::vector<event_handle> events;
            for (int i = 0; i < messages; ++i) {
                const std::size_t offset = static_cast<std::size_t>(i) * large;
                const std::size_t bytes = (i + round) % 2 == 0 ? large : 64;
                events.push_back(mpi.rank == 0 ? send(set[0], buffer, offset, bytes, 1, i, mpi.comm)
                                               : receive(set[0], buffer, offset, large, 0,
                                                         MPI_ANY_TAG, mpi.comm));
            }
            CL_OK(clFlush(set[0]));
            for (int i = 0; i < messages; ++i) {
                const cl_event event = events.at(static_cast<std::size_t>(i));
                CL_OK(clWaitForEvents(1, &event));
                CHECK(transfer_info<int>(event, CL_TRANSFER_TAG) == i);
            }
        }
    }
}
