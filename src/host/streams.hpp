#pragma once

#include <cstdio>

namespace cldist::host {

/// The flags of open() for a mode of fopen().
[[nodiscard]] int flags_of(const char *mode);
/// A stream on a descriptor. If the descriptor is written, or is a source of random numbers, the
/// stream's calls pass through this library. Closes the descriptor on failure.
std::FILE *stream_on(int descriptor, const char *mode);
/// At the program's start: gives other ranks than 0 a standard error that obeys the next function.
void replace_standard_error();
/// Whether what the program writes to standard error here, on another rank than 0, goes where its
/// standard output is kept.
[[nodiscard]] bool goes_to_own_output(const void *caller);

}  // namespace cldist::host
