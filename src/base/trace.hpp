#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock_sync.hpp"

namespace cldist::trace {

/// Whether CLDIST_TRACE asks for a trace. Everything below does nothing otherwise.
[[nodiscard]] bool enabled();

/// A command or a stage of it. Spans with one `id` nest in a viewer; those of different ids may overlap. `details` is
/// the inside of a JSON object, or empty.
void span(std::string_view name, std::uint64_t id, std::uint64_t start_ns, std::uint64_t end_ns,
          std::string_view details = {});

/// A command of the user's own, like a kernel, shown in a lane per queue.
void kernel(std::string_view name, const void *queue, std::uint64_t start_ns, std::uint64_t end_ns);

/// How many ranks the job has; 1 if nothing is said.
void set_ranks(int ranks);

/// How far this rank's clock is from that of rank 0; `cldist trace` needs it to show several hosts together.
void add_clock_sample(const ClockSample &sample);

/// Writes all that was recorded so far to <CLDIST_TRACE>/cldist-trace-<rank>.json, in Chrome's trace format. The rank is that
/// of the last call, at first 0. Under "otherData" stand the rank, the number of ranks, the host and the clock samples.
/// Where that fails, no file is left, and a line in the log tells why, once in the process's life.
void write(int rank);
void write();

/// The characters of `text` as they stand inside a JSON string, with U+FFFD for each byte that is not part of UTF-8.
[[nodiscard]] std::string json_escaped(std::string_view text);

}  // namespace cldist::trace
