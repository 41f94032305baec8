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

namespace cldist {

/// How the kernel of a device-ordered collective proceeds. In each round, a process first gives a
/// piece to each other process. Then it takes what the others gave, or combines it and passes the
/// result on.
enum class CollectiveScheme {
    exchange,  ///< takes
    forward,   ///< passes on what the root gave
    reduce     ///< passes on the sum (or other result) of what all gave, in the order of the ranks
};

/// The argument of a kernel of a device-ordered collective. Ranges of buffers are in bytes.
struct CollectiveWork {
    static constexpr std::size_t most_members = 16;

    /// For each member, in the order of the ranks. This process's own entry is not used.
    struct Member {
        std::uint64_t to;    ///< address of the memory for this process's pieces
        std::uint64_t from;  ///< address of its pieces
        /// Address of the first flag that this process sets there.
        std::uint64_t to_flag;
        std::uint64_t from_flag;             ///< address of the first flag that it sets here
        std::uint64_t give, give_size;       ///< of the send buffer
        std::uint64_t take, take_size;       ///< of the receive buffer
        std::uint32_t to_value, from_value;  ///< of the flags before the first round
        std::uint32_t round, rounds;         ///< number of the first round, and how many
    };

    // The head.
    std::uint64_t block;  ///< the largest piece
    /// Bytes from the memory of one phase to that of the next.
    std::uint64_t stride;
    std::uint64_t own_in, own_size, own_out;  ///< what this process takes from itself or combines
    std::uint32_t me, root;
    std::uint32_t targets;  ///< the members to which the result is passed, one bit each
    std::uint32_t keep;     ///< 1: the result is also written to `own_out`
    std::uint32_t phases;   ///< 2 if results are passed on
    std::uint32_t rounds;   ///< the most of any member
    std::array<Member, most_members> members;

    // Not for the kernel.
    CollectiveScheme scheme;
    std::uint32_t count;   ///< of members
    std::uint32_t groups;  ///< work-groups
};

/// The kernels of device-ordered collectives, which are built at their first use. Thread-safe.
class CollectiveKernels {
public:
    static constexpr std::size_t most_groups = 64;
    /// The flags of one member: one per phase and work-group.
    static constexpr std::size_t flags_bytes = 2 * most_groups * sizeof(cl_uint);

    CollectiveKernels(cl_context context, cl_device_id device)
        : context_(context), device_(device) {}

    /// The operator and the element type of a reduction, as in OpenCL C. Empty for other schemes.
    struct Combination {
        std::string_view type{};
        std::string_view op{};    ///< a macro of the source
        std::size_t element = 0;  ///< bytes
    };
    /// Builds the kernel unless it exists. Throws an Error.
    cl_kernel prepare(const CollectiveWork &work, const Combination &combination);
    /// Enqueues a kernel from prepare(). `held`: it reads the order in the slot first. `event` may
    /// be null.
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
        built_;  ///< by members, scheme, type and operator
};

}  // namespace cldist
