#pragma once

namespace cldist::host {

/// At the program's start: what this process has done before, and what it has inherited.
void begin_effects();

/// The program, if it is the caller, is about to do something outside its process that a second
/// start would repeat, such as opening a file for writing. Standard output and standard error don't
/// count: `cldist run` prints what they repeat once. While the processes decide whether the job
/// starts again (docs/dev/decisions/0043), the call waits here. `what` continues "the program ...".
void note_effect(const char *what, const void *caller);
/// The same for the opening of a file: for writing, or to read what can be read only once.
void note_opening(int folder, const char *path, int flags, const void *caller);

}  // namespace cldist::host
