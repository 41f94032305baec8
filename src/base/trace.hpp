#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock_sync.hpp"

namespace cldist::trace {

/// Whether CLDIST_TRACE asks for a trace that can be written. Everything below does nothing otherwise.
[[nodiscard]] bool enabled();

/// A command begins. Spans with one `id` nest in a viewer; those of different ids may overlap. `details` is the inside of
/// a JSON object, or empty.
void begin(std::string_view name, std::uint64_t id, std::uint64_t start_ns, std::string_view details);
/// The command ends.
void end(std::string_view name, std::uint64_t id, std::uint64_t end_ns, std::string_view details);
/// A stage of the command with that id, which has begun and not ended.
void stage(std::string_view name, std::uint64_t id, std::uint64_t start_ns, std::uint64_t end_ns);

/// A command of the program, like a kernel, shown in a lane per queue.
void kernel(std::string_view name, const void *queue, std::uint64_t start_ns, std::uint64_t end_ns);

/// From now on the trace is that of `rank`, in <CLDIST_TRACE>/cldist-trace-<rank>.json; makes the folder and the file.
/// Without this call the first write does so, with the rank that the launcher's environment gives, or 0. Returns what is
/// wrong, or an empty text.
[[nodiscard]] std::string start(int rank, int ranks);

/// How far this rank's clock is from that of rank 0; `cldist trace` needs it to show several hosts together.
void add_clock_sample(const ClockSample &sample);

/// Writes what was recorded so far. A thread does so ten times a second, too: a process that is killed loses the last tenth
/// of a second. After each write the file is whole, in Chrome's trace format. "otherData" has the rank, the number of
/// ranks, the host and the clock samples. If a write fails, an error is printed and the trace ends there.
void flush();

/// The characters of `text` as they stand inside a JSON string, with U+FFFD for each byte that is not part of UTF-8.
[[nodiscard]] std::string json_escaped(std::string_view text);

}  // namespace cldist::trace
