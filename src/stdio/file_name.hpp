#pragma once

#include <cstdio>
#include <string>

namespace cldist {

/// A name of the system's for the file of a descriptor: opening it opens the file once more.
std::string path_of(int descriptor);

/// As reports name files: "descriptor 5 (/data/in)", "stream 0x55d0 (pipe:[4711])", without the path where the system has none. They leave errno
/// as it is: who asks may be about to tell it.
std::string name_of_descriptor(int descriptor);
std::string name_of_stream(std::FILE *stream);

}  // namespace cldist
