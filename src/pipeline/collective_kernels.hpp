#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <tuple>

#include "ocl/handle.hpp"
#include "pipeline/transfer_slots.hpp"

namespace cldist {

/// The algorithm of a device-ordered collective's kernel. In each round, a process first writes one
/// piece for each other process into that process's memory (phase 1).
enum class CollectiveScheme {
    exchange,  ///< then copies the received pieces to its receive buffer
    forward,   ///< then passes the root's piece on to the other processes (phase 2)
    reduce     ///< then combines the pieces in rank order, and may pass on the result (phase 2)
};

/// The argument of a collective's kernel. Offsets and sizes are bytes. An arena is the memory that
/// a process shares with the other members (decision 41).
struct CollectiveWork {
    static constexpr std::size_t most_members = CollectiveBoard::most_members;

    /// One per member, in rank order. The entry of this process is not used.
    struct Member {
        std::uint64_t to;               ///< address of this process's pieces in the member's arena
        std::uint64_t from;             ///< address of the member's pieces in this process's arena
        std::uint64_t to_flag;          ///< first flag that this process sets in the member's arena
        std::uint64_t from_flag;        ///< first flag that the member sets in this process's arena
        std::uint64_t give, give_size;  ///< range of the send buffer
        std::uint64_t take, take_size;  ///< range of the receive buffer
        std::uint32_t to_value, from_value;  ///< values of the flags before the first round
        /// Rounds with this member in earlier commands, and in this command.
        std::uint32_t round, rounds;
    };

    std::uint64_t block;   ///< size of the largest piece
    std::uint64_t stride;  ///< size of one phase's pieces in an arena
    /// This process's own piece: offset in the send buffer, size, offset in the receive buffer.
    std::uint64_t own_in, own_size, own_out;
    std::uint32_t me, root;
    std::uint32_t targets;  ///< members to which the result is passed on, one bit each
    std::uint32_t keep;     ///< 1: the result is also written to `own_out`
    std::uint32_t phases;   ///< 2 if results are passed on
    std::uint32_t rounds;   ///< the largest number of rounds, of all members and the own piece
    std::array<Member, most_members> members;

    // Used only by the host.
    CollectiveScheme scheme;
    std::uint32_t count;   ///< number of members
    std::uint32_t groups;  ///< number of work-groups
};

/// The kernels of device-ordered collectives, one per number of members, scheme, element type and
/// operator. Each is built at its first use. Thread-safe.
class CollectiveKernels {
public:
    static constexpr std::size_t most_groups = 64;
    /// Bytes of the flags that one member sets: a flag per phase and work-group.
    static constexpr std::size_t flags_bytes = 2 * most_groups * sizeof(cl_uint);

    CollectiveKernels(cl_context context, cl_device_id device)
        : context_(context), device_(device) {}

    /// Operator and element type of a reduction in OpenCL C. Empty for other schemes.
    struct Combination {
        std::string_view type{};
        std::string_view op{};    ///< a macro in the kernel's source, such as "SUM"
        std::size_t element = 0;  ///< bytes
        bool pairs = false;       ///< an element is a value of `type` and an index
    };
    /// Returns the kernel and builds it at its first use. Throws an Error.
    cl_kernel prepare(const CollectiveWork &work, const Combination &combination);
    /// Enqueues a kernel from prepare(). `index` is the command's slot in `slots`, and `shared` is
    /// SlotKernels::shared(). `held`: a user event holds the kernel back, and the kernel moves
    /// nothing unless its slot then contains SlotOrder::move. `event` may be null.
    cl_int enqueue(cl_command_queue queue, cl_kernel kernel, const CollectiveWork &work,
                   cl_mem slots, cl_mem shared, std::uint32_t index, bool held, cl_mem in,
                   cl_mem out, std::span<const cl_event> wait_list, cl_event *event);

private:
    struct Built {
        Program program;
        Kernel kernel;
    };
    const cl_context context_;
    const cl_device_id device_;
    std::mutex mutex_;
    std::map<std::tuple<std::uint32_t, CollectiveScheme, std::string_view, std::string_view>, Built>
        built_;  ///< by number of members, scheme, type and operator
};

}  // namespace cldist
