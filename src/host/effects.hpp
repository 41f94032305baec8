#pragma once

namespace cldist::host {

/// At the program's start: notes earlier effects of this process and inherited files.
void begin_effects();

/// Notes that the program, if it is the caller, is about to have an effect outside its process that
/// a second start would repeat. Standard output and standard error don't count, because `cldist
/// run` removes repeated output. While the processes decide whether the job starts again
/// (docs/dev/decisions/0043), the call waits here. `what` continues "the program ...".
void note_effect(const char *what, const void *caller);
/// The same for opening a file for writing, or a pipe or device, whose bytes can be read only once.
void note_opening(int folder, const char *path, int flags, const void *caller);

}  // namespace cldist::host
