#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "pipeline/descriptor.hpp"

namespace cldist::tool {

/// The path by which other processes of this host open a file of this process.
[[nodiscard]] std::string path_of(const Descriptor &file);

/// Maps the beginning of a file, which other processes may also map. Null on failure.
template <typename T>
[[nodiscard]] T *map_shared(const Descriptor &file) {
    void *const memory =
        mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    return memory == MAP_FAILED ? nullptr : static_cast<T *>(memory);
}

/// Counts rank 0's programs that have joined the workers, in memory shared by all ranks. Used with
/// a central host if all ranks are on this host. Each program needs new workers, because MPI can be
/// initialised only once per process.
class ProgramCount {
public:
    static constexpr const char *variable = "CLDIST_HOST_PROGRAMS";

    explicit ProgramCount(Descriptor file);
    ProgramCount(const ProgramCount &) = delete;
    ProgramCount &operator=(const ProgramCount &) = delete;
    ~ProgramCount();
    [[nodiscard]] std::string path() const { return path_of(file_); }
    /// Waits until more than `before` programs have joined or rank 0 has ended. Returns whether
    /// another program has joined.
    [[nodiscard]] bool wait_for_another(std::uint32_t before) const;
    void end() const;

private:
    using Word = std::atomic<std::uint32_t>;

    const Descriptor file_;
    Word *word_ = nullptr;
};

/// Memory into which the rank's program writes why it ends the job, or that the job starts again.
/// This process prints the text, because the program's standard error may be redirected.
class RankReport {
public:
    RankReport();
    [[nodiscard]] std::string path() const { return path_of(file_); }
    [[nodiscard]] std::string text() const;
    /// Whether a program of the rank has joined the other ranks: it then writes a leading 0.
    [[nodiscard]] bool has_joined() const;
    /// Whether a joined program of the rank is running: it holds a lock.
    [[nodiscard]] bool is_joined() const;
    /// Whether a joined program of the rank has died: at its end, it writes a 1.
    [[nodiscard]] bool has_died() const;

private:
    [[nodiscard]] std::string content() const;

    const Descriptor file_;
};

}  // namespace cldist::tool
