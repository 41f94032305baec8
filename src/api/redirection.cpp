/// Routes the program's MPI calls to this library, wherever it is in the link order.
///
/// The loader binds MPI_X to the first library that defines it. This is the MPI library if the
/// program links it first, or a PMPI tool if one is loaded. PMPI_X, which tools and Fortran
/// bindings call, always belongs to the MPI library. Therefore, at the program's start, this
/// library replaces addresses through which the loaded objects call functions that it wraps:
///   MPI_X   becomes a tool's MPI_X if a tool defines it, otherwise this library's.
///   PMPI_X  becomes this library's MPI_X.
/// A call then passes the tool, this library and the MPI library, in this order. MPI_Init passes
/// this library first, which requests MPI_THREAD_MULTIPLE from the tool, because some tools find
/// PMPI_Init with dlsym and bypass the replaced addresses.
///
/// The addresses in the MPI library and in this project's other libraries are not replaced.
///
/// With CLDIST_TRACE, it also replaces the calls that launch kernels, to show the kernels in the
/// trace, except in objects that call clTraceEvent themselves.

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/init.hpp"
#include "api/traced_kernels.hpp"

namespace cldist {
namespace {

// Returns true for relocations that write the address of a symbol into one word.
#if defined(__x86_64__)
constexpr bool holds_address(std::uint64_t type) {
    return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64;
}
#elif defined(__aarch64__)
constexpr bool holds_address(std::uint64_t type) {
    return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT || type == R_AARCH64_ABS64;
}
#else
constexpr bool holds_address(std::uint64_t) { return false; }
#endif

// Returns the load address of the object that defines the function, or null.
const void *home_of(const void *function) {
    Dl_info info{};
    void *found = nullptr;
    if (function == nullptr || dladdr1(function, &info, &found, RTLD_DL_SYMENT) == 0)
        return nullptr;
    const auto *const symbol = static_cast<const ElfW(Sym) *>(found);
    // In a program that is not position-independent, `function` may be a jump to another object.
    return symbol != nullptr && symbol->st_shndx == SHN_UNDEF ? nullptr : info.dli_fbase;
}

class Redirection {
public:
    Redirection() {
        static const char place = 0;
        Dl_info info{};
        if (dladdr(&place, &info) == 0) return;
        self_ = info.dli_fbase;
        program_ = dlopen(nullptr, RTLD_LAZY);
        // If this library was loaded later for another object, the program's calls are not
        // redirected. If the program has a jump to the function, home_of() returns null.
        const void *const linked = dlsym(program_, "clDistInit");
        if (linked == nullptr || (home_of(linked) != self_ && home_of(linked) != nullptr)) return;
        self_handle_ = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (self_handle_ != nullptr) mpi_ = home_of(dlsym(self_handle_, "PMPI_Init_thread"));
        if (possible()) init_of_tool = std::bit_cast<InitThread *>(tools("MPI_Init_thread"));
        const char *const folder = std::getenv("CLDIST_TRACE");
        has_trace_ = folder != nullptr && *folder != '\0';
        opencl_ = home_of(dlsym(self_handle_, "clEnqueueNDRangeKernel"));
    }
    Redirection(const Redirection &) = delete;
    Redirection &operator=(const Redirection &) = delete;
    ~Redirection() {
        if (self_handle_ != nullptr) dlclose(self_handle_);
        if (program_ != nullptr) dlclose(program_);
    }

    [[nodiscard]] bool possible() const { return self_handle_ != nullptr && mpi_ != nullptr; }

    void redirect(const dl_phdr_info &object) {
        const ElfW(Dyn) *dynamic = nullptr;
        const ElfW(Phdr) *relro = nullptr;
        const void *home = nullptr;
        for (int i = 0; i < object.dlpi_phnum; ++i) {
            const ElfW(Phdr) &header = object.dlpi_phdr[i];
            if (header.p_type == PT_DYNAMIC)
                dynamic = at<const ElfW(Dyn)>(object.dlpi_addr + header.p_vaddr);
            if (header.p_type == PT_GNU_RELRO) relro = &header;
            if (header.p_type == PT_LOAD && home == nullptr)
                home = at<const void>(object.dlpi_addr + header.p_vaddr);
        }
        if (dynamic == nullptr || home == mpi_ || is_of_this_project(object.dlpi_name)) return;
        begin_ = end_ = 0;
        if (relro != nullptr) {
            const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
            begin_ = (object.dlpi_addr + relro->p_vaddr) & ~(page - 1);
            end_ = (object.dlpi_addr + relro->p_vaddr + relro->p_memsz) & ~(page - 1);
        }
        std::map<ElfW(Sxword), std::uintptr_t> value;
        for (; dynamic->d_tag != DT_NULL; ++dynamic) value[dynamic->d_tag] = dynamic->d_un.d_val;
        // The loader has replaced offsets with addresses, except on some CPU architectures.
        const auto address = [&](ElfW(Sxword) tag) {
            return value[tag] < object.dlpi_addr ? object.dlpi_addr + value[tag] : value[tag];
        };
        const auto *names = at<const char>(address(DT_STRTAB));
        const auto *symbols = at<const ElfW(Sym)>(address(DT_SYMTAB));
        const auto each_symbol = [&](auto &&use) {
            for (const auto &[table, size] :
                 {std::pair{DT_RELA, DT_RELASZ}, std::pair{DT_JMPREL, DT_PLTRELSZ}}) {
                const auto *relocations = at<const ElfW(Rela)>(address(table));
                for (std::size_t i = 0; i < value[size] / sizeof *relocations; ++i) {
                    const std::uint64_t symbol = ELF64_R_SYM(relocations[i].r_info);
                    if (symbol != 0)
                        use(relocations[i], std::string_view(names + symbols[symbol].st_name));
                }
            }
        };
        traces_ = has_trace_ && home != opencl_;
        if (traces_)
            each_symbol([&](const auto &, std::string_view name) {
                traces_ = traces_ && name != "clTraceEvent";
            });
        each_symbol([&](const auto &relocation, std::string_view name) {
            redirect(object.dlpi_addr, relocation, name);
        });
    }

private:
    template <typename Type>
    static Type *at(std::uintptr_t address) {
        return std::bit_cast<Type *>(address);
    }

    static bool is_of_this_project(std::string_view path) {
        return path.substr(path.rfind('/') + 1).starts_with("libcldist");
    }

    void redirect(std::uintptr_t base, const ElfW(Rela) & relocation, std::string_view name) {
        if (relocation.r_addend != 0 || !holds_address(ELF64_R_TYPE(relocation.r_info))) return;
        const void *target = nullptr;
        if (name.starts_with("PMPI_")) {
            target = targets_of(std::string(name.substr(1))).profiling;
        } else if (name.starts_with("MPI_")) {
            target = targets_of(std::string(name)).normal;
        } else if (traces_) {
            target = traced_launch(name);
        }
        const auto wanted = std::bit_cast<std::uintptr_t>(target);
        auto *const place = at<std::uintptr_t>(base + relocation.r_offset);
        if (wanted != 0 && *place != wanted) write(place, wanted);
    }

    // Makes memory writable for the write if the loader has protected it.
    void write(std::uintptr_t *place, std::uintptr_t value) const {
        const auto address = std::bit_cast<std::uintptr_t>(place);
        const bool is_protected = address >= begin_ && address < end_;
        auto *const pages = at<void>(begin_);
        if (is_protected && mprotect(pages, end_ - begin_, PROT_READ | PROT_WRITE) != 0) return;
        *place = value;
        if (is_protected) mprotect(pages, end_ - begin_, PROT_READ);
    }

    struct Targets {
        /// Replaces MPI_X; null if this library does not wrap the function.
        void *normal = nullptr;
        void *profiling = nullptr;  ///< replaces PMPI_X
    };

    // Returns a tool's function, or null if no tool defines it.
    void *tools(const char *name) const {
        for (void *const found : {dlsym(program_, name), dlsym(RTLD_NEXT, name)}) {
            const void *const home = home_of(found);
            if (home != nullptr && home != self_ && home != mpi_) return found;
        }
        return nullptr;
    }

    const Targets &targets_of(const std::string &name) {
        const auto [at, added] = targets_.try_emplace(name);
        Targets &targets = at->second;
        if (!added) return targets;
        void *const own = dlsym(self_handle_, name.c_str());
        if (home_of(own) != self_) return targets;
        void *const tool = tools(name.c_str());
        targets = {tool != nullptr ? tool : own, own};
        if (name == "MPI_Init" || name == "MPI_Init_thread") {
            if (init_of_tool != nullptr) targets.normal = own;
            targets.profiling = name == "MPI_Init" ? std::bit_cast<void *>(&init_below_tool)
                                                   : std::bit_cast<void *>(&init_thread_below_tool);
        }
        return targets;
    }

    void *program_ = nullptr;
    void *self_handle_ = nullptr;
    const void *self_ = nullptr;
    const void *mpi_ = nullptr;
    const void *opencl_ = nullptr;
    bool has_trace_ = false;
    bool traces_ = false;       ///< the current object's kernels are added to the trace
    std::uintptr_t begin_ = 0;  ///< range that the loader has protected in the current object
    std::uintptr_t end_ = 0;
    std::map<std::string, Targets> targets_;
};

[[gnu::constructor]] void redirect_calls() {
    Redirection redirection;
    if (!redirection.possible()) return;
    std::vector<dl_phdr_info> objects;
    dl_iterate_phdr(
        [](dl_phdr_info *object, std::size_t, void *all) {
            static_cast<std::vector<dl_phdr_info> *>(all)->push_back(*object);
            return 0;
        },
        &objects);
    for (const dl_phdr_info &object : objects) redirection.redirect(object);
}

}  // namespace
}  // namespace cldist
