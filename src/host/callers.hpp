#pragma once

namespace cldist::host {

/// Returns true if the code at the return address `caller` belongs to the program: to its
/// executable or to any library except those of MPI, OpenCL drivers and loaders, and this project.
/// For code of the C and C++ libraries, their caller decides.
[[nodiscard]] bool from_program(const void *caller);

/// The owner of a library, by its file name without folder. `caller`: its caller decides.
enum class Owner { program, others, caller };
[[nodiscard]] Owner owner_of(const char *file_name);

}  // namespace cldist::host
