#pragma once

#include <cstdio>

namespace cldist::host {

/// Returns the flags of open() for a mode of fopen().
[[nodiscard]] int flags_of(const char *mode);
/// Opens a stream on a descriptor. If kind_of() is not `none`, the stream's calls pass through this
/// library. Closes the descriptor on failure.
std::FILE *stream_on(int descriptor, const char *mode);
/// At the program's start, on ranks other than 0: replaces standard error by a stream that uses the
/// next function.
void replace_standard_error();
/// Returns true if output of this caller to standard error must go to standard output instead: the
/// program's output on ranks other than 0.
[[nodiscard]] bool goes_to_own_output(const void *caller);

}  // namespace cldist::host
