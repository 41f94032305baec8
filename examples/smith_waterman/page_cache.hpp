#pragma once

#include <string>

namespace smith_waterman {

/// Reads a file, so that it is in the page cache.
void warm_page_cache(const std::string &path);

/// Asks the system to drop a file from the page cache, so that it is next read from the disk.
/// Returns the fraction that is still in memory, from 0 to 1. On tmpfs this is 1.
double drop_page_cache(const std::string &path);

}  // namespace smith_waterman
