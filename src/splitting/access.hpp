#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "splitting/intervals.hpp"
#include "splitting/launch.hpp"

namespace cldist::splitting {

/// A kernel argument as clSetKernelArg had it: the bytes of an argument by value; none for buffers, images, samplers and
/// local memory.
struct Immediate {
    std::vector<std::byte> value;
    std::size_t buffer_size = 0;  ///< of a buffer: its bytes from where the argument points to its end

    bool operator==(const Immediate &) const = default;
};

/// What a sub-range does with the bytes of one buffer argument: offsets in bytes from where the argument points.
///
/// Both sets may be larger than what is really used, and may pass the end of the buffer (the caller cuts them there).
/// `written` is where it may write. Bytes that it may as well leave alone are in `read`, too, so that whoever brings the
/// read bytes first and takes the written ones away afterwards spreads none that are stale.
struct ArgumentAccess {
    Intervals read;
    Intervals written;
    bool reads_whole = false;  ///< any byte may be read, whatever `read` says
};

/// Says which bytes of its arguments the sub-ranges of one kernel's launches use. Thread-safe.
class AccessModel {
public:
    AccessModel() = default;
    AccessModel(const AccessModel &) = delete;
    AccessModel &operator=(const AccessModel &) = delete;
    virtual ~AccessModel() = default;

    /// Whether launches may be split at all; if not, `why_not` says why, in one line.
    virtual bool splittable(std::string &why_not) const = 0;

    /// One for each of the kernel's arguments; those that are no buffers have none. Nothing where the accesses of this launch
    /// are not understood with these values: it must not be split. `arguments` are all of the kernel's, in order.
    virtual std::optional<std::vector<ArgumentAccess>> accesses(const Launch &launch, const SubRange &part,
                                                                std::span<const Immediate> arguments) const = 0;
};

/// DistCL's meta-function: whether the bytes [start, *next_start) of argument `param_num` are accessed (1) or not (0) by a
/// sub-range; the function sets *next_start, which is above `start`. `params` are the values of immediate arguments (NULL for
/// buffers); `global`, `subrange`, `local` and `subrange_offset` have three elements each: the launch's sizes, the sub-range's
/// sizes and its first work-item.
using MetaFunction = int (*)(const void **params, const std::size_t *global, const std::size_t *subrange,
                             const std::size_t *local, const std::size_t *subrange_offset, unsigned param_num,
                             std::size_t start, std::size_t *next_start);

}  // namespace cldist::splitting
