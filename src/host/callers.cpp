#include "host/callers.hpp"

#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

namespace cldist::host {
namespace {

// Prefixes of libraries of MPI, OpenCL loaders and drivers, and this project.
constexpr std::array others{
    "libcldist",  // this project
    "libOpenCL",        "libpocl",     "libLLVM",       "libclang",
    "libnvidia",        "libcuda",     "libnvcuvid",    "libamdocl",
    "libamd_comgr",     "libhsa-",     "librocm",       "libigd",
    "libigc",           "libze_",      "libintelocl",   "libMesaOpenCL",
    "libRusticlOpenCL", "liboclgrind", "libcltune_icd", "libmpi",
    "libmpich",         "libmpicxx",   "libopen-",      "libprrte",
    "libpmi",           "libhwloc",    "libevent",      "libucp",
    "libucs",           "libuct",      "libucm",        "libfabric",
    "libibverbs",       "librdmacm",   "libpsm",        "libinfinipath",
    "libibumad",        "libmlx4",     "libmlx5",       "libefa",
    "libnl-",           "libslurm",    "libpbs",        "libmunge",
    "libxnvctrl",       "libXNVCtrl",  "mca_",          "libmca_",
    "liboshmem",        "libasan",     "libtsan",       "libubsan",
    "liblsan",
};
// Prefixes of the C and C++ libraries.
constexpr std::array callers{"libc.so", "libc-",      "ld-linux", "ld.so",
                             "ld-",     "libstdc++",  "libc++",   "libgcc_s",
                             "libm.so", "libpthread", "libdl.so", "librt.so"};

struct Range : Addresses {
    Owner owner = Owner::program;
};

std::mutex callers_mutex;
// The loaded modules by address. Never destroyed: constructors and destructors make wrapped calls.
std::vector<Range> &ranges() {
    static auto &all = *new std::vector<Range>;
    return all;
}
thread_local Range last;

int add_module(dl_phdr_info *info, std::size_t, void *to) {
    const Range range{addresses_of(*info), owner_of(basename(info->dlpi_name))};
    if (range.begin < range.end) static_cast<std::vector<Range> *>(to)->push_back(range);
    return 0;
}

// Code outside loaded files, such as code generated at run time, belongs to the program.
Owner owner_at(std::uintptr_t address) {
    if (last.contain(address)) return last.owner;
    const auto find = [&] {
        const auto after = std::ranges::upper_bound(ranges(), address, {}, &Range::begin);
        return after != ranges().begin() && address < (after - 1)->end ? &*(after - 1) : nullptr;
    };
    std::unique_lock lock(callers_mutex);
    const Range *found = find();
    if (found == nullptr) {
        // Not under the mutex: this takes the loader's lock, whose holder may wait for the mutex.
        lock.unlock();
        std::vector<Range> now;
        dl_iterate_phdr(add_module, &now);
        std::ranges::sort(now, {}, &Range::begin);
        lock.lock();
        ranges() = std::move(now);
        found = find();
    }
    if (found == nullptr) return Owner::program;
    last = *found;
    return found->owner;
}

_Unwind_Reason_Code look_at_frame(_Unwind_Context *context, void *result) {
    const auto address = static_cast<std::uintptr_t>(_Unwind_GetIP(context));
    // Skip this library's own frames.
    static const Range own = [] {
        std::vector<Range> now;
        dl_iterate_phdr(add_module, &now);
        const auto here = reinterpret_cast<std::uintptr_t>(&look_at_frame);
        for (const Range &range : now)
            if (range.contain(here)) return range;
        return Range{};
    }();
    if (own.contain(address)) return _URC_NO_REASON;
    const Owner owner = owner_at(address);
    if (owner == Owner::caller) return _URC_NO_REASON;
    *static_cast<Owner *>(result) = owner;
    return _URC_END_OF_STACK;
}

}  // namespace

Addresses addresses_of(const dl_phdr_info &file) {
    Addresses found;
    for (int i = 0; i < file.dlpi_phnum; ++i) {
        const ElfW(Phdr) &part = file.dlpi_phdr[i];
        if (part.p_type != PT_LOAD) continue;
        const std::uintptr_t begin = file.dlpi_addr + part.p_vaddr;
        found.begin = std::min(found.begin, begin);
        found.end = std::max(found.end, begin + part.p_memsz);
    }
    return found;
}

Owner owner_of(const char *file_name) {
    const std::string_view name = file_name;
    const auto begins = [&](const char *prefix) { return name.starts_with(prefix); };
    if (std::ranges::any_of(callers, begins)) return Owner::caller;
    return std::ranges::any_of(others, begins) ? Owner::others : Owner::program;
}

bool from_program(const void *caller) {
    Owner owner = owner_at(reinterpret_cast<std::uintptr_t>(caller));
    if (owner != Owner::caller) return owner == Owner::program;
    owner = Owner::others;
    _Unwind_Backtrace(look_at_frame, &owner);
    return owner == Owner::program;
}

}  // namespace cldist::host
