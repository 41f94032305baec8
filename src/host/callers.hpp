#pragma once

#include <link.h>

#include <cstdint>

namespace cldist::host {

/// The addresses of a loaded file.
struct Addresses {
    std::uintptr_t begin = UINTPTR_MAX;
    std::uintptr_t end = 0;

    [[nodiscard]] bool contain(std::uintptr_t address) const {
        return begin <= address && address < end;
    }
};
[[nodiscard]] Addresses addresses_of(const dl_phdr_info &file);

/// Returns true if the code at the return address `caller` belongs to the program: to its
/// executable or to any library except those of MPI, OpenCL drivers and loaders, and this project.
/// For code of the C and C++ libraries, their caller decides.
[[nodiscard]] bool from_program(const void *caller);

/// The owner of a library, by its file name without folder. `caller`: its caller decides.
enum class Owner { program, others, caller };
[[nodiscard]] Owner owner_of(const char *file_name);

}  // namespace cldist::host
