#pragma once

#include "search.hpp"

namespace smith_waterman {

/// Seconds during which kernels ran, the file was read, and residues were copied to the device.
struct Times {
    double kernels = 0.0, file = 0.0, copy = 0.0;
};

/// After this many chunks, the host waits for the previous round of chunks. Some platforms become
/// slow with thousands of commands or events.
inline constexpr std::size_t in_a_round = 64;

// The host programs. Each reads the chunks from a file that is positioned at the first residue, and
// returns when all work is complete.

/// fread, blocking clEnqueueWriteBuffer, kernel, clFinish.
Times run_serial(Search &search, std::FILE *file);

/// fread into two alternating blocks, clEnqueueWriteBuffer, and kernels that wait for its event.
Times run_hand_optimised(Search &search, std::FILE *file);

/// clEnqueueWriteBufferFromStdioFile, and kernels that wait for its event.
Times run_event_chained(Search &search, std::FILE *file);

}  // namespace smith_waterman
