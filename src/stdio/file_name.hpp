#pragma once

#include <cstdio>
#include <string>

namespace cldist {

/// The path under which the file of a descriptor can be opened again.
std::string path_of(int descriptor);

/// Names for messages, such as "descriptor 5 (/data/in)" or "stream 0x55d0 (pipe:[4711])". The path
/// is missing if the system provides none. errno is preserved, because callers may still report it.
std::string name_of_descriptor(int descriptor);
std::string name_of_stream(std::FILE *stream);

}  // namespace cldist
