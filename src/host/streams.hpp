#pragma once

#include <cstdio>

namespace cldist::host {

[[nodiscard]] int flags_of(const char *mode);
/// Opens a stream on a descriptor. If kind_of() is not `none`, the stream's calls pass through this
/// library. Closes the descriptor on failure.
std::FILE *stream_on(int descriptor, const char *mode);
/// Returns true for the result of stream_on() or replace_standard_error() if its calls pass through
/// this library. The C library's freopen crashes with it.
[[nodiscard]] bool is_own(std::FILE *stream);
/// As freopen: makes such a stream use the descriptor, which it owns. If the new mode differs in
/// reading or writing, the result is another stream.
std::FILE *reopen(std::FILE *stream, int descriptor, const char *mode);
/// At the program's start, on ranks other than 0: makes standard error use the next function.
void replace_standard_error();
/// Returns true on ranks other than 0 if the program is the caller. Its output to standard error
/// then goes to its standard output.
[[nodiscard]] bool goes_to_own_output(const void *caller);

}  // namespace cldist::host
