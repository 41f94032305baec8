/// Random collective commands of all kinds on new communicators, mixed with the program's own
/// non-blocking collectives, wildcard receives and constructors of communicators. Every byte of
/// every buffer is checked.
///
/// test_stress_collectives [--seed N] [--rounds N] [--seconds S] [--patience S]
///
/// All processes take the same steps in the same order, as MPI requires. Each process chooses its
/// own offsets, queue and user events, whether it works in place, and when it waits. Round r has
/// the seed SEED + r. A failure prints the seed of its round and the command that repeats it.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CL/cl_ext_dist.h>
#include <unistd.h>

#include "bare_device.hpp"

namespace {

using bytes = std::vector<unsigned char>;
using generator = std::mt19937_64;

int world_rank = 0;
int world_size = 0;
std::uint64_t round_seed = 0;
std::string last_step;
std::atomic<std::uint64_t> steps_done{0};

[[noreturn]] void end_job(const std::string &what) {
    std::fprintf(stderr,
                 "FAILED: rank %d, in or after \"%s\": %s\n  repeat: mpirun -n %d "
                 "test_stress_collectives --seed %llu "
                 "--rounds 1\n",
                 world_rank, last_step.c_str(), what.c_str(), world_size,
                 static_cast<unsigned long long>(round_seed));
    std::fflush(nullptr);
    ::alarm(10);  // in case MPI_Abort hangs
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::_Exit(1);
}

void require(const char *what, long found, long wanted) {
    if (found != wanted) {
        end_job(std::string(what) + " is " + std::to_string(found) + ", not " +
                std::to_string(wanted));
    }
}

std::uint64_t below(generator &random, std::uint64_t limit) { return random() % limit; }
bool one_in(generator &random, std::uint64_t n) { return below(random, n) == 0; }

std::size_t random_count(generator &random) {
    switch (below(random, 8)) {
        case 0: return below(random, 3);
        case 1:
        case 2: return 1 + below(random, 64);
        case 3:
        case 4: return 1 + below(random, 5000);
        case 5:
        case 6: return 1 + below(random, 60000);
        default: return one_in(random, 10) ? 1 + below(random, 2500000) : 1 + below(random, 300000);
    }
}

struct group {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0;
    int size = 0;

    explicit group(MPI_Comm the_comm) : comm(the_comm) {
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
    }
};

/// An operation in flight. finish() waits for it and checks its result.
struct pending {
    pending(MPI_Comm the_comm, std::string the_name) : comm(the_comm), name(std::move(the_name)) {}
    pending(const pending &) = delete;
    pending &operator=(const pending &) = delete;
    virtual ~pending() = default;
    virtual void finish() = 0;

    const MPI_Comm comm;
    const std::string name;
};

// ---- commands ---------------------------------------------------------------------------------

enum class kind {
    barrier,
    bcast,
    gather,
    gatherv,
    scatter,
    scatterv,
    allgather,
    allgatherv,
    alltoall,
    alltoallv,
    reduce,
    allreduce,
    reduce_scatter,
    count
};
constexpr const char *kind_names[] = {
    "barrier",    "bcast",    "gather",    "gatherv", "scatter",   "scatterv",      "allgather",
    "allgatherv", "alltoall", "alltoallv", "reduce",  "allreduce", "reduce_scatter"};

/// The arguments that are equal in all processes, and the data for checking the result.
struct step {
    kind what = kind::barrier;
    std::uint64_t number = 0;
    int size = 0;
    int root = 0;
    std::size_t count = 0;            ///< elements of one part, or of all parts
    std::vector<std::size_t> counts;  ///< per process, or per pair: index from * size + to
    MPI_Datatype type = MPI_INT;
    MPI_Op op = MPI_SUM;
    std::size_t element = 4;
    int failing = -1;  ///< the rank whose wait list fails

    /// A number, or for pairs index_limit times the value plus the index.
    [[nodiscard]] long value(int rank, std::size_t i) const {
        const auto one = static_cast<long>(
            (number * 31 + static_cast<std::uint64_t>(rank) * 7 + i * 3 + i / 1000) % 11 + 1);
        return type == MPI_DOUBLE_INT ? one * index_limit + (one * 3 + size - rank) % index_limit
                                      : one;
    }
    static constexpr long index_limit = 4;
    [[nodiscard]] std::size_t pair(int from, int to) const {
        return counts[static_cast<std::size_t>(from) * static_cast<std::size_t>(size) +
                      static_cast<std::size_t>(to)];
    }
    [[nodiscard]] long combined(std::size_t i) const {
        long all = value(0, i);
        for (int rank = 1; rank < size; ++rank) {
            const long other = value(rank, i);
            if (op == MPI_SUM) {
                all += other;
            } else if (op == MPI_BXOR) {
                all ^= other;
            } else if (op == MPI_MINLOC ||
                       (op == MPI_MAXLOC && all / index_limit == other / index_limit)) {
                all = std::min(all, other);
            } else {
                all = std::max(all, other);
            }
        }
        return all;
    }
    void put(unsigned char *to, long number_in) const {
        if (element == 1) {
            *to = static_cast<unsigned char>(number_in);
        } else if (element == 4) {
            const auto narrow = static_cast<std::int32_t>(number_in);
            std::memcpy(to, &narrow, sizeof narrow);
        } else {
            const bool pair = type == MPI_DOUBLE_INT;
            const auto real = static_cast<double>(pair ? number_in / index_limit : number_in);
            const auto index = static_cast<int>(number_in % index_limit);
            std::memcpy(to, &real, sizeof real);
            if (pair) std::memcpy(to + sizeof real, &index, sizeof index);
        }
    }
};

step random_step(generator &shared, std::uint64_t number, int size) {
    step s;
    s.what = static_cast<kind>(below(shared, static_cast<std::uint64_t>(kind::count)));
    s.number = number;
    s.size = size;
    s.root = static_cast<int>(below(shared, static_cast<std::uint64_t>(size)));
    const auto n = static_cast<std::size_t>(size);
    s.count = random_count(shared);
    const bool reduces =
        s.what == kind::reduce || s.what == kind::allreduce || s.what == kind::reduce_scatter;
    switch (below(shared, 4)) {
        case 0:
            s.type = MPI_DOUBLE;
            s.element = 8;
            break;
        case 1:
            s.type = reduces ? MPI_DOUBLE_INT : MPI_BYTE;
            s.element = reduces ? 16 : 1;
            break;
        default: break;
    }
    s.op = s.type == MPI_DOUBLE       ? (one_in(shared, 2) ? MPI_SUM : MPI_MAX)
           : s.type == MPI_DOUBLE_INT ? (one_in(shared, 2) ? MPI_MINLOC : MPI_MAXLOC)
           : one_in(shared, 3)        ? MPI_BXOR
           : one_in(shared, 2)        ? MPI_MAX
                                      : MPI_SUM;
    const bool parts = !reduces && s.what != kind::bcast;
    if (parts) {
        s.count /= n;
    }
    if (s.what == kind::alltoallv) {
        for (std::size_t i = 0; i < n * n; ++i) {
            s.counts.push_back(one_in(shared, 4) ? 0 : below(shared, s.count / n + 2));
        }
    } else if (s.what == kind::gatherv || s.what == kind::scatterv || s.what == kind::allgatherv ||
               s.what == kind::reduce_scatter) {
        std::size_t all = 0;
        for (std::size_t i = 0; i < n; ++i) {
            s.counts.push_back(one_in(shared, 4) ? 0 : below(shared, s.count / n + 2));
            all += s.counts.back();
        }
        if (s.what == kind::reduce_scatter) {
            s.count = all;
        }
    }
    // If kernels carry out collectives, a failure ends the job, so no wait list may fail.
    const auto is_set = [](const char *name, const char *value) {
        const char *const found = std::getenv(name);
        return found != nullptr && std::string(found) == value;
    };
    const bool may_fail = !is_set("CLDIST_PATH", "device") || is_set("CLDIST_ON_ERROR", "event");
    if (one_in(shared, 25) && may_fail) {
        s.failing = static_cast<int>(below(shared, static_cast<std::uint64_t>(size)));
    }
    return s;
}

/// A process's input and output in one buffer. Offsets are in bytes.
struct placed {
    std::size_t send = 0;
    std::size_t recv = 0;
    std::vector<std::size_t> send_places;  ///< displacements in elements
    std::vector<std::size_t> recv_places;
    bytes before;
    bytes after;
    std::vector<bool> any;  ///< bytes that are undefined afterwards
};

/// Places the parts in reverse order, with gaps. Returns the extent, in elements.
std::size_t place_parts(generator &local, const std::vector<std::size_t> &counts,
                        std::vector<std::size_t> &places) {
    places.resize(counts.size());
    std::size_t at = below(local, 3);
    for (std::size_t i = counts.size(); i-- != 0;) {
        places[i] = at;
        at += counts[i] + below(local, 3);
    }
    return at;
}

/// Consecutive elements that a process sends or receives, and their values.
struct part {
    std::size_t place;  ///< in elements, within its side
    std::size_t count;
    std::function<long(std::size_t)> value;
};
struct sides {
    std::vector<part> send;
    std::vector<part> recv;
    std::size_t send_extent = 0;
    std::size_t recv_extent = 0;
};

sides sides_of(const step &s, int me, generator &local, bool interleaved, placed &where) {
    sides all;
    const auto n = static_cast<std::size_t>(s.size);
    const auto own = static_cast<std::size_t>(me);
    const bool root = me == s.root;
    const auto from = [&s](int rank, std::size_t first) {
        return [&s, rank, first](std::size_t i) { return s.value(rank, first + i); };
    };
    const auto sum = [&s](std::size_t first) {
        return [&s, first](std::size_t i) { return s.combined(first + i); };
    };
    std::vector<std::size_t> given;
    std::vector<std::size_t> got;
    switch (s.what) {
        case kind::barrier:
        case kind::count: break;
        case kind::bcast:
            (root ? all.send : all.recv).push_back({0, s.count, from(s.root, 0)});
            (root ? all.send_extent : all.recv_extent) = s.count;
            break;
        case kind::reduce:
        case kind::allreduce:
            all.send.push_back({0, s.count, from(me, 0)});
            all.send_extent = s.count;
            if (s.what == kind::allreduce || root) {
                all.recv.push_back({0, s.count, sum(0)});
                all.recv_extent = s.count;
            }
            break;
        case kind::reduce_scatter: {
            std::size_t before = 0;
            for (std::size_t i = 0; i < own; ++i) {
                before += s.counts[i];
            }
            all.send.push_back({0, s.count, from(me, 0)});
            all.recv.push_back({0, s.counts[own], sum(before)});
            all.send_extent = s.count;
            all.recv_extent = s.counts[own];
            break;
        }
        case kind::gather:
        case kind::allgather:
            all.send.push_back({0, s.count, from(me, 0)});
            all.send_extent = s.count;
            for (std::size_t i = 0; (root || s.what == kind::allgather) && i < n; ++i) {
                all.recv.push_back({i * s.count, s.count, from(static_cast<int>(i), 0)});
                all.recv_extent = n * s.count;
            }
            break;
        case kind::gatherv:
        case kind::allgatherv:
            all.send.push_back({0, s.counts[own], from(me, 0)});
            all.send_extent = s.counts[own];
            all.recv_extent = place_parts(local, s.counts, where.recv_places);
            for (std::size_t i = 0; (root || s.what == kind::allgatherv) && i < n; ++i) {
                all.recv.push_back(
                    {where.recv_places[i], s.counts[i], from(static_cast<int>(i), 0)});
            }
            break;
        case kind::scatter:
            for (std::size_t i = 0; root && i < n; ++i) {
                all.send.push_back({i * s.count, s.count, from(s.root, i * s.count)});
                all.send_extent = n * s.count;
            }
            all.recv.push_back({0, s.count, from(s.root, own * s.count)});
            all.recv_extent = s.count;
            break;
        case kind::scatterv:
            all.send_extent = place_parts(local, s.counts, where.send_places);
            for (std::size_t i = 0; root && i < n; ++i) {
                all.send.push_back({where.send_places[i], s.counts[i], from(s.root, i)});
            }
            all.recv.push_back({0, s.counts[own], from(s.root, own)});
            all.recv_extent = s.counts[own];
            break;
        case kind::alltoall:
            for (std::size_t i = 0; i < n; ++i) {
                all.send.push_back({i * s.count, s.count, from(me, i)});
                all.recv.push_back({i * s.count, s.count, from(static_cast<int>(i), own)});
            }
            all.send_extent = all.recv_extent = n * s.count;
            break;
        case kind::alltoallv:
            for (int i = 0; i < s.size; ++i) {
                given.push_back(s.pair(me, i));
                got.push_back(s.pair(i, me));
            }
            if (interleaved) {
                const std::size_t slot = std::max(*std::max_element(given.begin(), given.end()),
                                                  *std::max_element(got.begin(), got.end())) +
                                         below(local, 2);
                for (std::size_t i = 0; i < n; ++i) {
                    where.send_places.push_back(2 * i * slot);
                    where.recv_places.push_back((2 * i + 1) * slot);
                }
                all.send_extent = all.recv_extent = 2 * n * slot;
            } else {
                all.send_extent = place_parts(local, given, where.send_places);
                all.recv_extent = place_parts(local, got, where.recv_places);
            }
            for (std::size_t i = 0; i < n; ++i) {
                all.send.push_back({where.send_places[i], given[i], from(me, i)});
                all.recv.push_back({where.recv_places[i], got[i], from(static_cast<int>(i), own)});
            }
            break;
    }
    return all;
}

placed place(const step &s, int me, generator &local) {
    placed where;
    // Each process chooses whether it works in place. An Alltoallv whose displacements differ on
    // the two sides can't.
    bool in_place = one_in(local, 2) && s.what != kind::alltoallv;
    const bool interleaved = one_in(local, 2);
    const sides all = sides_of(s, me, local, interleaved, where);
    const auto own = static_cast<std::size_t>(me);
    in_place = in_place && !all.send.empty() && !all.recv.empty();
    const std::size_t margin = below(local, 3) == 0 ? below(local, 9) : 16 * below(local, 3);
    const std::size_t gap = below(local, 3) == 0 ? below(local, 9) : 16 * below(local, 3);
    where.send = where.recv = margin;
    if (in_place) {
        if (s.what == kind::gather || s.what == kind::allgather) {
            where.send += own * s.count * s.element;
        } else if (s.what == kind::gatherv || s.what == kind::allgatherv) {
            where.send += where.recv_places[own] * s.element;
        } else if (s.what == kind::scatter) {
            where.recv += own * s.count * s.element;
        } else if (s.what == kind::scatterv) {
            where.recv += where.send_places[own] * s.element;
        }
    } else if (s.what != kind::alltoallv || !interleaved) {
        where.recv += all.send_extent * s.element + gap;
    }
    const std::size_t end = std::max(where.send + all.send_extent * s.element,
                                     where.recv + all.recv_extent * s.element) +
                            16;
    where.before.assign(end, static_cast<unsigned char>(s.number));
    where.any.assign(end, false);
    const auto fill = [&](bytes &to, std::size_t base, const std::vector<part> &parts) {
        for (const part &p : parts) {
            for (std::size_t i = 0; i < p.count; ++i) {
                s.put(to.data() + base + (p.place + i) * s.element, p.value(i));
            }
        }
    };
    fill(where.before, where.send, all.send);
    where.after = where.before;
    if (in_place && s.what == kind::reduce_scatter) {
        std::fill_n(where.any.begin() + static_cast<std::ptrdiff_t>(where.send),
                    s.count * s.element, true);
        const auto got = static_cast<std::ptrdiff_t>(s.counts[own] * s.element);
        std::fill_n(where.any.begin() + static_cast<std::ptrdiff_t>(where.recv), got, false);
    }
    fill(where.after, where.recv, all.recv);
    return where;
}

struct machine {
    cldist_test::bare_device device{64};
    std::vector<cl_command_queue> queues;
    std::vector<cl_event> gates;

    machine() {
        cl_int error = CL_SUCCESS;
        queues = {device.queue, device.other_queue,
                  clCreateCommandQueue(device.context, device.id,
                                       CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error)};
        require("clCreateCommandQueue", error, CL_SUCCESS);
    }
    /// Sets the user events. Call it before any call that may wait.
    void open_gates() {
        for (const cl_event gate : gates) {
            require("clSetUserEventStatus", clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
            clReleaseEvent(gate);
        }
        gates.clear();
    }
};

cl_int issue(const step &s, cl_command_queue queue, cl_mem m, cl_bool blocking, const placed &w,
             MPI_Comm comm, int me, const std::vector<cl_event> &list, cl_event *event) {
    const auto n = static_cast<cl_uint>(list.size());
    const cl_event *const l = list.empty() ? nullptr : list.data();
    const auto own = static_cast<std::size_t>(me);
    std::vector<std::size_t> given;
    std::vector<std::size_t> got;
    switch (s.what) {
        case kind::bcast:
            return clEnqueueBcastBufferMPI(queue, m, blocking, me == s.root ? w.send : w.recv,
                                           s.count, s.type, s.root, comm, n, l, event);
        case kind::gather:
            return clEnqueueGatherBufferMPI(queue, m, blocking, w.send, s.count, s.type, m, w.recv,
                                            s.count, s.type, s.root, comm, n, l, event);
        case kind::gatherv:
            return clEnqueueGathervBufferMPI(queue, m, blocking, w.send, s.counts[own], s.type, m,
                                             w.recv, s.counts.data(), w.recv_places.data(), s.type,
                                             s.root, comm, n, l, event);
        case kind::scatter:
            return clEnqueueScatterBufferMPI(queue, m, blocking, w.send, s.count, s.type, m, w.recv,
                                             s.count, s.type, s.root, comm, n, l, event);
        case kind::scatterv:
            return clEnqueueScattervBufferMPI(queue, m, blocking, w.send, s.counts.data(),
                                              w.send_places.data(), s.type, m, w.recv,
                                              s.counts[own], s.type, s.root, comm, n, l, event);
        case kind::allgather:
            return clEnqueueAllgatherBufferMPI(queue, m, blocking, w.send, s.count, s.type, m,
                                               w.recv, s.count, s.type, comm, n, l, event);
        case kind::allgatherv:
            return clEnqueueAllgathervBufferMPI(queue, m, blocking, w.send, s.counts[own], s.type,
                                                m, w.recv, s.counts.data(), w.recv_places.data(),
                                                s.type, comm, n, l, event);
        case kind::alltoall:
            return clEnqueueAlltoallBufferMPI(queue, m, blocking, w.send, s.count, s.type, m,
                                              w.recv, s.count, s.type, comm, n, l, event);
        case kind::alltoallv:
            for (int i = 0; i < s.size; ++i) {
                given.push_back(s.pair(me, i));
                got.push_back(s.pair(i, me));
            }
            return clEnqueueAlltoallvBufferMPI(queue, m, blocking, w.send, given.data(),
                                               w.send_places.data(), s.type, m, w.recv, got.data(),
                                               w.recv_places.data(), s.type, comm, n, l, event);
        case kind::reduce:
            return clEnqueueReduceBufferMPI(queue, m, blocking, w.send, m, w.recv, s.count, s.type,
                                            s.op, s.root, comm, n, l, event);
        case kind::allreduce:
            return clEnqueueAllreduceBufferMPI(queue, m, blocking, w.send, m, w.recv, s.count,
                                               s.type, s.op, comm, n, l, event);
        case kind::reduce_scatter:
            return clEnqueueReduceScatterBufferMPI(queue, m, blocking, w.send, m, w.recv,
                                                   s.counts.data(), s.type, s.op, comm, n, l,
                                                   event);
        default: return clEnqueueBarrierMPI(queue, blocking, comm, n, l, event);
    }
}

/// A command in flight or, without an event, an ended command.
class command final : public pending {
public:
    command(machine &m, const group &g, const step &s, generator &local)
        : pending(g.comm, kind_names[static_cast<int>(s.what)]),
          machine_(m),
          step_(s),
          me_(g.rank) {
        where_ = place(step_, me_, local);
        cl_int error = CL_SUCCESS;
        buffer_ = clCreateBuffer(m.device.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                 where_.before.size(), where_.before.data(), &error);
        require("clCreateBuffer", error, CL_SUCCESS);
        const bool fails = s.failing == me_;
        // A failing command gets its own queue, because later commands in a queue may fail, too.
        if (s.failing >= 0) {
            own_queue_ = clCreateCommandQueue(m.device.context, m.device.id, 0, &error);
            require("clCreateCommandQueue", error, CL_SUCCESS);
        }
        const cl_command_queue queue =
            own_queue_ != nullptr ? own_queue_ : m.queues[below(local, m.queues.size())];
        const bool gated = fails || one_in(local, 4);
        const bool blocking = s.failing < 0 && !gated && one_in(local, 4);
        std::vector<cl_event> list;
        if (gated) {
            list.push_back(clCreateUserEvent(m.device.context, &error));
            require("clCreateUserEvent", error, CL_SUCCESS);
        }
        if (blocking) {
            m.open_gates();
        }
        const cl_int code =
            issue(step_, queue, buffer_, blocking ? CL_TRUE : CL_FALSE, where_, g.comm, me_, list,
                  blocking && one_in(local, 2) ? nullptr : &event_);
        require(name.c_str(), code, CL_SUCCESS);
        if (fails) {
            require("clSetUserEventStatus", clSetUserEventStatus(list[0], -5), CL_SUCCESS);
            clReleaseEvent(list[0]);
        } else if (gated) {
            m.gates.push_back(list[0]);
        }
    }

    void finish() override {
        last_step = "waiting for " + name;
        machine_.open_gates();
        if (event_ != nullptr) {
            const cl_int code = clWaitForEvents(1, &event_);
            if (step_.failing < 0) {
                require(("clWaitForEvents of " + name).c_str(), code, CL_SUCCESS);
            }
            const cl_int wanted = step_.failing < 0 ? CL_COMPLETE
                                  : step_.failing == me_
                                      ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
                                      : CL_PEER_TRANSFER_FAILED;
            cl_int status = CL_QUEUED;
            require("clGetTransferInfo",
                    clGetTransferInfo(event_, CL_TRANSFER_STATUS, sizeof status, &status, nullptr),
                    CL_SUCCESS);
            require(("the status of " + name).c_str(), status, wanted);
            clReleaseEvent(event_);
        }
        if (step_.failing < 0) {
            compare();
        }
        clReleaseMemObject(buffer_);
        if (own_queue_ != nullptr) {
            clReleaseCommandQueue(own_queue_);
        }
    }

private:
    void compare() const {
        bytes found(where_.after.size());
        // A new queue, because the other queues may contain commands that wait for other processes.
        cl_int error = CL_SUCCESS;
        const cl_command_queue queue =
            clCreateCommandQueue(machine_.device.context, machine_.device.id, 0, &error);
        require("clEnqueueReadBuffer",
                clEnqueueReadBuffer(queue, buffer_, CL_TRUE, 0, found.size(), found.data(), 0,
                                    nullptr, nullptr),
                CL_SUCCESS);
        clReleaseCommandQueue(queue);
        for (std::size_t i = 0; i < found.size(); ++i) {
            if (found[i] != where_.after[i] && !where_.any[i]) {
                end_job(name + " of " + std::to_string(step_.count) + " elements of " +
                        std::to_string(step_.element) + " bytes, step " +
                        std::to_string(step_.number) + ": byte " + std::to_string(i) + " of " +
                        std::to_string(found.size()) + " is " + std::to_string(found[i]) +
                        ", not " + std::to_string(where_.after[i]) +
                        " (before: " + std::to_string(where_.before[i]) + "), sent from " +
                        std::to_string(where_.send) + " on, received from " +
                        std::to_string(where_.recv) + " on");
            }
        }
    }

    machine &machine_;
    const step step_;
    const int me_;
    placed where_;
    cl_mem buffer_ = nullptr;
    cl_command_queue own_queue_ = nullptr;
    cl_event event_ = nullptr;
};

// ---- the program's own calls ------------------------------------------------------------------

/// A non-blocking MPI collective on host memory, or a wildcard receive and a send to the next rank.
class own_call final : public pending {
public:
    own_call(const group &g, generator &shared, std::uint64_t number)
        : pending(g.comm, "the program's own call"),
          size_(g.size),
          number_(number),
          what_(below(shared, 5)),
          count_(1 + below(shared, one_in(shared, 3) ? 20000 : 20)),
          given_(count_),
          got_(count_ * static_cast<std::size_t>(size_)),
          next_((g.rank + g.size - 1) % g.size) {
        const int root = static_cast<int>(below(shared, static_cast<std::uint64_t>(g.size)));
        const int count = static_cast<int>(count_);
        for (std::size_t i = 0; i < count_; ++i) {
            given_[i] = value(g.rank, i);
        }
        root_ = root;
        switch (what_) {
            case 0: MPI_Ibarrier(comm, &request_); break;
            case 1:
                MPI_Iallreduce(given_.data(), got_.data(), count, MPI_INT, MPI_SUM, comm,
                               &request_);
                break;
            case 2: MPI_Ibcast(given_.data(), count, MPI_INT, root, comm, &request_); break;
            case 3:
                MPI_Iallgather(given_.data(), count, MPI_INT, got_.data(), count, MPI_INT, comm,
                               &request_);
                break;
            default:
                MPI_Irecv(got_.data(), count, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
                          &request_);
                MPI_Isend(given_.data(), count, MPI_INT, (g.rank + 1) % g.size,
                          static_cast<int>(number % 100), comm, &sent_);
        }
    }
    /// Two pending wildcard receives on one communicator would match each other's messages.
    [[nodiscard]] bool is_wildcard() const { return what_ == 4; }

    void finish() override {
        last_step = "waiting for call " + std::to_string(what_) + " of the program";
        MPI_Status status;
        MPI_Wait(&request_, &status);
        if (sent_ != MPI_REQUEST_NULL) {
            MPI_Wait(&sent_, MPI_STATUS_IGNORE);
            require("the source", status.MPI_SOURCE, next_);
        }
        for (std::size_t i = 0; i < count_; ++i) {
            long sum = 0;
            for (int rank = 0; rank < size_; ++rank) {
                sum += value(rank, i);
                if (what_ == 3) {
                    require("an element of MPI_Iallgather",
                            got_[static_cast<std::size_t>(rank) * count_ + i], value(rank, i));
                }
            }
            if (what_ == 1) {
                require("an element of MPI_Iallreduce", got_[i], sum);
            } else if (what_ == 2) {
                require("an element of MPI_Ibcast", given_[i], value(root_, i));
            } else if (what_ == 4) {
                require("an element of MPI_Irecv", got_[i], value(next_, i));
            }
        }
    }

private:
    [[nodiscard]] int value(int rank, std::size_t i) const {
        return static_cast<int>((number_ * 13 + static_cast<std::uint64_t>(rank) * 101 + i) % 997);
    }

    const int size_;
    const std::uint64_t number_;
    const std::uint64_t what_;
    const std::size_t count_;
    std::vector<int> given_;
    std::vector<int> got_;
    const int next_;  ///< the rank before this one
    int root_ = 0;
    MPI_Request request_ = MPI_REQUEST_NULL;
    MPI_Request sent_ = MPI_REQUEST_NULL;
};

/// Creates a communicator from all processes of another one or, by a split, from a part that
/// contains this process. `colors` is the same in all processes.
MPI_Comm construct(std::uint64_t how, const group &from, std::uint64_t colors) {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    switch (how) {
        case 0: MPI_Comm_dup(from.comm, &made); break;
        case 1:
            MPI_Comm_idup(from.comm, &made, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            break;
        case 2: MPI_Comm_split(from.comm, 0, -from.rank, &made); break;  // in reverse order
        case 3:
            MPI_Comm_split(from.comm,
                           static_cast<int>((colors >> static_cast<unsigned>(from.rank)) & 1U), 0,
                           &made);
            break;
        default:
            MPI_Comm_group(from.comm, &members);
            MPI_Comm_create(from.comm, members, &made);
            MPI_Group_free(&members);
    }
    return made;
}

// ---- a round ----------------------------------------------------------------------------------

/// A communicator has the same index in all processes. It is empty in processes that do not belong
/// to it, and after it is freed.
using groups = std::vector<std::optional<group>>;

void finish_all(std::vector<std::unique_ptr<pending>> &left,
                const std::function<bool(const pending &)> &which) {
    for (auto &each : left) {
        if (each != nullptr && which(*each)) {
            std::exchange(each, nullptr)->finish();
        }
    }
    std::erase(left, nullptr);
}

void run_round(machine &m, std::uint64_t seed) {
    generator shared(seed);
    generator local(seed * 1000003 + static_cast<std::uint64_t>(world_rank));
    groups all{group(MPI_COMM_WORLD)};
    std::vector<std::unique_ptr<pending>> left;
    const std::uint64_t steps = 15 + below(shared, 30);
    for (std::uint64_t i = 0; i < steps; ++i) {
        ++steps_done;
        const std::uint64_t what = below(shared, 10);
        // The newest communicator is used more often, because the first command on a communicator
        // is the main test.
        const std::size_t at = one_in(shared, 2) ? all.size() - 1 : below(shared, all.size());
        const std::uint64_t how = below(shared, 5);
        const std::uint64_t details = shared();
        std::optional<group> &on = all[at];
        generator of_step(details);
        if (what <= 1) {
            last_step = "construct " + std::to_string(how);
            m.open_gates();
            // The groups of one split share an index in `all`.
            const MPI_Comm made = on ? construct(how, *on, details) : MPI_COMM_NULL;
            all.emplace_back(made == MPI_COMM_NULL ? std::nullopt
                                                   : std::optional<group>(group(made)));
        } else if (what == 2 && at != 0) {
            last_step = "free";
            if (on) {
                m.open_gates();
                finish_all(left, [&](const pending &each) { return each.comm == on->comm; });
                MPI_Comm_free(&on->comm);
                on.reset();
            }
        } else if (what <= 4) {
            last_step = "the program's own call";
            if (on) {
                auto call = std::make_unique<own_call>(*on, of_step, seed + i);
                left.push_back(std::move(call));
                if (static_cast<own_call &>(*left.back()).is_wildcard()) {
                    m.open_gates();
                    std::unique_ptr<pending> last = std::move(left.back());
                    left.pop_back();
                    last->finish();
                }
            }
        } else if (on) {
            const step s = random_step(of_step, seed + i, on->size);
            last_step = std::string("command ") + kind_names[static_cast<int>(s.what)];
            left.push_back(std::make_unique<command>(m, *on, s, local));
        }
        if (one_in(local, 5) && !left.empty()) {
            const auto which = static_cast<std::ptrdiff_t>(below(local, left.size()));
            m.open_gates();
            left[static_cast<std::size_t>(which)]->finish();
            left.erase(left.begin() + which);
        }
        if (one_in(local, 10)) {
            std::this_thread::sleep_for(std::chrono::microseconds(below(local, 3000)));
        }
    }
    m.open_gates();
    finish_all(left, [](const pending &) { return true; });
    for (std::size_t i = 1; i < all.size(); ++i) {
        if (all[i]) {
            MPI_Comm_free(&all[i]->comm);
        }
    }
}

}  // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    std::uint64_t seed = std::random_device{}() % 1000000000ULL;
    std::uint64_t rounds = 0;
    double seconds = 3;
    unsigned patience = 60;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string option = argv[i];
        if (option == "--seed") {
            seed = std::strtoull(argv[i + 1], nullptr, 10);
        } else if (option == "--rounds") {
            rounds = std::strtoull(argv[i + 1], nullptr, 10);
        } else if (option == "--seconds") {
            seconds = std::strtod(argv[i + 1], nullptr);
        } else if (option == "--patience") {
            patience = static_cast<unsigned>(std::strtoul(argv[i + 1], nullptr, 10));
        } else {
            std::fprintf(stderr, "test_stress_collectives: no option \"%s\"\n", argv[i]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (world_rank == 0) {
        std::printf("seed %llu, %d processes\n", static_cast<unsigned long long>(seed), world_size);
        std::fflush(stdout);
    }
    machine m;
    std::atomic<bool> done{false};
    std::thread watchdog([&] {
        std::uint64_t seen = 0;
        for (unsigned quiet = 0; !done;) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            const std::uint64_t now = steps_done;
            quiet = now == seen ? quiet + 1 : 0;
            seen = now;
            if (quiet > patience * 10) {
                end_job("no progress for " + std::to_string(patience) + " s");
            }
        }
    });
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t round = 0;
    for (int more = 1;; ++round) {
        more =
            rounds != 0
                ? round < rounds
                : std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
                      seconds;
        round_seed = seed + round;
        // Rank 0's clock decides for all ranks.
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (more == 0) {
            break;
        }
        run_round(m, round_seed);
    }
    done = true;
    watchdog.join();
    if (world_rank == 0) {
        std::printf("%llu rounds without error\n", static_cast<unsigned long long>(round));
    }
    MPI_Finalize();
    return 0;
}
