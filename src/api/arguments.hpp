#pragma once

#include <optional>
#include <span>

#include "events/bridge.hpp"
#include "events/record.hpp"
#include "pipeline/rect.hpp"

namespace cldist {

/// The arguments that commands have in common. Each check throws an Error with the code that the
/// header documents.
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
    /// If set, the requested region. check_command() then sets offset, size and strided.
    std::optional<RectArguments> rect = std::nullopt;
    /// The layout of the bytes from `offset` on, unless they are contiguous.
    std::optional<RectRegion> strided = std::nullopt;

    /// Bytes of the buffer from the first to the last byte.
    [[nodiscard]] std::size_t extent() const { return strided ? strided->extent() : size; }
};

/// The bytes of a range in its buffer, from the first to the last. For a sub-buffer, in its parent.
struct Extent {
    cl_mem buffer;
    std::size_t begin;
    std::size_t end;
};
Extent extent_of(const RangeArgument &range);

/// Makes all checks of clEnqueueReadBuffer and clEnqueueReadBufferRect, in their order. It does not
/// check for a failed wait list, because the far end may need an error message. `in_place`: two
/// ranges may overlap.
QueueInfo check_command(const CommandArguments &command, std::span<RangeArgument> ranges,
                        bool in_place = false);

/// Checks that no event of the wait list has failed.
void check_not_failed(const CommandArguments &command);

}  // namespace cldist
