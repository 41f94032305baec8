/// Device-ordered collectives (CLDIST_PATH=device). Every result is compared with MPI's on the
/// host. Some cases check that kernels have carried out the commands.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <CL/cl_ext_dist.h>

#include "support/bare_device.hpp"

using namespace cldist_test;

namespace {

using ints = std::vector<int>;
using places = std::vector<std::size_t>;

/// Numbers of elements. The largest needs several rounds.
std::vector<std::size_t> counts{0, 1, 2, 1001, 65536, 1500003};
int rank_here, ranks;
cl_context context;
cl_command_queue queue, second_queue;
cl_mem in, out;

ints input(int rank, int seed, std::size_t count) {
    ints data(count);
    for (std::size_t i = 0; i < count; ++i)
        data[i] = static_cast<int>(
            (i * 7 + i / 251 + static_cast<std::size_t>(seed * 31 + rank * 101)) % 1000);
    return data;
}

void write(cl_mem to, const ints &data) {
    if (data.empty()) return;
    expect("clEnqueueWriteBuffer",
           clEnqueueWriteBuffer(queue, to, CL_TRUE, 0, data.size() * sizeof(int), data.data(), 0,
                                nullptr, nullptr),
           CL_SUCCESS);
}

ints read(cl_mem from, std::size_t count) {
    ints data(count);
    if (count == 0) return data;
    expect("clEnqueueReadBuffer",
           clEnqueueReadBuffer(queue, from, CL_TRUE, 0, count * sizeof(int), data.data(), 0,
                               nullptr, nullptr),
           CL_SUCCESS);
    return data;
}

/// Returns true if kernels have carried out the command.
bool ended_on_device(cl_event event) {
    expect("clWaitForEvents", clWaitForEvents(1, &event), CL_SUCCESS);
    char path[16] = "";
    clGetTransferInfo(event, CL_TRANSFER_PATH, sizeof path, path, nullptr);
    clReleaseEvent(event);
    return std::string(path) == "device";
}

/// A collective of `count` elements: what each process sends and receives, the command, and the
/// same call of MPI.
struct kind {
    const char *name;
    /// The numbers of elements that this process sends and receives.
    std::function<std::size_t(std::size_t)> sent, received;
    std::function<cl_int(cl_command_queue, cl_bool, std::size_t, int root, MPI_Comm, cl_event *)>
        command;
    std::function<void(const ints &, ints &, std::size_t, int root)> reference;
};

std::size_t one(std::size_t count) { return count; }
std::size_t all(std::size_t count) { return count * static_cast<std::size_t>(ranks); }
/// The size for a rank; the ranks have different sizes.
std::size_t uneven_size(std::size_t count, int rank) {
    return count / (static_cast<std::size_t>(rank) + 1);
}
places uneven(std::size_t count) {
    places sizes;
    for (int r = 0; r < ranks; ++r) sizes.push_back(uneven_size(count, r));
    return sizes;
}
places after(const places &sizes) {
    places begins(sizes.size());
    std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), std::size_t{1});
    return begins;
}
std::size_t end_of(const places &sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::size_t{1});
}
ints narrow(const places &values) { return ints(values.begin(), values.end()); }
int number(std::size_t count) { return static_cast<int>(count); }

/// The number of elements that rank s sends to rank r in an Alltoallv.
std::size_t between(std::size_t count, int s, int r) {
    return (s + r) % 3 == 0 ? 0 : count / static_cast<std::size_t>(s + 2 * r + 1);
}
places given(std::size_t count) {
    places sizes;
    for (int r = 0; r < ranks; ++r) sizes.push_back(between(count, rank_here, r));
    return sizes;
}
places got(std::size_t count) {
    places sizes;
    for (int s = 0; s < ranks; ++s) sizes.push_back(between(count, s, rank_here));
    return sizes;
}

std::vector<kind> kinds() {
    const auto here = [] { return static_cast<std::size_t>(rank_here); };
    return {
        {"allreduce", one, one,
         [](auto q, auto b, auto n, int, auto comm, auto *e) {
             return clEnqueueAllreduceBufferMPI(q, in, b, 0, out, 0, n, MPI_INT, MPI_SUM, comm, 0,
                                                nullptr, e);
         },
         [](const ints &i, ints &o, auto n, int) {
             MPI_Allreduce(i.data(), o.data(), number(n), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
         }},
        {"allreduce in place", one, one,
         [](auto q, auto b, auto n, int, auto comm, auto *e) {
             if (n != 0)
                 clEnqueueCopyBuffer(q, in, out, 0, 0, n * sizeof(int), 0, nullptr, nullptr);
             return clEnqueueAllreduceBufferMPI(q, out, b, 0, out, 0, n, MPI_INT, MPI_MAX, comm, 0,
                                                nullptr, e);
         },
         [](const ints &i, ints &o, auto n, int) {
             MPI_Allreduce(i.data(), o.data(), number(n), MPI_INT, MPI_MAX, MPI_COMM_WORLD);
         }},
        {"reduce", one, [](auto n) { return n; },
         [](auto q, auto b, auto n, int root, auto comm, auto *e) {
             return clEnqueueReduceBufferMPI(q, in, b, 0, out, 0, n, MPI_INT, MPI_BXOR, root, comm,
                                             0, nullptr, e);
         },
         [](const ints &i, ints &o, auto n, int root) {
             MPI_Reduce(i.data(), o.data(), number(n), MPI_INT, MPI_BXOR, root, MPI_COMM_WORLD);
         }},
        {"reduce-scatter", [](auto n) { return end_of(uneven(n)); },
         [here](auto n) { return uneven(n)[here()]; },
         [](auto q, auto b, auto n, int, auto comm, auto *e) {
             const places sizes = uneven(n);
             return clEnqueueReduceScatterBufferMPI(q, in, b, 0, out, 0, sizes.data(), MPI_INT,
                                                    MPI_SUM, comm, 0, nullptr, e);
         },
         [](const ints &i, ints &o, auto n, int) {
             const ints sizes = narrow(uneven(n));
             MPI_Reduce_scatter(i.data(), o.data(), sizes.data(), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
         }},
        {"broadcast", one, one,
         [](auto q, auto b, auto n, int root, auto comm, auto *e) {
             return clEnqueueBcastBufferMPI(q, rank_here == root ? in : out, b, 0, n, MPI_INT, root,
                                            comm, 0, nullptr, e);
         },
         [](const ints &i, ints &o, auto n, int root) {
             ints data = i;
             MPI_Bcast(data.data(), number(n), MPI_INT, root, MPI_COMM_WORLD);
             if (rank_here != root)
                 std::copy(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(n), o.begin());
         }},
        {"gather", one, all,
         [](auto q, auto b, auto n, int root, auto comm, auto *e) {
             return clEnqueueGatherBufferMPI(q, in, b, 0, n, MPI_INT, out, 0, n, MPI_INT, root,
                                             comm, 0, nullptr, e);
         },
         [](const ints &i, ints &o, auto n, int root) {
             MPI_Gather(i.data(), number(n), MPI_INT, o.data(), number(n), MPI_INT, root,
                        MPI_COMM_WORLD);
         }},
        {"gatherv", [here](auto n) { return uneven(n)[here()]; },
         [](auto n) { return end_of(uneven(n)); },
         [here](auto q, auto b, auto n, int root, auto comm, auto *e) {
             const places sizes = uneven(n), begins = after(sizes);
             return clEnqueueGathervBufferMPI(q, in, b, 0, sizes[here()], MPI_INT, out, 0,
                                              sizes.data(), begins.data(), MPI_INT, root, comm, 0,
                                              nullptr, e);
         },
         [here](const ints &i, ints &o, auto n, int root) {
             const ints sizes = narrow(uneven(n)), begins = narrow(after(uneven(n)));
             MPI_Gatherv(i.data(), sizes[here()], MPI_INT, o.data(), sizes.data(), begins.data(),
                         MPI_INT, root, MPI_COMM_WORLD);
         }},
        {"allgather", one, all,
         [](auto q, auto b, auto n, int, auto comm, auto *e) {
             return clEnqueueAllgatherBufferMPI(q, in, b, 0, n, MPI_INT, out, 0, n, MPI_INT, comm,
                                                0, nullptr, e);
         },
         [](const ints &i, ints &o, auto n, int) {
             MPI_Allgather(i.data(), number(n), MPI_INT, o.data(), number(n), MPI_INT,
                           MPI_COMM_WORLD);
         }},
        {"allgatherv", [here](auto n) { return uneven(n)[here()]; },
         [](auto n) { return end_of(uneven(n)); },
         [here](auto q, auto b, auto n, int, auto comm, auto *e) {
             const places sizes = uneven(n), begins = after(sizes);
             return clEnqueueAllgathervBufferMPI(q, in, b, 0, sizes[here()], MPI_INT, out, 0,
                                                 sizes.data(), begins.data(), MPI_INT, comm, 0,
                                                 nullptr, e);
         },
         [here](const ints &i, ints &o, auto n, int) {
             const ints sizes = narrow(uneven(n)), begins = narrow(after(uneven(n)));
             MPI_Allgatherv(i.data(), sizes[here()], MPI_INT, o.data(), sizes.data(), begins.data(),
                            MPI_INT, MPI_COMM_WORLD);
         }},
        {"scatter", all, one,
         [](auto q, auto b, auto n, int root, auto comm, auto *e) {
             return clEnqueueScatterBufferMPI(q, in, b, 0, n, MPI_INT, out, 0, n, MPI_INT, root,
                                              comm, 0, nullptr, e);
         },
         [](const ints &i, ints &o, auto n, int root) {
             MPI_Scatter(i.data(), number(n), MPI_INT, o.data(), number(n), MPI_INT, root,
                         MPI_COMM_WORLD);
         }},
        {"scatterv", [](auto n) { return end_of(uneven(n)); },
         [here](auto n) { return uneven(n)[here()]; },
         [here](auto q, auto b, auto n, int root, auto comm, auto *e) {
             const places sizes = uneven(n), begins = after(sizes);
             return clEnqueueScattervBufferMPI(q, in, b, 0, sizes.data(), begins.data(), MPI_INT,
                                               out, 0, sizes[here()], MPI_INT, root, comm, 0,
                                               nullptr, e);
         },
         [here](const ints &i, ints &o, auto n, int root) {
             const ints sizes = narrow(uneven(n)), begins = narrow(after(uneven(n)));
             MPI_Scatterv(i.data(), sizes.data(), begins.data(), MPI_INT, o.data(), sizes[here()],
                          MPI_INT, root, MPI_COMM_WORLD);
         }},
        {"alltoall", all, all,
         [](auto q, auto b, auto n, int, auto comm, auto *e) {
             return clEnqueueAlltoallBufferMPI(q, in, b, 0, n, MPI_INT, out, 0, n, MPI_INT, comm, 0,
                                               nullptr, e);
         },
         [](const ints &i, ints &o, auto n, int) {
             MPI_Alltoall(i.data(), number(n), MPI_INT, o.data(), number(n), MPI_INT,
                          MPI_COMM_WORLD);
         }},
        {"alltoallv", [](auto n) { return end_of(given(n)); },
         [](auto n) { return end_of(got(n)); },
         [](auto q, auto b, auto n, int, auto comm, auto *e) {
             const places give = given(n), give_at = after(give), take = got(n),
                          take_at = after(take);
             return clEnqueueAlltoallvBufferMPI(q, in, b, 0, give.data(), give_at.data(), MPI_INT,
                                                out, 0, take.data(), take_at.data(), MPI_INT, comm,
                                                0, nullptr, e);
         },
         [](const ints &i, ints &o, auto n, int) {
             const ints give = narrow(given(n)), give_at = narrow(after(given(n))),
                        take = narrow(got(n)), take_at = narrow(after(got(n)));
             MPI_Alltoallv(i.data(), give.data(), give_at.data(), MPI_INT, o.data(), take.data(),
                           take_at.data(), MPI_INT, MPI_COMM_WORLD);
         }},
        {"barrier", [](auto) { return std::size_t{0}; }, [](auto) { return std::size_t{0}; },
         [](auto q, auto b, auto, int, auto comm, auto *e) {
             return clEnqueueBarrierMPI(q, b, comm, 0, nullptr, e);
         },
         [](const ints &, ints &, auto, int) { MPI_Barrier(MPI_COMM_WORLD); }},
    };
}

/// Runs one collective and compares its result. Returns true if kernels have carried it out.
bool run_and_compare(const kind &k, std::size_t count, int seed, cl_command_queue on,
                     cl_bool blocking, MPI_Comm comm) {
    const int root = seed % ranks;
    const ints sent = input(rank_here, seed, std::max<std::size_t>(k.sent(count), 1));
    ints wanted(std::max<std::size_t>(k.received(count), 1) + 8, -1);
    write(in, sent);
    write(out, wanted);
    k.reference(sent, wanted, count, root);
    cl_event event = nullptr;
    expect(k.name, k.command(on, blocking, count, root, comm, &event), CL_SUCCESS);
    const bool on_device = ended_on_device(event);
    expect((std::string("the result is right: ") + k.name + " of " + std::to_string(count)).c_str(),
           read(out, wanted.size()) == wanted, 1);
    return on_device;
}

void every_kind_uses_the_device() {
    const std::vector<kind> every = kinds();
    int seed = 0;
    // The hosts carry out the first commands, until all processes know that all are ready.
    while (seed < 60 && !run_and_compare(every[0], 1000, seed, queue, CL_TRUE, MPI_COMM_WORLD))
        ++seed;
    expect("small blocking collectives reach the device", seed < 60, 1);
    for (const kind &k : every) {
        int on_device = 0;
        for (const std::size_t count : counts) {
            ++seed;
            on_device += run_and_compare(k, count, seed, queue, seed % 2 == 0 ? CL_TRUE : CL_FALSE,
                                         MPI_COMM_WORLD);
        }
        expect((std::string("kernels carry out: ") + k.name).c_str(), on_device,
               static_cast<long>(counts.size()));
    }
}

/// The result overwrites input that other processes need.
void reduce_scatters_may_be_in_place() {
    places sizes;
    for (int r = 0; r < ranks; ++r) sizes.push_back(300000 / static_cast<std::size_t>(ranks - r));
    const std::size_t sum = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    for (int i = 0; i < 10; ++i) {
        const ints sent = input(rank_here, i, sum);
        ints wanted(sizes[static_cast<std::size_t>(rank_here)]);
        write(in, sent);
        MPI_Reduce_scatter(sent.data(), wanted.data(), narrow(sizes).data(), MPI_INT, MPI_SUM,
                           MPI_COMM_WORLD);
        expect("clEnqueueReduceScatterBufferMPI",
               clEnqueueReduceScatterBufferMPI(queue, in, CL_FALSE, 0, in, 0, sizes.data(), MPI_INT,
                                               MPI_SUM, MPI_COMM_WORLD, 0, nullptr, nullptr),
               CL_SUCCESS);
        expect("the result of a reduce-scatter in place is right",
               read(in, wanted.size()) == wanted, 1);
    }
}

/// One process calls late. Until then, the library holds back the kernels of the others.
void processes_may_be_late() {
    const std::vector<kind> every = kinds();
    for (int i = 0; i < 2 * ranks; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
        const kind &k = every[static_cast<std::size_t>(i) % every.size()];
        const ints sent = input(rank_here, i, k.sent(1001));
        ints wanted(k.received(1001), -1);
        k.reference(sent, wanted, 1001, 0);
        write(in, sent);
        write(out, ints(wanted.size(), -1));
        cl_event event = nullptr;
        if (rank_here != i % ranks) k.command(queue, CL_FALSE, 1001, 0, MPI_COMM_WORLD, &event);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank_here == i % ranks) k.command(queue, CL_FALSE, 1001, 0, MPI_COMM_WORLD, &event);
        expect("a late collective uses the device", ended_on_device(event), 1);
        expect("the result of a late collective is right", read(out, wanted.size()) == wanted, 1);
    }
}

void random_collectives_are_right() {
    const std::vector<kind> every = kinds();
    std::mt19937 random(rank_here == 0 ? std::random_device{}() : 0);
    unsigned seed = random();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    random.seed(seed);
    int on_device = 0;
    constexpr int steps = 300;
    const int before = failures;
    for (int i = 0; i < steps; ++i) {
        const kind &k = every[random() % every.size()];
        const std::size_t count = random() % (i % 20 == 0 ? 200000 : 3000);
        const cl_bool blocking = random() % 2 == 0 ? CL_TRUE : CL_FALSE;
        on_device += run_and_compare(k, count, static_cast<int>(random() % 1000), queue, blocking,
                                     MPI_COMM_WORLD);
    }
    expect("kernels carry out random collectives", on_device, steps);
    if (failures != before) std::fprintf(stderr, "the seed is %u\n", seed);
}

/// Each reduction reads the result of the one before. The host does not wait between them.
void chains_are_enqueued_far_ahead() {
    constexpr std::size_t count = 300000;
    constexpr int steps = 100;
    write(in, ints(count, 1));
    cl_event last = nullptr;
    for (int i = 0; i < steps; ++i) {
        const std::size_t part = i % 3 == 0 ? count : 17;
        clEnqueueAllreduceBufferMPI(queue, in, CL_FALSE, 0, out, 0, part, MPI_INT, MPI_MAX,
                                    MPI_COMM_WORLD, 0, nullptr, nullptr);
        clEnqueueAllreduceBufferMPI(queue, out, CL_FALSE, 0, in, 0, part, MPI_INT, MPI_SUM,
                                    MPI_COMM_WORLD, 0, nullptr, i + 1 == steps ? &last : nullptr);
        if (i % 7 == 0)
            clEnqueueFillBuffer(queue, in, &i, sizeof i, 0, count * sizeof(int), 0, nullptr,
                                nullptr);
    }
    ended_on_device(last);
    unsigned small = 0, large = 0;
    for (int i = 0; i < steps; ++i) {
        small *= static_cast<unsigned>(ranks);
        if (i % 3 == 0) large *= static_cast<unsigned>(ranks);
        if (i % 7 == 0) small = large = static_cast<unsigned>(i);
    }
    ints wanted(count, static_cast<int>(large));
    std::fill_n(wanted.begin(), 17, static_cast<int>(small));
    expect("the result of a chain is right", read(in, count) == wanted, 1);
}

/// In one process at a time, no kernel can carry out the command, because it is in another queue or
/// behind a user event.
void hosts_carry_out_the_rest() {
    const std::vector<kind> every = kinds();
    for (int i = 0; i < 30; ++i) {
        const kind &k = every[static_cast<std::size_t>(i) % every.size()];
        const bool other_queue = (i + rank_here) % 4 == 0;
        run_and_compare(k, 1001, i, other_queue ? second_queue : queue,
                        i % 5 == 0 ? CL_TRUE : CL_FALSE, MPI_COMM_WORLD);
    }
    // Commands in both queues at the same time.
    write(in, ints(2000, 1));
    for (int i = 0; i < 20; ++i) {
        cl_event events[2];
        for (int j = 0; j < 2; ++j)
            clEnqueueAllreduceBufferMPI((i + j + rank_here) % 2 == 0 ? queue : second_queue, in,
                                        CL_FALSE, static_cast<std::size_t>(j) * 1000 * sizeof(int),
                                        out, static_cast<std::size_t>(j) * 1000 * sizeof(int), 1000,
                                        MPI_INT, MPI_SUM, MPI_COMM_WORLD, 0, nullptr, &events[j]);
        for (cl_event event : events) ended_on_device(event);
        expect("the results of two queues are right", read(out, 2000) == ints(2000, ranks), 1);
    }
    cl_int error = CL_SUCCESS;
    for (int i = 0; i < 6; ++i) {
        cl_event user = clCreateUserEvent(context, &error), event = nullptr;
        clEnqueueAllreduceBufferMPI(queue, in, CL_FALSE, 0, out, 0, 1000, MPI_INT, MPI_SUM,
                                    MPI_COMM_WORLD, rank_here == i % ranks ? 1 : 0,
                                    rank_here == i % ranks ? &user : nullptr, &event);
        MPI_Barrier(MPI_COMM_WORLD);
        clSetUserEventStatus(user, CL_COMPLETE);
        ended_on_device(event);
        clReleaseEvent(user);
        expect("the result behind a user event is right", read(out, 1000) == ints(1000, ranks), 1);
    }
}

/// More communicators than arenas, and communicators that contain only some of the processes.
void communicators_come_and_go() {
    const std::vector<kind> every = kinds();
    for (int round = 0; round < 3; ++round) {
        std::vector<MPI_Comm> comms(6);
        for (MPI_Comm &comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int i = 0; i < 24; ++i)
            run_and_compare(every[static_cast<std::size_t>(i + round) % every.size()], 1001, i,
                            queue, CL_FALSE, comms[static_cast<std::size_t>(i) % comms.size()]);
        for (MPI_Comm &comm : comms) MPI_Comm_free(&comm);
    }
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank_here % 2, -rank_here, &half);
    int size = 0;
    MPI_Comm_size(half, &size);
    write(in, ints(5000, 3));
    for (int i = 0; i < 12; ++i) {
        cl_event event = nullptr;
        clEnqueueAllreduceBufferMPI(queue, in, CL_FALSE, 0, out, 0, 5000, MPI_INT, MPI_SUM, half, 0,
                                    nullptr, &event);
        ended_on_device(event);
        expect("the result in a part of the processes is right",
               read(out, 5000) == ints(5000, 3 * size), 1);
    }
    MPI_Comm_free(&half);
}

/// Kernels cannot fail events, so the hosts carry out collectives if errors of the communicator
/// return.
void errors_may_return() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int on_device = 0;
    for (const kind &k : kinds()) on_device += run_and_compare(k, 1001, 1, queue, CL_FALSE, comm);
    expect("collectives whose errors return use the device", on_device, 0);
    MPI_Comm_free(&comm);
}

template <typename T>
void reduce_all(MPI_Datatype type, const std::vector<MPI_Op> &ops) {
    std::vector<T> data(1003), wanted(1003), found(1003);
    for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<T>((i * 3 + static_cast<std::size_t>(rank_here) * 5) % 7);
    const std::size_t bytes = data.size() * sizeof(T);
    for (const MPI_Op op : ops) {
        clEnqueueWriteBuffer(queue, in, CL_TRUE, 0, bytes, data.data(), 0, nullptr, nullptr);
        MPI_Allreduce(data.data(), wanted.data(), 1003, type, op, MPI_COMM_WORLD);
        cl_event event = nullptr;
        expect("clEnqueueAllreduceBufferMPI",
               clEnqueueAllreduceBufferMPI(queue, in, CL_FALSE, 0, out, sizeof(T), 1003, type, op,
                                           MPI_COMM_WORLD, 0, nullptr, &event),
               CL_SUCCESS);
        expect("a reduction of the type uses the device", ended_on_device(event), 1);
        clEnqueueReadBuffer(queue, out, CL_TRUE, sizeof(T), bytes, found.data(), 0, nullptr,
                            nullptr);
        expect("a reduction of the type is right", found == wanted, 1);
    }
}

void all_types_and_operators() {
    const std::vector<MPI_Op> reals{MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN};
    std::vector<MPI_Op> integers = reals;
    integers.insert(integers.end(), {MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR});
    reduce_all<float>(MPI_FLOAT, reals);
    reduce_all<double>(MPI_DOUBLE, reals);
    reduce_all<std::int8_t>(MPI_INT8_T, integers);
    reduce_all<std::uint16_t>(MPI_UINT16_T, integers);
    reduce_all<unsigned>(MPI_UNSIGNED, integers);
    reduce_all<long>(MPI_LONG, integers);
}

template <typename V>
struct located {
    V value;
    int index;
};

/// Ranks have equal values, zeros of both signs and numbers that are not comparable.
template <typename V>
std::vector<located<V>> pairs_of(int rank, std::size_t count) {
    std::vector<located<V>> data(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto place = static_cast<int>(i % 1000) * 3 + rank * 5;
        V value = static_cast<V>(place % 7 - 3);
        if (std::numeric_limits<V>::has_quiet_NaN && place % 11 == 0)
            value = std::numeric_limits<V>::quiet_NaN();
        if (value == V{} && rank % 2 == 0) value = -value;
        data[i] = {value, (place * 3 + ranks - rank) % 4 - 1};
    }
    return data;
}

template <typename V>
bool same(const std::vector<located<V>> &a, const std::vector<located<V>> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto &x, const auto &y) {
        return std::memcmp(&x.value, &y.value, sizeof(V)) == 0 && x.index == y.index;
    });
}

/// Compares with MPI's operator on the hosts, in the order of the ranks.
template <typename V>
void locate(MPI_Datatype type) {
    using pairs = std::vector<located<V>>;
    constexpr std::size_t element = sizeof(located<V>);
    for (const MPI_Op op : {MPI_MINLOC, MPI_MAXLOC})
        for (const std::size_t count : {1UL, 3UL, 1003UL, 100003UL}) {
            const pairs mine = pairs_of<V>(rank_here, count);
            pairs wanted = pairs_of<V>(0, count);
            for (int r = 1; r < ranks; ++r) {
                const pairs theirs = pairs_of<V>(r, count);
                MPI_Reduce_local(theirs.data(), wanted.data(), number(count), type, op);
            }
            const auto expect_pairs = [&](std::size_t first, std::size_t size, cl_event event) {
                expect("a reduction of pairs uses the device", ended_on_device(event), 1);
                pairs found(size);
                if (size != 0)
                    clEnqueueReadBuffer(queue, out, CL_TRUE, element, size * element, found.data(),
                                        0, nullptr, nullptr);
                const auto begin = wanted.begin() + static_cast<std::ptrdiff_t>(first);
                const pairs part(begin, begin + static_cast<std::ptrdiff_t>(size));
                expect("a reduction of pairs is right", same(found, part), 1);
            };
            clEnqueueWriteBuffer(queue, in, CL_TRUE, 0, count * element, mine.data(), 0, nullptr,
                                 nullptr);
            cl_event event = nullptr;
            clEnqueueAllreduceBufferMPI(queue, in, CL_FALSE, 0, out, element, count, type, op,
                                        MPI_COMM_WORLD, 0, nullptr, &event);
            expect_pairs(0, count, event);
            clEnqueueReduceBufferMPI(queue, in, CL_FALSE, 0, out, element, count, type, op, 1,
                                     MPI_COMM_WORLD, 0, nullptr, &event);
            expect_pairs(0, count, event);
            const std::size_t each = count / static_cast<std::size_t>(ranks + 1);
            places sizes(static_cast<std::size_t>(ranks), each);
            sizes.back() = count - each * (sizes.size() - 1);
            clEnqueueReduceScatterBufferMPI(queue, in, CL_FALSE, 0, out, element, sizes.data(),
                                            type, op, MPI_COMM_WORLD, 0, nullptr, &event);
            const auto own = static_cast<std::size_t>(rank_here);
            expect_pairs(own * each, sizes[own], event);
        }
}

void pairs_of_values_and_indices() {
    locate<float>(MPI_FLOAT_INT);
    locate<double>(MPI_DOUBLE_INT);
    locate<long>(MPI_LONG_INT);
    locate<int>(MPI_2INT);
    locate<short>(MPI_SHORT_INT);
}

/// The members of the pairs are aligned, but not the pairs of 16 bytes.
void pairs_in_host_memory() {
    using pair = located<double>;
    const std::vector<pair> mine = pairs_of<double>(rank_here, 1003);
    std::vector<pair> wanted = pairs_of<double>(0, mine.size()), found(mine.size());
    for (int r = 1; r < ranks; ++r)
        MPI_Reduce_local(pairs_of<double>(r, mine.size()).data(), wanted.data(), 1003,
                         MPI_DOUBLE_INT, MPI_MAXLOC);
    std::vector<pair> memory(mine.size() + 1);
    void *const place = &memory[0].index;
    std::memcpy(place, mine.data(), mine.size() * sizeof(pair));
    cl_int error = CL_SUCCESS;
    const cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                         mine.size() * sizeof(pair), place, &error);
    expect("clCreateBuffer", error, CL_SUCCESS);
    expect(
        "clEnqueueAllreduceBufferMPI",
        clEnqueueAllreduceBufferMPI(queue, buffer, CL_FALSE, 0, out, 0, mine.size(), MPI_DOUBLE_INT,
                                    MPI_MAXLOC, MPI_COMM_WORLD, 0, nullptr, nullptr),
        CL_SUCCESS);
    clEnqueueReadBuffer(queue, out, CL_TRUE, 0, found.size() * sizeof(pair), found.data(), 0,
                        nullptr, nullptr);
    expect("a reduction of pairs in host memory is right", same(found, wanted), 1);
    clReleaseMemObject(buffer);
}

}  // namespace

int main() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_here);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (wants_gpu()) counts.push_back(20000000);
    const cl_device_id device = local_device();
    if (device == nullptr) {
        if (rank_here == 0)
            std::puts("SKIP: device-ordered collectives: there is no device of the type");
        MPI_Finalize();
        return 0;
    }
    cl_int error = CL_SUCCESS;
    context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
    queue = clCreateCommandQueue(context, device, 0, &error);
    second_queue = clCreateCommandQueue(context, device, 0, &error);
    const std::size_t room = counts.back() * static_cast<std::size_t>(ranks) + 64;
    in = clCreateBuffer(context, CL_MEM_READ_WRITE, room * sizeof(int), nullptr, &error);
    out = clCreateBuffer(context, CL_MEM_READ_WRITE, room * sizeof(int), nullptr, &error);
    expect("the code of creating the OpenCL objects", error, CL_SUCCESS);
    run_cases("device-ordered collectives", rank_here,
              {{"every kind uses the device", every_kind_uses_the_device},
               {"reduce-scatters may be in place", reduce_scatters_may_be_in_place},
               {"processes may be late", processes_may_be_late},
               {"chains are enqueued far ahead", chains_are_enqueued_far_ahead},
               {"random collectives are right", random_collectives_are_right},
               {"hosts carry out the rest", hosts_carry_out_the_rest},
               {"communicators come and go", communicators_come_and_go},
               {"errors of the communicator may return", errors_may_return},
               {"all types and operators", all_types_and_operators},
               {"pairs of values and indices", pairs_of_values_and_indices},
               {"pairs in host memory", pairs_in_host_memory}});
    clReleaseMemObject(in);
    clReleaseMemObject(out);
    clReleaseCommandQueue(second_queue);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
