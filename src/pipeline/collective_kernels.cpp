#include "pipeline/collective_kernels.hpp"

#include <string>

#include <fmt/format.h>

#include "ocl/query.hpp"
#include "pipeline/slot_kernels.hpp"

namespace cldist {
namespace {

// Work-group g of one process waits only for the work-groups g of the other processes. Each handles
// the same slice of every piece.
//
// Between two processes, the rounds alternate between two areas of the arenas, within a kernel and
// from one kernel to the next. When a process gives a round's pieces, a flag of the previous round
// has shown that the other process has finished with the round before that, so that round's area is
// free. Kernels of one queue do not overlap, so a flag also covers all earlier kernels.
constexpr const char *collective_source = R"(
typedef struct {
    ulong to, from, to_flag, from_flag, give, give_size, take, take_size;
    uint to_value, from_value, round, rounds;
} Member;

typedef struct {
    ulong block, stride, own_in, own_size, own_out;
    uint me, root, targets, keep, phases, rounds;
    Member members[MEMBERS];
} Work;

// A work-group's slice of the piece of a round: its bytes in the range, and its position in the memory for pieces. The
// memory of a work-group is the same in all rounds.
typedef struct {
    ulong begin, size, at;
} Slice;
Slice slice_of(ulong size, uint round, ulong block) {
    const ulong groups = get_num_groups(0), group = get_group_id(0);
    const ulong first = min(size, round * block), length = min(size - first, block);
    const ulong each = ((length + groups - 1) / groups + 15) / 16 * 16, skipped = min(length, group * each);
    const Slice slice = {first + skipped, min(each, length - skipped), group * (block / groups / 16 * 16)};
    return slice;
}

#define AREA(address, member, phase) \
    ((__global uchar *)(address) + ((((member).round + round) & 1) * 2 + (phase)) * work.stride)
#define FLAG(address, phase) ((Word)(address) + (phase) * GROUPS + get_group_id(0))

// Tells members that this work-group's slices of the phase have arrived.
#define PUBLISH(begin, end, phase)                                                                                   \
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);                                                             \
    for (uint other = (begin) + get_local_id(0); other < (end); other += get_local_size(0))                          \
        if (other != work.me && round < work.members[other].rounds) {                                                \
            FENCE;                                                                                                   \
            store(FLAG(work.members[other].to_flag, phase), work.members[other].to_value + 2 * round + (phase) + 1); \
        }
// The other process may be one round ahead, which is two values, because it needs this process's flag to complete that
// round. All other values are old: a work-group's flag may be many rounds behind, if the commands in between had fewer
// work-groups or phases. Only a flag that is 2^31 rounds behind would look new.
#define AHEAD 2u
#define AWAIT(phase)                                                                   \
    for (uint m = get_local_id(0); m < MEMBERS; m += get_local_size(0))                \
        if (m != work.me && round < work.members[m].rounds) {                          \
            const uint value = work.members[m].from_value + 2 * round + (phase) + 1;   \
            while (load(FLAG(work.members[m].from_flag, phase)) - value > AHEAD) {}    \
            FENCE;                                                                     \
        }                                                                              \
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

// Takes what has arrived in a phase.
#define TAKE(phase)                                                                 \
    for (uint i = 1; i < MEMBERS; ++i) {                                            \
        const uint m = (work.me + i) % MEMBERS;                                     \
        const Slice taken = slice_of(work.members[m].take_size, round, work.block); \
        move(own, AREA(work.members[m].from, work.members[m], phase) + taken.at,    \
             out + work.members[m].take + taken.begin, taken.size);                 \
    }

#define SUM(X, a, b) ((a) + (b))
#define PROD(X, a, b) ((a) * (b))
#define MAX(X, a, b) ((b) > (a) ? (b) : (a))
#define MIN(X, a, b) ((b) < (a) ? (b) : (a))
#define BAND(X, a, b) ((a) & (b))
#define BOR(X, a, b) ((a) | (b))
#define BXOR(X, a, b) ((a) ^ (b))
#define TRUE_(X, a) (((a) != (X)(0)) & (X)(1))
#define LAND(X, a, b) (TRUE_(X, a) & TRUE_(X, b))
#define LOR(X, a, b) (TRUE_(X, a) | TRUE_(X, b))
#define LXOR(X, a, b) (TRUE_(X, a) ^ TRUE_(X, b))

#ifdef VALUE
// Vectors, because the compiler would move the members of structs one by one.
typedef union {
    ELEMENT bits;
    struct {
        VALUE value;
        int index;
    } pair;
} Pair;
ELEMENT located(ELEMENT first, ELEMENT second, bool least) {
    Pair a = {first}, b = {second};
    if (a.pair.value == b.pair.value) {
        a.pair.index = min(a.pair.index, b.pair.index);
    } else if (least ? b.pair.value < a.pair.value : b.pair.value > a.pair.value) {
        a.pair.value = b.pair.value;
        a.pair.index = b.pair.index;
    }
    return a.bits;
}
#define MINLOC(X, a, b) located(a, b, true)
#define MAXLOC(X, a, b) located(a, b, false)
#endif

// Combines the slices of all members, and passes on the result.
#define COMBINE(X)                                                                                             \
    {                                                                                                          \
        const ulong count = slice.size / sizeof(X);                                                            \
        for (ulong i = done / sizeof(X) + get_local_id(0); i < count; i += get_local_size(0)) {                \
            X values[MEMBERS];                                                                                 \
            _Pragma("unroll") for (uint m = 0; m < MEMBERS; ++m) values[m] = ((__global const X *)from[m])[i]; \
            X result = values[0];                                                                              \
            _Pragma("unroll") for (uint m = 1; m < MEMBERS; ++m) result = OP(X, result, values[m]);            \
            _Pragma("unroll") for (uint m = 0; m < MEMBERS; ++m)                                               \
                if (to[m]) ((__global X *)to[m])[i] = result;                                                  \
        }                                                                                                      \
        done = count * sizeof(X);                                                                              \
    }

__kernel void collective(Word slots, Word shared, uint index, uint held, __global const uchar *in, __global uchar *out,
                         Work argument) {
    __local Work work;
    __local uint order;
    const Word slot = slots + index * 32;
    shared += index * 8;
    const Team all = team_from(0, get_num_groups(0));
    const Team own = {0, 1, get_local_id(0), get_local_size(0)};
    if (get_local_id(0) == 0) {
        work = argument;
        order = 1;
        if (held && all.group == 0) {
            shared[2] = order = load(slot);
            store(shared + 1, 1);
        } else if (held) {
            await(shared + 1);
            order = shared[2];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const uint rounds = order == 1 ? work.rounds : 0;
    for (uint round = 0; round < rounds; ++round) {
#ifdef FORWARD
        // Each work-group of the root begins with another member, so that all members forward from early on.
        const uint first = work.me + get_group_id(0);
#else
        const uint first = work.me + 1;
#endif
        for (uint i = 0; i < MEMBERS; ++i) {
            const uint m = (first + i) % MEMBERS;
            if (m == work.me) continue;
            const Slice given = slice_of(work.members[m].give_size, round, work.block);
            move(own, in + work.members[m].give + given.begin, AREA(work.members[m].to, work.members[m], 0) + given.at,
                 given.size);
#ifdef FORWARD
            PUBLISH(m, m + 1, 0)
#endif
        }
#ifndef FORWARD
        PUBLISH(0, MEMBERS, 0)
#endif
        const Slice slice = slice_of(work.own_size, round, work.block);
        __global const uchar *const mine = in + work.own_in + slice.begin;
        __global uchar *const kept = out + work.own_out + slice.begin;
#ifdef EXCHANGE
        if (mine != kept) move(own, mine, kept, slice.size);
        AWAIT(0)
        TAKE(0)
#else
        AWAIT(0)
        __global const uchar *from[MEMBERS];
        __global uchar *to[MEMBERS];
#pragma unroll
        for (uint m = 0; m < MEMBERS; ++m) {
            const bool self = m == work.me;
            from[m] = self ? mine : AREA(work.members[m].from, work.members[m], 0) + slice.at;
            to[m] = self ? work.keep ? kept : 0
                         : work.targets >> m & 1 ? AREA(work.members[m].to, work.members[m], 1) + slice.at : 0;
        }
#ifdef FORWARD
        __global const uchar *const given = AREA(work.members[work.root].from, work.members[work.root], 0) + slice.at;
        for (uint i = 0; i < MEMBERS; ++i) {
            const uint m = (work.me + i) % MEMBERS;
            if (to[m]) move(own, given, to[m], slice.size);
        }
#else
        ulong done = 0, bits = 0;
#pragma unroll
        for (uint m = 0; m < MEMBERS; ++m) bits |= (ulong)from[m] | (ulong)to[m];
        if ((bits & 15) == 0) COMBINE(VECTOR)
        COMBINE(ELEMENT)
#endif
        if (work.phases < 2) continue;
        PUBLISH(0, MEMBERS, 1)
        AWAIT(1)
        TAKE(1)
#endif
    }
    if (is_last(all, shared)) store(slot + 17, 1);
}
)";

constexpr std::size_t collective_group_size = 512;

static_assert(offsetof(CollectiveWork, members) == 64 && sizeof(CollectiveWork::Member) == 80);

std::size_t argument_size(const CollectiveWork &work) {
    return offsetof(CollectiveWork, members) + work.count * sizeof(CollectiveWork::Member);
}

std::string options_for(const CollectiveWork &work,
                        const CollectiveKernels::Combination &combination) {
    std::string options =
        fmt::format("-DMEMBERS={} -DGROUPS={}", work.count, CollectiveKernels::most_groups);
    switch (work.scheme) {
        case CollectiveScheme::exchange: return options + " -DEXCHANGE";
        case CollectiveScheme::forward: return options + " -DFORWARD";
        case CollectiveScheme::reduce: break;
    }
    options += fmt::format(" -DOP={}", combination.op);
    if (combination.pairs)
        return options + fmt::format(" -DVALUE={} -DELEMENT=uint{} -DVECTOR=ELEMENT",
                                     combination.type, combination.element / sizeof(cl_uint));
    return options + fmt::format(" -DELEMENT={} -DVECTOR={}{}", combination.type, combination.type,
                                 16 / combination.element);
}

}  // namespace

cl_kernel CollectiveKernels::prepare(const CollectiveWork &work, const Combination &combination) {
    const std::lock_guard lock(mutex_);
    Built &built = built_[{work.count, work.scheme, combination.type, combination.op}];
    if (!built.kernel) {
        built.program = build_slot_program(context_, device_, collective_source,
                                           options_for(work, combination));
        built.kernel = create("clCreateKernel", clCreateKernel, built.program.get(), "collective");
    }
    return built.kernel.get();
}

cl_int CollectiveKernels::enqueue(cl_command_queue queue, cl_kernel kernel,
                                  const CollectiveWork &work, cl_mem slots, cl_mem shared,
                                  std::uint32_t index, bool held, cl_mem in, cl_mem out,
                                  std::span<const cl_event> wait_list, cl_event *event) {
    const std::size_t local = is_cpu(device_) ? 1 : collective_group_size;
    const std::size_t global = work.groups * local;
    const std::lock_guard lock(mutex_);
    cl_int code = set_arguments(kernel, slots, shared, index, cl_uint{held ? 1U : 0U}, in, out);
    if (code == CL_SUCCESS) code = clSetKernelArg(kernel, 6, argument_size(work), &work);
    if (code != CL_SUCCESS) return code;
    const WaitArguments waits(wait_list);
    return clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &global, &local, waits.count,
                                  waits.events, event);
}

}  // namespace cldist
