#pragma once

#include <optional>
#include <span>

#include "events/bridge.hpp"
#include "events/record.hpp"
#include "pipeline/rect.hpp"

namespace cldist {

/// The arguments of every command. Each check throws an Error with the code in the public header.
struct CommandArguments {
    cl_command_queue queue;
    cl_bool blocking;
    cl_uint num_events;
    const cl_event *wait_list;
    cl_event *event;

    [[nodiscard]] std::span<const cl_event> events() const {
        return wait_list == nullptr ? std::span<const cl_event>{}
                                    : std::span(wait_list, num_events);
    }
};

/// A range of a buffer that a command reads or writes, depending on `direction`.
struct RangeArgument {
    cl_mem buffer;
    std::size_t offset;
    std::size_t size;  ///< bytes of the message
    Direction direction;
    /// The requested region, if any, from which check_command() sets offset, size and strided.
    std::optional<RectArguments> rect = std::nullopt;
    /// The layout of the bytes from `offset` on, unless they are contiguous.
    std::optional<RectRegion> strided = std::nullopt;

    /// Bytes from the first to the last byte of the range.
    [[nodiscard]] std::size_t extent() const { return strided ? strided->extent() : size; }
};

/// The first and past-the-end byte of a range, in its buffer or in the parent of a sub-buffer.
struct Extent {
    cl_mem buffer;
    std::size_t begin;
    std::size_t end;
};
Extent extent_of(const RangeArgument &range);

/// Makes all checks of clEnqueueReadBuffer and clEnqueueReadBufferRect, in their order, except for
/// a failed wait list: the far end may need an error message then. `in_place`: ranges may overlap.
QueueInfo check_command(const CommandArguments &command, std::span<RangeArgument> ranges,
                        bool in_place = false);

/// Checks that no event of the wait list has failed.
void check_not_failed(const CommandArguments &command);

}  // namespace cldist
