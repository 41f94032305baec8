#pragma once

namespace cldist::host {

/// Whether the code at `caller`, a return address, is the program's: of its executable, or of a
/// library that is none of MPI's, of an OpenCL driver's or loader's, or this project's. For the C
/// and C++ libraries whoever called them counts.
[[nodiscard]] bool from_program(const void *caller);

/// The owner of a library, by the name of its file without folder.
enum class Owner { program, others, caller };
[[nodiscard]] Owner owner_of(const char *file_name);

}  // namespace cldist::host
