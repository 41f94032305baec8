#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "splitting/intervals.hpp"
#include "splitting/launch.hpp"

namespace cldist::splitting {

/// The value of a kernel argument that clSetKernelArg set: the bytes of an argument by value. Empty
/// for buffers, images, samplers and local memory.
struct Immediate {
    std::vector<std::byte> value;
    /// For a buffer: the bytes from the argument's address to the end of the buffer.
    std::size_t buffer_size = 0;

    bool operator==(const Immediate &) const = default;
};

/// The accesses of a sub-range to one buffer argument, in bytes from the argument's address.
///
/// Both sets may contain more bytes than are really accessed, and bytes beyond the buffer, which
/// the caller removes. `written` contains the bytes that may be written. If the sub-range may leave
/// a byte of it unwritten, `read` contains the byte, too. A caller that first transfers `read` to
/// the device and later takes `written` from it then never spreads stale bytes.
struct ArgumentAccess {
    Intervals read;
    Intervals written;
    bool reads_whole = false;  ///< any byte may be read, whatever `read` contains
};

/// Computes the bytes of its arguments that a sub-range of a kernel's launch accesses. Thread-safe.
class AccessModel {
public:
    AccessModel() = default;
    AccessModel(const AccessModel &) = delete;
    AccessModel &operator=(const AccessModel &) = delete;
    virtual ~AccessModel() = default;

    /// Returns true if launches may be split. Otherwise `why_not` is the reason, in one line.
    virtual bool splittable(std::string &why_not) const = 0;

    /// Returns one element for each of the kernel's arguments. It is empty for arguments that are
    /// no buffers. Returns nothing if the accesses of this launch are not understood. Then the
    /// launch must not be split. `arguments` contains all arguments of the kernel in order.
    virtual std::optional<std::vector<ArgumentAccess>> accesses(
        const Launch &launch, const SubRange &part, std::span<const Immediate> arguments) const = 0;
};

/// An access function. DistCL calls it meta-function. It returns whether a sub-range accesses the
/// bytes [start, *next_start) of argument `param_num` (1) or not (0). The function sets
/// *next_start, which must be above `start`. `params` are the values of immediate arguments (NULL
/// for buffers). `global`, `subrange`, `local` and `subrange_offset` have three elements each. They
/// are the launch's sizes, the sub-range's sizes, and the sub-range's first work-item.
using MetaFunction = int (*)(const void **params, const std::size_t *global,
                             const std::size_t *subrange, const std::size_t *local,
                             const std::size_t *subrange_offset, unsigned param_num,
                             std::size_t start, std::size_t *next_start);

}  // namespace cldist::splitting
