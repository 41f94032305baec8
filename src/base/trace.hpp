#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock_sync.hpp"

namespace cldist::trace {

/// Returns true if CLDIST_TRACE requests a trace and it can be written. Otherwise the functions
/// below do nothing.
[[nodiscard]] bool enabled();

/// Records the beginning of a command. Spans with the same `id` nest in a viewer, and spans with
/// different ids may overlap. `details` is empty or contains the members of a JSON object.
void begin(std::string_view name, std::uint64_t id, std::uint64_t start_ns,
           std::string_view details);
/// Records the end of a command.
void end(std::string_view name, std::uint64_t id, std::uint64_t end_ns, std::string_view details);
/// Records a stage of the command `id`, which must be between begin() and end().
void stage(std::string_view name, std::uint64_t id, std::uint64_t start_ns, std::uint64_t end_ns);

/// Records a command of the program, such as a kernel, in a row for its queue.
void kernel(std::string_view name, const void *queue, std::uint64_t start_ns, std::uint64_t end_ns);

/// Sets the rank of the trace and creates the folder and the file
/// <CLDIST_TRACE>/cldist-trace-<rank>.json. Without this call the first write does so, with the
/// rank from the launcher's environment, or 0. Returns an error message or an empty text.
[[nodiscard]] std::string start(int rank, int ranks);

/// Records the offset between this rank's clock and rank 0's clock. `cldist trace` needs it to
/// merge several hosts.
void add_clock_sample(const ClockSample &sample);

/// Writes the recorded events. A thread also does so ten times a second, so a killed process loses
/// at most a tenth of a second. After each write, the file is complete in Chrome's trace format,
/// with the rank, the number of ranks, the host and the clock samples in "otherData". If a write
/// fails, an error is logged and the trace ends.
void flush();

/// Escapes `text` for a JSON string. U+FFFD replaces each byte that is not UTF-8.
[[nodiscard]] std::string json_escaped(std::string_view text);

}  // namespace cldist::trace
