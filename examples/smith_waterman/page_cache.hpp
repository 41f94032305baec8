#pragma once

#include <string>

namespace smith_waterman {

/// Reads a file once, so that the next reader finds it in memory.
void warm_page_cache(const std::string &path);

/// Asks the system to forget what it holds of a file, so that the next reader gets it from the
/// disk. Gives the share that is in memory all the same, 0 to 1: all of it where a file has no
/// other place, as on tmpfs.
double drop_page_cache(const std::string &path);

}  // namespace smith_waterman
