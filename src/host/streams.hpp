#pragma once

#include <cstdio>

namespace cldist::host {

/// Returns the flags of open() for a mode of fopen().
[[nodiscard]] int flags_of(const char *mode);
/// Opens a stream on a descriptor. If kind_of() is not `none`, the stream's calls pass through this
/// library. Closes the descriptor on failure.
std::FILE *stream_on(int descriptor, const char *mode);
/// At the program's start, on ranks other than 0: makes standard error use the next function.
void replace_standard_error();
/// Returns true on ranks other than 0 if the program is the caller. Its output to standard error
/// then goes to its standard output.
[[nodiscard]] bool goes_to_own_output(const void *caller);

}  // namespace cldist::host
