#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cldist::trace {

/// Whether CLDIST_TRACE asks for a trace. Everything below does nothing otherwise.
[[nodiscard]] bool enabled();

/// A command or a stage of it. Spans with one `id` nest in a viewer; those of different ids may overlap. `details` is
/// the inside of a JSON object, or empty.
void span(std::string_view name, std::uint64_t id, std::uint64_t start_ns, std::uint64_t end_ns,
          std::string_view details = {});

/// A command of the user's own, like a kernel, shown in a lane per queue.
void kernel(std::string_view name, const void *queue, std::uint64_t start_ns, std::uint64_t end_ns);

/// Writes what was recorded to <CLDIST_TRACE>/cldist-trace-<rank>.json, in Chrome's trace format.
void write(int rank);

/// The characters of `text` as they stand inside a JSON string.
[[nodiscard]] std::string json_escaped(std::string_view text);

}  // namespace cldist::trace
