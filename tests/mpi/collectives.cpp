/// Collective commands, compared with a sequential reference.

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t margin = 24;

template <typename T>
bytes bytes_of(const std::vector<T> &values) {
    bytes data(values.size() * sizeof(T));
    if (!data.empty()) {
        std::memcpy(data.data(), values.data(), data.size());
    }
    return data;
}

/// An element of MPI_MINLOC and MPI_MAXLOC.
template <typename V>
struct located {
    V value;
    int index;
};
template <typename T>
constexpr bool is_pair = requires(T element) {
    element.index;
};
/// Padding is zero.
template <typename V>
bytes bytes_of(const std::vector<located<V>> &pairs) {
    bytes data;
    for (const located<V> &pair : pairs) {
        bytes one(sizeof pair);
        std::memcpy(one.data(), &pair.value, sizeof pair.value);
        std::memcpy(one.data() + offsetof(located<V>, index), &pair.index, sizeof pair.index);
        data.insert(data.end(), one.begin(), one.end());
    }
    return data;
}

/// A rank's input: small numbers, so that sums are exact in any order.
template <typename T>
std::vector<T> values(int rank, std::size_t count) {
    std::vector<T> data(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t number = (static_cast<std::size_t>(rank) * 7 + i * 3) % 5 + 1;
        if constexpr (is_pair<T>) {
            data[i].value = static_cast<decltype(T::value)>(number);
            data[i].index = (static_cast<int>(i % 3) - rank) % 3;
        } else {
            data[i] = static_cast<T>(number);
        }
    }
    return data;
}

/// Issues and awaits commands: in rotation non-blocking, blocking, and blocking with an event.
class issuer {
public:
    explicit issuer(const mpi_view &mpi_in) : mpi(mpi_in), queue(cl.in_order_queue()) {}

    using call = std::function<cl_int(cl_bool blocking, cl_event *event)>;

    void operator()(const call &issue) {
        event_handle event;
        const int turn = turns++ % 3;
        CAPTURE(turn);
        CL_OK(issue(turn == 0 ? CL_FALSE : CL_TRUE, turn == 1 ? nullptr : event.out()));
        if (turn != 1) {
            expect_complete(event);
        }
    }

    /// A buffer with `data` at `offset`, and pattern 77 around it.
    buffer_handle holding(std::size_t offset, const bytes &data) const {
        buffer_handle buffer = cl.filled(offset + data.size() + margin, 77);
        cl.write(buffer, offset, data);
        return buffer;
    }
    /// A buffer filled with pattern 78, for `size` bytes at `offset`.
    buffer_handle room(std::size_t offset, std::size_t size) const {
        return cl.filled(offset + size + margin, 78);
    }
    /// Checks that the buffer contains `data` at `offset` and the unchanged pattern around it.
    void expect(cl_mem buffer, std::size_t offset, const bytes &data,
                std::uint64_t seed = 78) const {
        bytes all = pattern(seed, offset + data.size() + margin);
        std::copy(data.begin(), data.end(), all.begin() + static_cast<std::ptrdiff_t>(offset));
        const bytes found = cl.read(buffer, 0, all.size());
        CHECK((found == all));
    }

    const mpi_view &mpi;
    opencl cl;
    queue_handle queue;

private:
    int turns = 0;
};

struct operator_of {
    std::string name;
    MPI_Op op;
};

/// The operators that MPI allows for T, an integer or floating-point type or a pair.
template <typename T>
std::vector<operator_of> operators() {
    if (is_pair<T>) {
        return {{"minloc", MPI_MINLOC}, {"maxloc", MPI_MAXLOC}};
    }
    std::vector<operator_of> all{
        {"sum", MPI_SUM}, {"max", MPI_MAX}, {"min", MPI_MIN}, {"prod", MPI_PROD}};
    if (std::numeric_limits<T>::is_integer) {
        all.insert(all.end(), {{"land", MPI_LAND},
                               {"band", MPI_BAND},
                               {"lor", MPI_LOR},
                               {"bor", MPI_BOR},
                               {"lxor", MPI_LXOR},
                               {"bxor", MPI_BXOR}});
    }
    return all;
}

template <typename T>
T combine(MPI_Op op, T a, T b) {
    if (op == MPI_MAX) {
        return std::max(a, b);
    }
    if (op == MPI_MIN) {
        return std::min(a, b);
    }
    if (op == MPI_SUM) {
        return static_cast<T>(a + b);
    }
    if (op == MPI_PROD) {
        return static_cast<T>(a * b);
    }
    if constexpr (std::numeric_limits<T>::is_integer) {
        if (op == MPI_LAND) {
            return static_cast<T>(a != 0 && b != 0);
        }
        if (op == MPI_LOR) {
            return static_cast<T>(a != 0 || b != 0);
        }
        if (op == MPI_LXOR) {
            return static_cast<T>((a != 0) != (b != 0));
        }
        if (op == MPI_BAND) {
            return static_cast<T>(a & b);
        }
        if (op == MPI_BOR) {
            return static_cast<T>(a | b);
        }
        if (op == MPI_BXOR) {
            return static_cast<T>(a ^ b);
        }
    }
    FAIL("no such operator");
    return a;
}

template <typename V>
located<V> combine(MPI_Op op, located<V> a, located<V> b) {
    if (a.value == b.value) {
        return {a.value, std::min(a.index, b.index)};
    }
    return (b.value < a.value) == (op == MPI_MINLOC) ? b : a;
}

template <typename T>
std::vector<T> reduced(MPI_Op op, int ranks, std::size_t count) {
    std::vector<T> all = values<T>(0, count);
    for (int rank = 1; rank < ranks; ++rank) {
        const std::vector<T> more = values<T>(rank, count);
        for (std::size_t i = 0; i < count; ++i) {
            all[i] = combine(op, all[i], more[i]);
        }
    }
    return all;
}

template <typename T>
void reduce_everywhere(issuer &issue, MPI_Datatype type, MPI_Op op, std::size_t count,
                       std::size_t from, std::size_t to) {
    const mpi_view &mpi = issue.mpi;
    const bytes mine = bytes_of(values<T>(mpi.rank, count));
    const bytes wanted = bytes_of(reduced<T>(op, mpi.size, count));
    const int root = static_cast<int>(count) % mpi.size;
    {
        const buffer_handle in = issue.holding(from, mine);
        const buffer_handle out = issue.room(to, mine.size());
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueAllreduceBufferMPI(issue.queue, in, blocking, from, out, to, count,
                                               type, op, mpi.comm, 0, nullptr, event);
        });
        issue.expect(out, to, wanted);
        issue.expect(in, from, mine, 77);
    }
    {
        const buffer_handle both = issue.holding(from, mine);
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueAllreduceBufferMPI(issue.queue, both, blocking, from, both, from, count,
                                               type, op, mpi.comm, 0, nullptr, event);
        });
        issue.expect(both, from, wanted, 77);
    }
    for (const bool in_place : {false, true}) {
        CAPTURE(in_place);
        const buffer_handle in = issue.holding(from, mine);
        const buffer_handle out = issue.room(to, mine.size());
        const bool gets = mpi.rank == root;
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueReduceBufferMPI(issue.queue, in, blocking, from,
                                            !gets      ? nullptr
                                            : in_place ? in.get()
                                                       : out.get(),
                                            in_place ? from : to, count, type, op, root, mpi.comm,
                                            0, nullptr, event);
        });
        issue.expect(in, from, in_place && gets ? wanted : mine, 77);
        if (gets && !in_place) {
            issue.expect(out, to, wanted);
        } else {
            issue.cl.expect(out, 0, to + mine.size(), 78);
        }
    }
    // Each rank gets a range of a different size; the second rank's range is empty.
    std::vector<std::size_t> counts(static_cast<std::size_t>(mpi.size));
    std::size_t left = count;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        counts[i] = i + 1 == counts.size() ? left : i == 1 ? 0 : std::min(left, count / 4 + i);
        left -= counts[i];
    }
    const auto own = counts[static_cast<std::size_t>(mpi.rank)] * sizeof(T);
    const auto before =
        std::accumulate(counts.begin(), counts.begin() + mpi.rank, std::size_t{0}) * sizeof(T);
    const auto at = [](std::size_t i) { return static_cast<std::ptrdiff_t>(i); };
    const bytes part(wanted.begin() + at(before), wanted.begin() + at(before + own));
    {
        const buffer_handle in = issue.holding(from, mine);
        const buffer_handle out = issue.room(to, own);
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueReduceScatterBufferMPI(issue.queue, in, blocking, from, out, to,
                                                   counts.data(), type, op, mpi.comm, 0, nullptr,
                                                   event);
        });
        issue.expect(out, to, part);
        issue.expect(in, from, mine, 77);
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueReduceScatterBufferMPI(issue.queue, in, blocking, from, in, from,
                                                   counts.data(), type, op, mpi.comm, 0, nullptr,
                                                   event);
        });
        const bytes found = issue.cl.read(in, 0, from + own);
        CHECK((bytes(found.begin() + at(from), found.end()) == part));
        issue.cl.expect(in, 0, from, 77);
    }
}

template <typename T>
void reduce_type(issuer &issue, const std::string &name, MPI_Datatype type) {
    CAPTURE(name);
    for (const operator_of &each : operators<T>()) {
        CAPTURE(each.name);
        for (const std::size_t count : {0, 1, 5, 333}) {
            CAPTURE(count);
            reduce_everywhere<T>(issue, type, each.op, count, sizeof(T), 2 * sizeof(T));
        }
        reduce_everywhere<T>(issue, type, each.op, 17, 3, 13);
    }
    // Sizes below and above the limit of the one-exchange algorithm.
    for (const std::size_t bytes_each : {8000, 30000, 200000}) {
        reduce_everywhere<T>(issue, type, operators<T>().front().op, bytes_each / sizeof(T),
                             sizeof(T), 2 * sizeof(T));
    }
}

/// The message of rank `from` for rank `to`.
bytes part_for(int from, int to, std::size_t size) {
    return pattern(static_cast<std::uint64_t>(from) * 100 + static_cast<std::uint64_t>(to), size);
}

bytes joined(int ranks, const std::function<bytes(int)> &part) {
    bytes all;
    for (int i = 0; i < ranks; ++i) {
        const bytes more = part(i);
        all.insert(all.end(), more.begin(), more.end());
    }
    return all;
}

/// All collectives that move parts of equal size, in place and not in place.
void move_evenly(issuer &issue, MPI_Datatype type, std::size_t element, std::size_t count,
                 std::size_t from, std::size_t to) {
    const mpi_view &mpi = issue.mpi;
    const std::size_t size = count * element;
    const int root = static_cast<int>(count + from) % mpi.size;
    CAPTURE(size);
    CAPTURE(from);
    CAPTURE(to);
    const bytes own = part_for(mpi.rank, 0, size);
    const std::size_t my_place = static_cast<std::size_t>(mpi.rank) * size;
    const bool is_root = mpi.rank == root;
    {
        const bytes sent = part_for(root, 9, size);
        const buffer_handle buffer = is_root ? issue.holding(from, sent) : issue.room(from, size);
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueBcastBufferMPI(issue.queue, buffer, blocking, from, count, type, root,
                                           mpi.comm, 0, nullptr, event);
        });
        issue.expect(buffer, from, sent, is_root ? 77 : 78);
    }
    const bytes gathered = joined(mpi.size, [&](int rank) { return part_for(rank, 0, size); });
    for (const bool in_place : {false, true}) {
        CAPTURE(in_place);
        const buffer_handle in = issue.holding(from, own);
        const buffer_handle out = issue.room(to, gathered.size());
        if (in_place) {
            issue.cl.write(out, to + my_place, own);
        }
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueAllgatherBufferMPI(issue.queue, in_place ? out.get() : in.get(),
                                               blocking, in_place ? to + my_place : from, count,
                                               type, out, to, count, type, mpi.comm, 0, nullptr,
                                               event);
        });
        issue.expect(out, to, gathered);
    }
    for (const bool in_place : {false, true}) {
        CAPTURE(in_place);
        const buffer_handle in = issue.holding(from, own);
        const buffer_handle out = issue.room(to, gathered.size());
        const bool at_place = in_place && is_root;
        if (at_place) {
            issue.cl.write(out, to + my_place, own);
        }
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueGatherBufferMPI(issue.queue, at_place ? out.get() : in.get(), blocking,
                                            at_place ? to + my_place : from, count, type,
                                            is_root ? out.get() : nullptr, to, is_root ? count : 99,
                                            is_root ? type : MPI_DATATYPE_NULL, root, mpi.comm, 0,
                                            nullptr, event);
        });
        if (is_root) {
            issue.expect(out, to, gathered);
        } else {
            issue.cl.expect(out, 0, to + gathered.size(), 78);
        }
    }
    const bytes scattered = joined(mpi.size, [&](int rank) { return part_for(root, rank, size); });
    for (const bool in_place : {false, true}) {
        CAPTURE(in_place);
        const buffer_handle in = issue.holding(from, scattered);
        const buffer_handle out = issue.room(to, size);
        const bool at_place = in_place && is_root;
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueScatterBufferMPI(
                issue.queue, is_root ? in.get() : nullptr, blocking, from, is_root ? count : 0,
                is_root ? type : MPI_DATATYPE_NULL, at_place ? in.get() : out.get(),
                at_place ? from + my_place : to, count, type, root, mpi.comm, 0, nullptr, event);
        });
        issue.expect(in, from, scattered, 77);
        if (!at_place) {
            issue.expect(out, to, part_for(root, mpi.rank, size));
        }
    }
    const bytes to_all = joined(mpi.size, [&](int rank) { return part_for(mpi.rank, rank, size); });
    const bytes from_all =
        joined(mpi.size, [&](int rank) { return part_for(rank, mpi.rank, size); });
    for (const bool in_place : {false, true}) {
        CAPTURE(in_place);
        const buffer_handle in = issue.holding(from, to_all);
        const buffer_handle out = issue.room(to, to_all.size());
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueAlltoallBufferMPI(issue.queue, in, blocking, from, count, type,
                                              in_place ? in.get() : out.get(), in_place ? from : to,
                                              count, type, mpi.comm, 0, nullptr, event);
        });
        if (in_place) {
            issue.expect(in, from, from_all, 77);
        } else {
            issue.expect(out, to, from_all);
            issue.expect(in, from, to_all, 77);
        }
    }
}

/// Number of elements that rank `from` sends to rank `to`, which may be 0.
std::size_t count_for(int from, int to, std::size_t scale) {
    return static_cast<std::size_t>((from * 3 + to * 5) % 4) * scale;
}

/// Counts and displacements. The parts are in reverse order of the ranks, with gaps between them.
struct layout {
    layout(int ranks, const std::function<std::size_t(int)> &count) {
        places.resize(static_cast<std::size_t>(ranks));
        std::size_t at = 2;
        for (int i = ranks; i-- != 0;) {
            places[static_cast<std::size_t>(i)] = at;
            at += count(i) + 3;
        }
        for (int i = 0; i < ranks; ++i) {
            counts.push_back(count(i));
        }
        end = at;
    }
    /// `data` with each rank's part at its displacement.
    bytes with(bytes data, std::size_t element, const std::function<bytes(int)> &part) const {
        for (std::size_t i = 0; i < counts.size(); ++i) {
            const bytes more = part(static_cast<int>(i));
            std::copy(more.begin(), more.end(),
                      data.begin() + static_cast<std::ptrdiff_t>(places[i] * element));
        }
        return data;
    }

    std::vector<std::size_t> counts;
    std::vector<std::size_t> places;
    std::size_t end = 0;
};

void move_unevenly(issuer &issue, MPI_Datatype type, std::size_t element, std::size_t scale,
                   std::size_t from, std::size_t to) {
    const mpi_view &mpi = issue.mpi;
    CAPTURE(element);
    CAPTURE(scale);
    const int me = mpi.rank;
    const auto my = static_cast<std::size_t>(me);
    const int root = static_cast<int>(scale) % mpi.size;
    const bool is_root = me == root;
    const auto part = [&](int source, int dest) {
        return part_for(source, dest, count_for(source, dest, scale) * element);
    };
    const auto to_root = [&](int rank) { return part(rank, root); };

    for (const bool for_all : {true, false}) {
        for (const bool in_place : {false, true}) {
            CAPTURE(for_all);
            CAPTURE(in_place);
            const layout places(mpi.size, [&](int rank) { return count_for(rank, root, scale); });
            const bytes blank = pattern(78, to + places.end * element);
            const bytes own = to_root(me);
            const bool at_place = in_place && (for_all || is_root);
            const buffer_handle in = issue.holding(from, own);
            const buffer_handle out = issue.room(to, places.end * element);
            const std::size_t own_place = to + places.places[my] * element;
            if (at_place) {
                issue.cl.write(out, own_place, own);
            }
            issue([&](cl_bool blocking, cl_event *event) {
                if (for_all) {
                    return clEnqueueAllgathervBufferMPI(
                        issue.queue, at_place ? out.get() : in.get(), blocking,
                        at_place ? own_place : from, places.counts[my], type, out, to,
                        places.counts.data(), places.places.data(), type, mpi.comm, 0, nullptr,
                        event);
                }
                return clEnqueueGathervBufferMPI(
                    issue.queue, at_place ? out.get() : in.get(), blocking,
                    at_place ? own_place : from, places.counts[my], type,
                    is_root ? out.get() : nullptr, to, is_root ? places.counts.data() : nullptr,
                    places.places.data(), type, root, mpi.comm, 0, nullptr, event);
            });
            const bytes there(blank.begin() + static_cast<std::ptrdiff_t>(to), blank.end());
            issue.expect(out, to,
                         for_all || is_root ? places.with(there, element, to_root) : there);
        }
    }
    for (const bool in_place : {false, true}) {
        CAPTURE(in_place);
        const layout places(mpi.size, [&](int rank) { return count_for(root, rank, scale); });
        const bytes given = places.with(bytes(places.end * element, 5), element,
                                        [&](int rank) { return part(root, rank); });
        const bool at_place = in_place && is_root;
        const buffer_handle in = issue.holding(from, given);
        const buffer_handle out = issue.room(to, places.counts[my] * element);
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueScattervBufferMPI(
                issue.queue, is_root ? in.get() : nullptr, blocking, from,
                is_root ? places.counts.data() : nullptr, places.places.data(), type,
                at_place ? in.get() : out.get(), at_place ? from + places.places[my] * element : to,
                places.counts[my], type, root, mpi.comm, 0, nullptr, event);
        });
        issue.expect(in, from, given, 77);
        if (!at_place) {
            issue.expect(out, to, part(root, me));
        }
    }
    {
        const layout gives(mpi.size, [&](int rank) { return count_for(me, rank, scale); });
        const layout gets(mpi.size, [&](int rank) { return count_for(rank, me, scale); });
        const bytes given = gives.with(bytes(gives.end * element, 5), element,
                                       [&](int rank) { return part(me, rank); });
        const buffer_handle in = issue.holding(from, given);
        const buffer_handle out = issue.room(to, gets.end * element);
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueAlltoallvBufferMPI(
                issue.queue, in, blocking, from, gives.counts.data(), gives.places.data(), type,
                out, to, gets.counts.data(), gets.places.data(), type, mpi.comm, 0, nullptr, event);
        });
        const bytes blank = pattern(78, to + gets.end * element);
        const bytes there(blank.begin() + static_cast<std::ptrdiff_t>(to), blank.end());
        issue.expect(out, to, gets.with(there, element, [&](int rank) { return part(rank, me); }));
        issue.expect(in, from, given, 77);
    }
    {
        // In place, two processes must exchange equal sizes.
        const auto both = [&](int a, int b) {
            return count_for(std::min(a, b), std::max(a, b), scale);
        };
        const layout places(mpi.size, [&](int rank) { return both(me, rank); });
        const auto filled = [&](bool got) {
            return places.with(bytes(places.end * element, 5), element, [&](int rank) {
                return part_for(got ? rank : me, got ? me : rank, both(me, rank) * element);
            });
        };
        const buffer_handle buffer = issue.holding(from, filled(false));
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueAlltoallvBufferMPI(
                issue.queue, buffer, blocking, from, places.counts.data(), places.places.data(),
                type, buffer, from, places.counts.data(), places.places.data(), type, mpi.comm, 0,
                nullptr, event);
        });
        issue.expect(buffer, from, filled(true), 77);
    }
}

struct collective {
    std::string name;
    /// Issues the collective for a few elements in `in` and `out`.
    std::function<cl_int(cl_command_queue queue, cl_bool blocking, cl_uint number,
                         const cl_event *events, cl_event *event)>
        issue;
};

/// One collective of each kind. Fills `sizes` (the counts of all ranks), which the result uses.
std::vector<collective> all_kinds(const mpi_view &mpi, cl_mem in, cl_mem out,
                                  std::vector<std::size_t> &sizes) {
    sizes.assign(static_cast<std::size_t>(mpi.size), 8);
    static std::vector<std::size_t> places;
    places.clear();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        places.push_back(8 * i);
    }
    MPI_Comm const comm = mpi.comm;
    const std::size_t *const counts = sizes.data();
    const std::size_t *const at = places.data();
    return {
        {"barrier",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueBarrierMPI(queue, blocking, comm, n, list, event);
         }},
        {"bcast",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueBcastBufferMPI(queue, in, blocking, 0, 8, MPI_INT, 0, comm, n, list,
                                            event);
         }},
        {"reduce",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueReduceBufferMPI(queue, in, blocking, 0, out, 0, 8, MPI_INT, MPI_SUM, 0,
                                             comm, n, list, event);
         }},
        {"allreduce",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueAllreduceBufferMPI(queue, in, blocking, 0, out, 0, 8, MPI_INT, MPI_SUM,
                                                comm, n, list, event);
         }},
        {"large allreduce",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueAllreduceBufferMPI(queue, in, blocking, 0, out, 0, 3 * MiB, MPI_INT,
                                                MPI_SUM, comm, n, list, event);
         }},
        {"reduce_scatter",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueReduceScatterBufferMPI(queue, in, blocking, 0, out, 0, counts, MPI_INT,
                                                    MPI_SUM, comm, n, list, event);
         }},
        {"gather",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueGatherBufferMPI(queue, in, blocking, 0, 8, MPI_INT, out, 0, 8, MPI_INT,
                                             0, comm, n, list, event);
         }},
        {"gatherv",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueGathervBufferMPI(queue, in, blocking, 0, 8, MPI_INT, out, 0, counts,
                                              at, MPI_INT, 0, comm, n, list, event);
         }},
        {"allgather",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueAllgatherBufferMPI(queue, in, blocking, 0, 8, MPI_INT, out, 0, 8,
                                                MPI_INT, comm, n, list, event);
         }},
        {"allgatherv",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueAllgathervBufferMPI(queue, in, blocking, 0, 8, MPI_INT, out, 0, counts,
                                                 at, MPI_INT, comm, n, list, event);
         }},
        {"scatter",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueScatterBufferMPI(queue, in, blocking, 0, 8, MPI_INT, out, 0, 8,
                                              MPI_INT, 0, comm, n, list, event);
         }},
        {"scatterv",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueScattervBufferMPI(queue, in, blocking, 0, counts, at, MPI_INT, out, 0,
                                               8, MPI_INT, 0, comm, n, list, event);
         }},
        {"alltoall",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueAlltoallBufferMPI(queue, in, blocking, 0, 8, MPI_INT, out, 0, 8,
                                               MPI_INT, comm, n, list, event);
         }},
        {"alltoallv",
         [=](auto queue, auto blocking, auto n, auto list, auto event) {
             return clEnqueueAlltoallvBufferMPI(queue, in, blocking, 0, counts, at, MPI_INT, out, 0,
                                                counts, at, MPI_INT, comm, n, list, event);
         }},
    };
}

event_handle allreduce(cl_command_queue queue, cl_mem in, cl_mem out, std::size_t count,
                       MPI_Comm comm, wait_list events = {}) {
    event_handle event;
    CL_OK(clEnqueueAllreduceBufferMPI(queue, in, CL_FALSE, 0, out, 0, count, MPI_INT, MPI_SUM, comm,
                                      static_cast<cl_uint>(events.size()), data_of(events),
                                      event.out()));
    return event;
}

}  // namespace

MPI_CASE("reductions of all datatypes and operators equal a sequential reduction", 1) {
    issuer issue(mpi);
    reduce_type<std::int8_t>(issue, "int8", MPI_INT8_T);
    reduce_type<std::uint8_t>(issue, "uint8", MPI_UINT8_T);
    reduce_type<std::int16_t>(issue, "int16", MPI_INT16_T);
    reduce_type<std::uint16_t>(issue, "uint16", MPI_UINT16_T);
    reduce_type<std::int32_t>(issue, "int32", MPI_INT32_T);
    reduce_type<std::uint32_t>(issue, "uint32", MPI_UINT32_T);
    reduce_type<std::int64_t>(issue, "int64", MPI_INT64_T);
    reduce_type<std::uint64_t>(issue, "uint64", MPI_UINT64_T);
    reduce_type<float>(issue, "float", MPI_FLOAT);
    reduce_type<double>(issue, "double", MPI_DOUBLE);
    reduce_type<located<float>>(issue, "float and int", MPI_FLOAT_INT);
    reduce_type<located<double>>(issue, "double and int", MPI_DOUBLE_INT);
    reduce_type<located<long>>(issue, "long and int", MPI_LONG_INT);
    reduce_type<located<int>>(issue, "two int", MPI_2INT);
    reduce_type<located<short>>(issue, "short and int", MPI_SHORT_INT);
    // Only MPI combines this type.
    reduce_type<std::int8_t>(issue, "signed char", MPI_SIGNED_CHAR);
}

MPI_CASE("collectives of equal sizes deliver the bytes, at offsets that are not aligned", 1) {
    issuer issue(mpi);
    MPI_Datatype three = MPI_DATATYPE_NULL;
    MPI_OK(MPI_Type_contiguous(3, MPI_BYTE, &three));
    for (const std::size_t count : {0, 1, 2, 63, 1000, 65536}) {
        move_evenly(issue, MPI_BYTE, 1, count, 0, 0);
        move_evenly(issue, MPI_INT, 4, count, 5, 3);
        move_evenly(issue, three, 3, count, 1, 2);
    }
    move_evenly(issue, MPI_DOUBLE, 8, 700001, 8, 1);
    MPI_OK(MPI_Type_free(&three));
}

MPI_CASE("collectives with a size for each process deliver the bytes, and leave the gaps unchanged",
         1) {
    issuer issue(mpi);
    for (const std::size_t scale : {0, 1, 7, 4096}) {
        move_unevenly(issue, MPI_BYTE, 1, scale, 1, 2);
        move_unevenly(issue, MPI_DOUBLE, 8, scale, 8, 24);
    }
    move_unevenly(issue, MPI_INT, 4, 300007, 4, 7);
}

MPI_CASE("large broadcasts and reductions of many blocks equal a sequential reference", 1) {
    issuer issue(mpi);
    const std::size_t count = 6 * MiB + 13;
    const bytes mine = bytes_of(values<std::int32_t>(mpi.rank, count));
    const bytes wanted = bytes_of(reduced<std::int32_t>(MPI_SUM, mpi.size, count));
    const buffer_handle in = issue.holding(4, mine);
    const buffer_handle out = issue.room(8, mine.size());
    for (int i = 0; i < 2; ++i) {
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueAllreduceBufferMPI(issue.queue, in, blocking, 4, out, 8, count,
                                               MPI_INT32_T, MPI_SUM, mpi.comm, 0, nullptr, event);
        });
        issue.expect(out, 8, wanted);
        issue([&](cl_bool blocking, cl_event *event) {
            return clEnqueueBcastBufferMPI(issue.queue, mpi.rank == 0 ? in.get() : out.get(),
                                           blocking, 8, mine.size() - 16, MPI_BYTE, 0, mpi.comm, 0,
                                           nullptr, event);
        });
        const bytes first = bytes_of(values<std::int32_t>(0, count));
        const bytes found =
            issue.cl.read(mpi.rank == 0 ? in.get() : out.get(), 8, mine.size() - 16);
        CHECK(std::equal(found.begin(), found.end(), first.begin() + 4));
    }
}

MPI_CASE(
    "if a wait list fails in one process, the command fails in all, and the next command succeeds",
    2) {
    const opencl cl;
    const buffer_handle in = cl.filled(12 * MiB, 1);
    const buffer_handle out = cl.filled(12 * MiB, 2);
    const auto size = static_cast<std::size_t>(mpi.size) * 32;
    std::vector<std::size_t> sizes;
    int failing = 0;
    for (const queue_set &queues : cl.independent_queues(2)) {
        CAPTURE(queues.kind);
        for (const collective &each : all_kinds(mpi, in, out, sizes)) {
            CAPTURE(each.name);
            failing = (failing + 1) % mpi.size;
            const bool fails = mpi.rank == failing;
            const event_handle gate = cl.user_event();
            const cl_event list[] = {gate};
            event_handle event;
            CL_OK(each.issue(queues[0], CL_FALSE, fails ? 1 : 0, fails ? list : nullptr,
                             event.out()));
            event_handle next;
            CL_OK(each.issue(queues[1], CL_FALSE, 0, nullptr, next.out()));
            CL_OK(clSetUserEventStatus(gate, -77));
            expect_failure(event, fails ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
                                        : CL_PEER_TRANSFER_FAILED);
            expect_complete(next);
        }
    }
    cl.expect(in, size, 12 * MiB - size, 1, size);
}

MPI_CASE("a blocking command whose wait list has failed takes part, and fails in all processes",
         2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle in = cl.filled(12 * MiB, 1);
    const buffer_handle out = cl.filled(12 * MiB, 2);
    std::vector<std::size_t> sizes;
    bool wants_event = false;
    for (const collective &each : all_kinds(mpi, in, out, sizes)) {
        CAPTURE(each.name);
        wants_event = !wants_event;
        const bool fails = mpi.rank == 1;
        const event_handle gate = cl.user_event();
        CL_OK(clSetUserEventStatus(gate, -77));
        const cl_event list[] = {gate};
        event_handle event;
        const cl_int code = each.issue(queue, CL_TRUE, fails ? 1 : 0, fails ? list : nullptr,
                                       wants_event ? event.out() : nullptr);
        CHECK(code ==
              (fails ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : CL_PEER_TRANSFER_FAILED));
        CL_OK(each.issue(queue, CL_TRUE, 0, nullptr, nullptr));
    }
}

MPI_CASE(
    "commands on one communicator take part in the order of the calls, whatever their queues and "
    "wait lists",
    2) {
    const opencl cl;
    for (const queue_set &queues : cl.independent_queues(2)) {
        CAPTURE(queues.kind);
        const buffer_handle first = cl.filled(64, 1);
        const buffer_handle second = cl.filled(64, 2);
        const buffer_handle first_out = cl.buffer(64);
        const buffer_handle second_out = cl.buffer(64);
        const std::vector<std::int32_t> ones(16, 1);
        const std::vector<std::int32_t> twos(16, 2);
        cl.write(first, 0, bytes_of(ones));
        cl.write(second, 0, bytes_of(twos));
        const event_handle gate = cl.user_event();
        event_handle one;
        event_handle two;
        if (mpi.rank == 0) {
            one = allreduce(queues[0], first, first_out, 16, mpi.comm, {gate});
            two = allreduce(queues[1], second, second_out, 16, mpi.comm);
            await_start(two);
            CHECK(transfer_info<std::size_t>(two, CL_TRANSFER_BYTES) == 0);
            CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
        } else {
            one = allreduce(queues[0], first, first_out, 16, mpi.comm);
            two = allreduce(queues[1], second, second_out, 16, mpi.comm);
        }
        expect_complete(one);
        expect_complete(two);
        const std::vector<std::int32_t> sums(16, mpi.size);
        const std::vector<std::int32_t> more(16, 2 * mpi.size);
        CHECK((cl.read(first_out, 0, 64) == bytes_of(sums)));
        CHECK((cl.read(second_out, 0, 64) == bytes_of(more)));
    }
}

MPI_CASE("commands on different communicators don't wait for each other", 2) {
    const opencl cl;
    MPI_Comm other = MPI_COMM_NULL;
    MPI_OK(MPI_Comm_dup(mpi.comm, &other));
    for (const queue_set &queues : cl.independent_queues(2)) {
        CAPTURE(queues.kind);
        const buffer_handle buffer = cl.filled(64, 1);
        const buffer_handle out = cl.buffer(64);
        const buffer_handle other_out = cl.buffer(64);
        const event_handle gate = cl.user_event();
        const event_handle held = allreduce(queues[0], buffer, out, 16, mpi.comm, {gate});
        expect_complete(allreduce(queues[1], buffer, other_out, 16, other));
        CHECK(status_of(held) > CL_COMPLETE);
        CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
        expect_complete(held);
    }
    MPI_OK(MPI_Comm_free(&other));
}

MPI_CASE("enqueueing waits for no other process, even for the first command on a communicator", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle in = cl.filled(64, 1);
    const buffer_handle out = cl.buffer(64);
    MPI_Comm fresh = MPI_COMM_NULL;
    MPI_OK(MPI_Comm_dup(mpi.comm, &fresh));
    event_handle event;
    if (mpi.rank == 0) {
        event = allreduce(queue, in, out, 16, fresh);
        for (int rank = 1; rank < mpi.size; ++rank) {
            tell(mpi, rank);
        }
    } else {
        await(mpi, 0);
        event = allreduce(queue, in, out, 16, fresh);
    }
    expect_complete(event);
    MPI_OK(MPI_Comm_free(&fresh));
}

MPI_CASE("queues and events order collectives and kernels", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const queue_handle other = cl.in_order_queue();
    const buffer_handle in = cl.buffer(64);
    const kernel_handle add_one = cl.kernel("add_one");
    const cl_mem argument = in;
    CL_OK(clSetKernelArg(add_one, 0, sizeof(argument), &argument));
    const auto start = static_cast<unsigned char>(mpi.rank);
    cl.write(in, 0, bytes(64, start));
    constexpr std::size_t items = 64;
    event_handle reduced;
    for (int i = 0; i < 20; ++i) {
        // in = the maximum of all ranks' `in`, plus 1
        event_handle added;
        const cl_event before[] = {reduced};
        CL_OK(clEnqueueNDRangeKernel(queue, add_one, 1, nullptr, &items, nullptr,
                                     reduced.get() != nullptr ? 1 : 0,
                                     reduced.get() != nullptr ? before : nullptr, added.out()));
        const cl_event list[] = {added};
        CL_OK(clEnqueueAllreduceBufferMPI(other, in, CL_FALSE, 0, in, 0, 64, MPI_UINT8_T, MPI_MAX,
                                          mpi.comm, 1, list, reduced.out()));
    }
    expect_complete(reduced);
    CHECK((cl.read(in, 0, 64) == bytes(64, static_cast<unsigned char>(mpi.size - 1 + 20))));
}

MPI_CASE("each thread uses its own communicator while the program runs its own collectives on them",
         2) {
    const opencl cl;
    constexpr std::size_t threads = 3;
    std::vector<MPI_Comm> comms(threads);
    for (MPI_Comm &comm : comms) {
        MPI_OK(MPI_Comm_dup(mpi.comm, &comm));
    }
    std::vector<queue_handle> queues;
    std::vector<buffer_handle> buffers;
    constexpr std::size_t most = 1536 * 1024;  // integers, which fill two blocks
    for (std::size_t i = 0; i < threads; ++i) {
        queues.push_back(cl.in_order_queue());
        buffers.push_back(cl.buffer(most * 4));
    }
    std::atomic<int> wrong = 0;
    std::vector<std::thread> all;
    for (std::size_t i = 0; i < threads; ++i) {
        all.emplace_back([&, i] {
            std::vector<int> values;
            for (int round = 0; round < 24; ++round) {
                const std::size_t count = round % 8 == 7 ? most : round % 3 == 0 ? 9000 : 5;
                values.assign(count, mpi.rank + round);
                bool well = clEnqueueWriteBuffer(queues[i], buffers[i], CL_TRUE, 0, count * 4,
                                                 values.data(), 0, nullptr, nullptr) == CL_SUCCESS;
                well = clEnqueueAllreduceBufferMPI(queues[i], buffers[i],
                                                   round % 2 == 0 ? CL_FALSE : CL_TRUE, 0,
                                                   buffers[i], 0, count, MPI_INT, MPI_SUM, comms[i],
                                                   0, nullptr, nullptr) == CL_SUCCESS &&
                       well;
                int sum = 0;
                MPI_Allreduce(&mpi.rank, &sum, 1, MPI_INT, MPI_SUM, comms[i]);
                well = clEnqueueReadBuffer(queues[i], buffers[i], CL_TRUE, 0, count * 4,
                                           values.data(), 0, nullptr, nullptr) == CL_SUCCESS &&
                       well;
                well = well && values == std::vector<int>(count, sum + mpi.size * round);
                wrong += well ? 0 : 1;
            }
        });
    }
    for (std::thread &thread : all) {
        thread.join();
    }
    CHECK(wrong == 0);
    for (MPI_Comm &comm : comms) {
        MPI_OK(MPI_Comm_free(&comm));
    }
}

MPI_CASE(
    "queues and buffers may be released while a collective is in flight, a communicator once it "
    "has ended",
    1) {
    const opencl cl;
    for (const std::size_t count : {8, 9000, 2000000}) {
        for (const bool alone : {false, true}) {
            MPI_Comm comm = MPI_COMM_SELF;
            if (!alone) {
                MPI_OK(MPI_Comm_dup(mpi.comm, &comm));
            }
            const buffer_handle out = cl.buffer(count * 4);
            event_handle event;
            {
                const queue_handle queue = cl.in_order_queue();
                const buffer_handle in = cl.buffer(count * 4);
                cl.write(in, 0, bytes_of(std::vector<std::int32_t>(count, 3)));
                event = allreduce(queue, in, out, count, comm);
            }
            expect_complete(event);
            CHECK((cl.read(out, 0, count * 4) ==
                   bytes_of(std::vector<std::int32_t>(count, alone ? 3 : 3 * mpi.size))));
            if (!alone) {
                MPI_OK(MPI_Comm_free(&comm));
            }
        }
    }
}

MPI_CASE("each process may work in place or not, at aligned offsets or not", 2) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (const std::size_t each : {16, 3000, 200000}) {
        const auto ranks = static_cast<std::size_t>(mpi.size);
        const auto own = static_cast<std::size_t>(mpi.rank);
        const std::size_t count = each * ranks;
        const bytes sum = bytes_of(reduced<std::int32_t>(MPI_SUM, mpi.size, count));
        const bytes mine = bytes_of(values<std::int32_t>(mpi.rank, count));
        // Turn 0: only rank 0 works in place. Turn 1: all ranks except rank 1. Turn 2: all ranks,
        // rank 1 at an unaligned offset.
        for (const int turn : {0, 1, 2}) {
            CAPTURE(each);
            CAPTURE(turn);
            const bool in_place = turn == 0 ? mpi.rank == 0 : turn == 1 ? mpi.rank != 1 : true;
            const std::size_t from = turn == 2 && mpi.rank == 1 ? 1 : 4;
            const buffer_handle in = cl.buffer(from + mine.size());
            const buffer_handle other = cl.buffer(from + mine.size());
            const buffer_handle &out = in_place ? in : other;
            const auto is = [&](std::size_t offset, const bytes &wanted, std::size_t begin,
                                std::size_t size) {
                const bytes found = cl.read(out, offset, size);
                CHECK(std::equal(found.begin(), found.end(),
                                 wanted.begin() + static_cast<std::ptrdiff_t>(begin)));
            };
            cl.write(in, from, mine);
            CL_OK(clEnqueueAllreduceBufferMPI(queue, in, CL_TRUE, from, out, from, count,
                                              MPI_INT32_T, MPI_SUM, mpi.comm, 0, nullptr, nullptr));
            is(from, sum, 0, sum.size());
            cl.write(in, from, mine);
            const std::vector<std::size_t> counts(ranks, each);
            CL_OK(clEnqueueReduceScatterBufferMPI(queue, in, CL_TRUE, from, out, from,
                                                  counts.data(), MPI_INT32_T, MPI_SUM, mpi.comm, 0,
                                                  nullptr, nullptr));
            is(from, sum, own * each * 4, each * 4);
            const std::size_t place = in_place ? from + own * each * 4 : from;
            cl.write(in, place,
                     bytes(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(each * 4)));
            CL_OK(clEnqueueAllgatherBufferMPI(queue, in, CL_TRUE, place, each, MPI_INT32_T, out,
                                              from, each, MPI_INT32_T, mpi.comm, 0, nullptr,
                                              nullptr));
            for (int rank = 0; rank < mpi.size; ++rank) {
                is(from + static_cast<std::size_t>(rank) * each * 4,
                   bytes_of(values<std::int32_t>(rank, each)), 0, each * 4);
            }
        }
    }
}

MPI_CASE("ranges may be in the gaps between other ranges, but must not overlap them", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const auto ranks = static_cast<std::size_t>(mpi.size);
    std::vector<std::int32_t> all(2 * ranks);
    std::vector<std::size_t> counts(ranks, 1);
    std::vector<std::size_t> even(ranks);
    std::vector<std::size_t> odd(ranks);
    std::vector<std::int32_t> wanted(all.size());
    for (std::size_t i = 0; i < ranks; ++i) {
        even[i] = 2 * i;
        odd[i] = 2 * i + 1;
        all[even[i]] = wanted[even[i]] = mpi.rank * 100 + static_cast<int>(i);
        wanted[odd[i]] = static_cast<int>(i) * 100 + mpi.rank;
    }
    const buffer_handle buffer = cl.buffer(all.size() * 4);
    cl.write(buffer, 0, bytes_of(all));
    const auto exchange = [&](const std::vector<std::size_t> &to) {
        return clEnqueueAlltoallvBufferMPI(queue, buffer, CL_TRUE, 0, counts.data(), even.data(),
                                           MPI_INT, buffer, 0, counts.data(), to.data(), MPI_INT,
                                           mpi.comm, 0, nullptr, nullptr);
    };
    CL_OK(exchange(odd));
    CHECK((cl.read(buffer, 0, all.size() * 4) == bytes_of(wanted)));
    odd.back() = even.back();
    std::swap(odd.front(), odd.back());
    // With one process, the displacements are equal, so the call is a valid one in place.
    if (mpi.size > 1) {
        CHECK(exchange(odd) == CL_INVALID_VALUE);
    }
}

MPI_CASE("the displacement of an empty part is ignored", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const auto ranks = static_cast<std::size_t>(mpi.size);
    std::vector<std::size_t> counts(ranks, 0);
    std::vector<std::size_t> places(ranks, SIZE_MAX);
    counts.back() = 1;
    places.back() = 0;
    const std::vector<std::int32_t> value{5};
    const buffer_handle in = cl.buffer(4);
    const buffer_handle out = cl.buffer(4);
    cl.write(in, 0, bytes_of(value));
    CL_OK(clEnqueueAllgathervBufferMPI(
        queue, in, CL_TRUE, 0, counts[static_cast<std::size_t>(mpi.rank)], MPI_INT, out, 0,
        counts.data(), places.data(), MPI_INT, mpi.comm, 0, nullptr, nullptr));
    CHECK((cl.read(out, 0, 4) == bytes_of(value)));
}

MPI_CASE("the first command on a communicator does not match the program's own calls", 2) {
    const opencl cl;
    const queue_handle queue = cl.out_of_order_queue();
    const auto barrier = [&](MPI_Comm comm) {
        event_handle event;
        CL_OK(clEnqueueBarrierMPI(queue, CL_FALSE, comm, 0, nullptr, event.out()));
        return event;
    };
    for (int i = 0; i < 5; ++i) {
        MPI_Comm older = MPI_COMM_NULL;
        MPI_Comm newer = MPI_COMM_NULL;
        MPI_OK(MPI_Comm_dup(mpi.comm, &older));
        MPI_OK(MPI_Comm_dup(mpi.comm, &newer));
        {
            // Rank 1 waits for the first command before it enqueues the second.
            const event_handle first = barrier(newer);
            if (mpi.rank == 1) {
                expect_complete(first);
            }
            const event_handle second = barrier(older);
            expect_complete(first);
            expect_complete(second);
        }
        MPI_Comm made[3] = {};
        {
            // Rank 1 calls a constructor of another communicator before the command, the other
            // ranks after it.
            MPI_Comm fresh = MPI_COMM_NULL;
            MPI_OK(MPI_Comm_dup(mpi.comm, &fresh));
            if (mpi.rank == 1) {
                MPI_OK(MPI_Comm_dup(older, &made[0]));
            }
            const event_handle event = barrier(fresh);
            if (mpi.rank != 1) {
                MPI_OK(MPI_Comm_dup(older, &made[0]));
            }
            // The first command precedes the program's collective and constructors.
            const event_handle next = barrier(made[0]);
            int sum = 0;
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_OK(MPI_Iallreduce(&mpi.rank, &sum, 1, MPI_INT, MPI_SUM, made[0], &request));
            MPI_OK(MPI_Comm_split(made[0], 0, -mpi.rank, &made[1]));
            const event_handle last = barrier(made[1]);
            MPI_OK(MPI_Comm_dup(made[1], &made[2]));
            MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK(sum == mpi.size * (mpi.size - 1) / 2);
            expect_complete(event);
            expect_complete(next);
            expect_complete(last);
            MPI_OK(MPI_Comm_free(&fresh));
        }
        for (MPI_Comm *comm : {&made[2], &made[1], &made[0], &newer, &older}) {
            MPI_OK(MPI_Comm_free(comm));
        }
    }
}

MPI_CASE("commands never call the program's attribute copy functions", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    static int copies = 0;
    int key = MPI_KEYVAL_INVALID;
    const auto refuse = [](MPI_Comm, int, void *, void *, void *, int *) {
        ++copies;
        return static_cast<int>(MPI_ERR_OTHER);
    };
    MPI_OK(MPI_Comm_create_keyval(refuse, MPI_COMM_NULL_DELETE_FN, &key, nullptr));
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_OK(MPI_Comm_dup(mpi.comm, &comm));
    MPI_OK(MPI_Comm_set_attr(comm, key, &copies));
    CL_OK(clEnqueueBarrierMPI(queue, CL_TRUE, comm, 0, nullptr, nullptr));
    CHECK(copies == 0);
    MPI_OK(MPI_Comm_free(&comm));
    MPI_OK(MPI_Comm_free_keyval(&key));
}

MPI_CASE("an operator that MPI does not allow for the datatype fails the command in all processes",
         1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle in = cl.filled(64, 1);
    const buffer_handle out = cl.buffer(64);
    event_handle event;
    CL_OK(clEnqueueAllreduceBufferMPI(queue, in, CL_FALSE, 0, out, 0, 16, MPI_FLOAT, MPI_BAND,
                                      mpi.comm, 0, nullptr, event.out()));
    expect_failure(event, CL_MPI_ERROR);
    CL_OK(clEnqueueBarrierMPI(cl.in_order_queue(), CL_TRUE, mpi.comm, 0, nullptr, nullptr));
}

MPI_CASE("communicators come and go", 1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    for (int i = 0; i < 20; ++i) {
        MPI_Comm part = MPI_COMM_NULL;
        MPI_OK(MPI_Comm_split(mpi.comm, mpi.rank % 2, -mpi.rank, &part));
        int size = 0;
        MPI_OK(MPI_Comm_size(part, &size));
        const std::vector<std::int32_t> ones(16, 1);
        const buffer_handle in = cl.buffer(64);
        const buffer_handle out = cl.buffer(64);
        cl.write(in, 0, bytes_of(ones));
        expect_complete(allreduce(queue, in, out, 16, part));
        CHECK((cl.read(out, 0, 64) == bytes_of(std::vector<std::int32_t>(16, size))));
        MPI_OK(MPI_Comm_free(&part));
    }
}

MPI_CASE("wrong arguments of collectives return their error codes without waiting", 1) {
    const opencl cl;
    const opencl another(opencl::of::its_own);
    const queue_handle queue = cl.in_order_queue();
    const buffer_handle in = cl.filled(256, 1);
    const buffer_handle out = cl.filled(256, 2);
    const buffer_handle foreign = another.buffer(256);
    const buffer_handle read_only = cl.buffer(256, CL_MEM_READ_WRITE | CL_MEM_HOST_READ_ONLY);
    const buffer_handle write_only = cl.buffer(256, CL_MEM_READ_WRITE | CL_MEM_HOST_WRITE_ONLY);
    struct arguments {
        cl_command_queue queue;
        cl_mem in;
        cl_mem out;
        std::size_t from = 0;
        std::size_t to = 0;
        std::size_t count = 4;
        MPI_Datatype type = MPI_INT;
        MPI_Op op = MPI_SUM;
        int root = 0;
        MPI_Comm comm;
        cl_uint number = 0;
        const cl_event *events = nullptr;
    };
    arguments good{};
    good.queue = queue;
    good.in = in;
    good.out = out;
    good.comm = MPI_COMM_SELF;
    const auto expect = [&](const arguments &a, cl_int code) {
        static int mark = 0;
        const auto untouched = reinterpret_cast<cl_event>(&mark);
        for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
            cl_event event = untouched;
            CHECK(clEnqueueAllreduceBufferMPI(a.queue, a.in, blocking, a.from, a.out, a.to, a.count,
                                              a.type, a.op, a.comm, a.number, a.events,
                                              &event) == code);
            CHECK(clEnqueueReduceBufferMPI(a.queue, a.in, blocking, a.from, a.out, a.to, a.count,
                                           a.type, a.op, 0, a.comm, a.number, a.events,
                                           &event) == code);
            CHECK(event == untouched);
        }
    };
    arguments a = good;
    a.queue = nullptr;
    expect(a, CL_INVALID_COMMAND_QUEUE);
    a = good;
    a.in = nullptr;
    expect(a, CL_INVALID_MEM_OBJECT);
    a = good;
    a.out = nullptr;
    expect(a, CL_INVALID_MEM_OBJECT);
    a = good;
    a.in = foreign;
    expect(a, CL_INVALID_CONTEXT);
    a = good;
    a.count = 65;
    expect(a, CL_INVALID_VALUE);
    a = good;
    a.to = 241;
    expect(a, CL_INVALID_VALUE);
    a = good;
    a.count = SIZE_MAX / 2;
    expect(a, CL_INVALID_VALUE);
    a = good;
    a.out = in;
    a.to = 4;
    expect(a, CL_INVALID_VALUE);
    a = good;
    a.number = 1;
    expect(a, CL_INVALID_EVENT_WAIT_LIST);
    a = good;
    a.in = write_only;
    expect(a, CL_INVALID_OPERATION);
    a = good;
    a.out = read_only;
    expect(a, CL_INVALID_OPERATION);
    a = good;
    a.comm = MPI_COMM_NULL;
    expect(a, CL_INVALID_COMMUNICATOR);
    a = good;
    a.type = MPI_DATATYPE_NULL;
    expect(a, CL_INVALID_MPI_DATATYPE);
    MPI_Datatype pair = MPI_DATATYPE_NULL;
    MPI_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    a = good;
    a.type = pair;
    expect(a, CL_INVALID_MPI_DATATYPE);
    a = good;
    a.op = MPI_REPLACE;
    expect(a, CL_INVALID_MPI_OP);
    a = good;
    a.op = MPI_OP_NULL;
    expect(a, CL_INVALID_MPI_OP);

    // With two wrong arguments, the code must be that of the first check.
    a = good;
    a.out = in;
    a.to = 4;
    a.queue = nullptr;
    expect(a, CL_INVALID_COMMAND_QUEUE);
    a = good;
    a.count = SIZE_MAX / 2;
    a.type = MPI_DATATYPE_NULL;
    expect(a, CL_INVALID_MPI_DATATYPE);
    const std::size_t huge[] = {SIZE_MAX};
    CHECK(clEnqueueAllgatherBufferMPI(queue, in, CL_FALSE, 0, SIZE_MAX, MPI_INT, out, 0, 4,
                                      MPI_DATATYPE_NULL, MPI_COMM_SELF, 0, nullptr,
                                      nullptr) == CL_INVALID_MPI_DATATYPE);
    CHECK(clEnqueueScatterBufferMPI(queue, in, CL_FALSE, 0, 4, MPI_DATATYPE_NULL, out, 0, SIZE_MAX,
                                    MPI_INT, 0, MPI_COMM_SELF, 0, nullptr,
                                    nullptr) == CL_INVALID_MPI_DATATYPE);
    CHECK(clEnqueueAlltoallvBufferMPI(queue, in, CL_FALSE, 0, huge, nullptr, MPI_INT, out, 0, huge,
                                      huge, MPI_DATATYPE_NULL, MPI_COMM_SELF, 0, nullptr,
                                      nullptr) == CL_INVALID_MPI_DATATYPE);

    MPI_Datatype gappy = MPI_DATATYPE_NULL;
    MPI_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &gappy));
    MPI_Comm const comm = MPI_COMM_SELF;
    const auto bcast = [&](MPI_Datatype type, int root, MPI_Comm with) {
        return clEnqueueBcastBufferMPI(queue, in, CL_FALSE, 0, 4, type, root, with, 0, nullptr,
                                       nullptr);
    };
    CHECK(bcast(gappy, 0, comm) == CL_INVALID_MPI_DATATYPE);
    CHECK(bcast(pair, 0, comm) == CL_SUCCESS);
    CHECK(bcast(MPI_INT, 1, comm) == CL_INVALID_RANK);
    CHECK(bcast(MPI_INT, -1, comm) == CL_INVALID_RANK);
    CHECK(bcast(MPI_INT, MPI_PROC_NULL, comm) == CL_INVALID_RANK);
    MPI_OK(MPI_Type_free(&gappy));
    MPI_OK(MPI_Type_free(&pair));
    if (mpi.size > 1) {
        MPI_Comm half = MPI_COMM_NULL;
        MPI_Comm inter = MPI_COMM_NULL;
        MPI_OK(MPI_Comm_split(mpi.comm, mpi.rank == 0 ? 0 : 1, 0, &half));
        MPI_OK(MPI_Intercomm_create(half, 0, mpi.comm, mpi.rank == 0 ? 1 : 0, 9, &inter));
        CHECK(bcast(MPI_INT, 0, inter) == CL_INVALID_COMMUNICATOR);
        MPI_OK(MPI_Comm_free(&inter));
        MPI_OK(MPI_Comm_free(&half));
    }
    const std::size_t counts[] = {4};
    const std::size_t places[] = {0};
    const std::size_t far[] = {61};
    const std::size_t fewer[] = {3};
    const auto gatherv = [&](const std::size_t *n, const std::size_t *at) {
        return clEnqueueGathervBufferMPI(queue, in, CL_FALSE, 0, 4, MPI_INT, out, 0, n, at, MPI_INT,
                                         0, comm, 0, nullptr, nullptr);
    };
    CHECK(gatherv(nullptr, places) == CL_INVALID_VALUE);
    CHECK(gatherv(counts, nullptr) == CL_INVALID_VALUE);
    CHECK(gatherv(counts, far) == CL_INVALID_VALUE);
    CHECK(gatherv(fewer, places) == CL_INVALID_VALUE);
    CHECK(gatherv(counts, places) == CL_SUCCESS);
    CHECK(clEnqueueReduceScatterBufferMPI(queue, in, CL_FALSE, 0, out, 0, nullptr, MPI_INT, MPI_SUM,
                                          comm, 0, nullptr, nullptr) == CL_INVALID_VALUE);
    // MPI has no bitwise operators for floating-point numbers. The running command detects that.
    event_handle event;
    CL_OK(clEnqueueAllreduceBufferMPI(queue, in, CL_FALSE, 0, out, 0, 4, MPI_FLOAT, MPI_BAND, comm,
                                      0, nullptr, event.out()));
    expect_failure(event, CL_MPI_ERROR);
    CHECK(transfer_info<int>(event, CL_TRANSFER_MPI_ERROR) != MPI_SUCCESS);
    const queue_handle after = cl.in_order_queue();
    CL_OK(clEnqueueBarrierMPI(after, CL_TRUE, comm, 0, nullptr, nullptr));
}
