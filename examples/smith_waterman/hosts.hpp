#pragma once

#include "search.hpp"

namespace smith_waterman {

/// Seconds during which kernels ran, the file was read, and residues were copied to the device.
struct Times {
    double kernels = 0.0, file = 0.0, copy = 0.0;
};

/// Chunks after which the host waits for those of the round before. Some platforms get slow when
/// thousands of commands, or of their events, are there at once.
inline constexpr std::size_t in_a_round = 64;

/// The host programs. Each computes all chunks, from a file that stands at the first residue, and
/// returns when nothing is in flight any more.

/// fread, blocking clEnqueueWriteBuffer, kernel, clFinish.
Times run_serial(Search &search, std::FILE *file);

/// fread into two blocks of memory that take turns, clEnqueueWriteBuffer, and kernels that wait for
/// its event.
Times run_hand_optimised(Search &search, std::FILE *file);

/// clEnqueueWriteBufferFromStdioFile, and kernels that wait for its event.
Times run_event_chained(Search &search, std::FILE *file);

}  // namespace smith_waterman
