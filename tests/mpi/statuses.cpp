/// Statuses of receives with MPI_CL_MEM and of probes, queried in every order. The messages look
/// alike: same source, same tag, same number of bytes.

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

constexpr int header = 64;  // bytes; the header of a large message has this size on the wire
constexpr int large = 300000;

int count_by_get_count(const MPI_Status &status, MPI_Datatype datatype) {
    int count = -1;
    MPI_OK(MPI_Get_count(&status, datatype, &count));
    return count;
}

void expect_payload(const MPI_Status &status, int payload) {
    CHECK(count_by_get_count(status, MPI_CL_MEM) == payload);
    int elements = -1;
    MPI_OK(MPI_Get_elements(&status, MPI_CL_MEM, &elements));
    CHECK(elements == payload);
    MPI_Count many = -1;
    MPI_OK(MPI_Get_elements_x(&status, MPI_CL_MEM, &many));
    CHECK(many == payload);
#ifdef CLDIST_MPI_LARGE_COUNTS
    MPI_OK(MPI_Get_count_c(&status, MPI_CL_MEM, &many));
    CHECK(many == payload);
    MPI_OK(MPI_Get_elements_c(&status, MPI_CL_MEM, &many));
    CHECK(many == payload);
#endif
}

/// Checks the counts in datatypes other than MPI_CL_MEM, for which the message contains `bytes`.
void expect_bytes(const MPI_Status &status, int bytes) {
    CHECK(count_by_get_count(status, MPI_BYTE) == bytes);
    CHECK(count_by_get_count(status, MPI_INT) == (bytes % 4 == 0 ? bytes / 4 : MPI_UNDEFINED));
    int elements = -1;
    MPI_OK(MPI_Get_elements(&status, MPI_BYTE, &elements));
    CHECK(elements == bytes);
    MPI_Count many = -1;
    MPI_OK(MPI_Get_elements_x(&status, MPI_BYTE, &many));
    CHECK(many == bytes);
#ifdef CLDIST_MPI_LARGE_COUNTS
    MPI_OK(MPI_Get_count_c(&status, MPI_BYTE, &many));
    CHECK(many == bytes);
    MPI_OK(MPI_Get_elements_c(&status, MPI_BYTE, &many));
    CHECK(many == bytes);
#endif
    // MPI's Fortran calls bypass the library.
    std::array<MPI_Fint, sizeof(MPI_Status) / sizeof(MPI_Fint) + 1> in_fortran{};
    MPI_OK(MPI_Status_c2f(&status, in_fortran.data()));
    MPI_Status back{};
    MPI_OK(MPI_Status_f2c(in_fortran.data(), &back));
    MPI_OK(PMPI_Get_elements(&back, MPI_BYTE, &elements));
    CHECK(elements == bytes);
    int cancelled = -1;
    MPI_OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled == 0);
}

void expect_received(const MPI_Status &status, int payload) {
    expect_payload(status, payload);
    expect_bytes(status, payload);
}

void expect_probed(const MPI_Status &status, int payload) {
    expect_payload(status, payload);
    const int bytes = count_by_get_count(status, MPI_BYTE);
    const bool right = bytes == header || bytes == header + payload;
    CHECK(right);
    expect_bytes(status, bytes);
}

MPI_Status probe(int i, int source, int tag, MPI_Comm comm) {
    MPI_Status status{};
    if (i % 2 == 0) {
        MPI_OK(MPI_Probe(source, tag, comm, &status));
    } else {
        poll_until("a message to arrive", [&] {
            int flag = 0;
            MPI_OK(MPI_Iprobe(source, tag, comm, &flag, &status));
            return flag != 0;
        });
    }
    return status;
}

MPI_Status end(int i, MPI_Request &request) {
    MPI_Status status{};
    if (i % 2 == 0) {
        MPI_OK(MPI_Wait(&request, &status));
    } else {
        poll_until("a request", [&] {
            int done = 0;
            MPI_OK(MPI_Test(&request, &done, &status));
            return done != 0;
        });
    }
    return status;
}

/// The steps of a receiver for messages 0, 1 and 2. The "ask" steps query a status.
enum step {
    start_0,
    end_0,
    ask_0,
    probe_1,
    ask_probe_1,
    start_1,
    end_1,
    ask_1,
    probe_2,
    ask_probe_2,
    steps
};
using order = std::vector<step>;

/// All orders in which each step comes after the step that it needs.
std::vector<order> all_orders() {
    constexpr std::array<int, steps> needs{-1,      start_0, end_0, start_0, probe_1,
                                           probe_1, start_1, end_1, start_1, probe_2};
    std::vector<order> all;
    order now;
    std::array<bool, steps> done{};
    const auto go_on = [&](auto &&self) -> void {
        if (now.size() == steps) all.push_back(now);
        for (int s = 0; s < steps; ++s) {
            if (done.at(s) || (needs.at(s) >= 0 && !done.at(needs.at(s)))) continue;
            done.at(s) = true;
            now.push_back(static_cast<step>(s));
            self(self);
            now.pop_back();
            done.at(s) = false;
        }
    };
    go_on(go_on);
    return all;
}

struct receiver {
    explicit receiver(const std::array<int, 3> &lengths_in) : lengths(lengths_in) {
        for (const int length : lengths) memory.emplace_back(length);
    }

    void start(std::size_t i, MPI_Comm comm) {
        MPI_OK(MPI_Irecv(memory[i].data(), lengths[i], MPI_CL_MEM, 0, 6, comm, &requests[i]));
    }

    void take(step s, int variant, MPI_Comm comm) {
        switch (s) {
            case start_0: return start(0, comm);
            case end_0: received[0] = end(variant, requests[0]); return;
            case ask_0: return expect_received(received[0], lengths[0]);
            case probe_1: probed[1] = probe(variant / 2, 0, 6, comm); return;
            case ask_probe_1: return expect_probed(probed[1], lengths[1]);
            case start_1: return start(1, comm);
            case end_1: received[1] = end(variant, requests[1]); return;
            case ask_1: return expect_received(received[1], lengths[1]);
            case probe_2: probed[2] = probe(variant / 2, MPI_ANY_SOURCE, MPI_ANY_TAG, comm); return;
            case ask_probe_2: return expect_probed(probed[2], lengths[2]);
            case steps: return;
        }
    }

    std::array<int, 3> lengths;
    std::vector<bytes> memory;
    std::array<MPI_Request, 3> requests{};
    std::array<MPI_Status, 3> received{};
    std::array<MPI_Status, 3> probed{};
};

std::string name_of(const order &steps_in_order) {
    constexpr std::array<const char *, steps> names{"start 0",     "end 0",      "ask 0", "probe 1",
                                                    "ask probe 1", "start 1",    "end 1", "ask 1",
                                                    "probe 2",     "ask probe 2"};
    std::string text;
    for (const step s : steps_in_order) text += std::string(names.at(s)) + ", ";
    return text;
}

void all_orders_with(const mpi_view &mpi, const std::array<int, 3> &lengths) {
    const std::vector<order> orders = all_orders();
    REQUIRE(orders.size() == 1296);
    int variant = 0;
    for (const order &steps_in_order : orders) {
        ++variant;
        if (mpi.rank == 0) {
            const bytes data(large + 2);
            std::array<MPI_Request, 3> sends{};
            for (std::size_t i = 0; i < lengths.size(); ++i) {
                MPI_OK(MPI_Isend(data.data(), lengths.at(i), MPI_CL_MEM, 1, 6, mpi.comm,
                                 &sends.at(i)));
            }
            for (MPI_Request &request : sends) end(1, request);
        } else if (mpi.rank == 1) {
            const std::string name = name_of(steps_in_order);
            CAPTURE(name);
            CAPTURE(variant);
            receiver r(lengths);
            for (const step s : steps_in_order) r.take(s, variant, mpi.comm);
            r.start(2, mpi.comm);
            r.received[2] = end(variant, r.requests[2]);
            for (std::size_t i = 0; i < lengths.size(); ++i) {
                expect_received(r.received.at(i), lengths.at(i));
                if (i > 0) expect_probed(r.probed.at(i), lengths.at(i));
            }
        }
    }
}

}  // namespace

MPI_CASE(
    "statuses of receives and probes report their own payload in every order: 64 bytes before "
    "large messages",
    2) {
    all_orders_with(mpi, {header, large, large + 1});
}
MPI_CASE(
    "statuses of receives and probes report their own payload in every order: only large messages",
    2) {
    all_orders_with(mpi, {large, large + 1, large + 2});
}
MPI_CASE("statuses of receives and probes report their own payload in every order: small messages",
         2) {
    all_orders_with(mpi, {2 * header, header, 0});
}
MPI_CASE(
    "statuses of receives and probes report their own payload in every order: an empty message "
    "first",
    2) {
    all_orders_with(mpi, {0, large, header});
}

MPI_CASE("a status of a probe reports the message of the probed communicator", 2) {
    std::array<MPI_Comm, 3> comms{};
    for (MPI_Comm &comm : comms) MPI_OK(MPI_Comm_dup(mpi.comm, &comm));
    MPI_Info info = MPI_INFO_NULL;
    MPI_OK(MPI_Info_create(&info));
    MPI_OK(MPI_Info_set(info, "cldist_wire", "plain"));
    MPI_OK(MPI_Comm_set_info(comms[2], info));
    MPI_OK(MPI_Info_free(&info));
    const std::array<int, 3> lengths{large, large + 1, header};
    std::array<int, 3> asked{0, 1, 2};
    do {
        for (const bool receive_first : {false, true}) {
            std::vector<bytes> data;
            std::array<MPI_Request, 3> requests{};
            std::array<MPI_Status, 3> probed{};
            for (std::size_t i = 0; i < comms.size(); ++i) {
                data.emplace_back(lengths.at(i));
                if (mpi.rank == 0)
                    MPI_OK(MPI_Isend(data[i].data(), lengths.at(i), MPI_CL_MEM, 1, 6, comms.at(i),
                                     &requests.at(i)));
                else if (mpi.rank == 1)
                    probed.at(i) = probe(static_cast<int>(i), 0, 6, comms.at(i));
            }
            if (mpi.rank == 0) {
                for (MPI_Request &request : requests) end(1, request);
            } else if (mpi.rank == 1) {
                const auto ask = [&] {
                    for (const int i : asked) expect_payload(probed.at(i), lengths.at(i));
                };
                if (!receive_first) ask();
                for (const int i : asked) {
                    MPI_Status status{};
                    MPI_OK(MPI_Recv(data.at(i).data(), lengths.at(i), MPI_CL_MEM, 0, 6, comms.at(i),
                                    &status));
                    expect_received(status, lengths.at(i));
                }
                ask();
            }
        }
    } while (std::next_permutation(asked.begin(), asked.end()));
    for (MPI_Comm &comm : comms) MPI_OK(MPI_Comm_free(&comm));
}

MPI_CASE("a status of a probe reports the payload even after its communicator was freed", 2) {
    for (const int length : {100, large}) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_OK(MPI_Comm_dup(mpi.comm, &comm));
        bytes data(length);
        MPI_Status probed{};
        if (mpi.rank == 0) {
            MPI_OK(MPI_Send(data.data(), length, MPI_CL_MEM, 1, 6, comm));
        } else if (mpi.rank == 1) {
            probed = probe(0, 0, 6, comm);
            MPI_OK(MPI_Recv(data.data(), length, MPI_CL_MEM, 0, 6, comm, MPI_STATUS_IGNORE));
        }
        MPI_OK(MPI_Comm_free(&comm));
        if (mpi.rank == 1) expect_probed(probed, length);
    }
}

MPI_CASE("the sizes of the last 64 probed messages are known, older sizes are undefined", 2) {
    constexpr int messages = 100;
    constexpr int length = 10;
    const bytes data(length);
    std::vector<MPI_Request> requests(messages);
    std::vector<MPI_Status> probed(messages);
    for (int tag = 0; tag < messages; ++tag) {
        if (mpi.rank == 0) {
            MPI_OK(MPI_Isend(data.data(), length, MPI_CL_MEM, 1, tag, mpi.comm, &requests.at(tag)));
        } else if (mpi.rank == 1) {
            // Repeated probes of one message count once.
            for (int i = 0; i < 3; ++i) probed.at(tag) = probe(i, 0, tag, mpi.comm);
        }
    }
    for (int tag = 0; tag < messages; ++tag) {
        if (mpi.rank == 0) {
            end(1, requests.at(tag));
        } else if (mpi.rank == 1) {
            CAPTURE(tag);
            CHECK(count_by_get_count(probed.at(tag), MPI_CL_MEM) ==
                  (tag < messages - 64 ? MPI_UNDEFINED : length));
            bytes found(length);
            MPI_OK(MPI_Recv(found.data(), length, MPI_CL_MEM, 0, tag, mpi.comm, MPI_STATUS_IGNORE));
        }
    }
}

MPI_CASE("counts that a program sets in a probed status are kept", 2) {
    const bytes data(100);
    if (mpi.rank == 0) {
        MPI_OK(MPI_Send(data.data(), 100, MPI_CL_MEM, 1, 6, mpi.comm));
    } else if (mpi.rank == 1) {
        MPI_Status status = probe(0, 0, 6, mpi.comm);
        MPI_OK(MPI_Status_set_elements(&status, MPI_BYTE, 17));
        expect_received(status, 17);
        bytes found(100);
        MPI_OK(MPI_Recv(found.data(), 100, MPI_CL_MEM, 0, 6, mpi.comm, &status));
        expect_received(status, 100);
    }
}
