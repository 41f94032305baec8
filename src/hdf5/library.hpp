#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <CL/cl_ext_dist_hdf5.h>

#include "base/status.hpp"

namespace cldist {

/// Keeps all threads but one out of an HDF5 library that is not thread-safe. May be taken several times by one thread.
/// Threads get it in the order in which they ask: one that uses HDF5 all the time does not hold up commands.
class LibraryLock {
public:
    /// How often it was taken.
    using Depth = unsigned;

    void lock() { lock_again(1); }
    /// Whether the calling thread had it.
    bool unlock();
    /// Gives up what the calling thread has, which may be nothing.
    Depth unlock_all();
    void lock_again(Depth depth);

private:
    std::mutex mutex_;
    std::condition_variable free_;
    std::uint64_t next_ = 0;   ///< for who asks next
    std::uint64_t first_ = 0;  ///< who waits longest, or next_
    std::thread::id owner_;
    Depth depth_ = 0;
};

/// The lock of the program's HDF5 library; null if that is thread-safe.
LibraryLock *library_lock();

/// Gives up the lock while it lives, for calls that wait until other threads have used HDF5.
class LibraryLockGivenUp {
public:
    explicit LibraryLockGivenUp(bool wanted);
    LibraryLockGivenUp(const LibraryLockGivenUp &) = delete;
    LibraryLockGivenUp &operator=(const LibraryLockGivenUp &) = delete;
    ~LibraryLockGivenUp();

private:
    LibraryLock::Depth depth_ = 0;
};

/// While it lives its thread may call HDF5, which prints nothing.
class LibraryUse {
public:
    LibraryUse();
    LibraryUse(const LibraryUse &) = delete;
    LibraryUse &operator=(const LibraryUse &) = delete;
    ~LibraryUse();

    /// CL_HDF5_ERROR with what HDF5 says about its last call, which failed.
    [[nodiscard]] Status failure(std::string_view what) const;
    /// Throws that if the result of an HDF5 call is negative.
    template <typename Result>
    Result check(Result result, const char *what) const {
        if (result < 0) throw Error(failure(what));
        return result;
    }

private:
    LibraryLock *const lock_;
    bool silenced_ = false;
    H5E_auto2_t function_ = nullptr;
    void *data_ = nullptr;
};

/// Owns one reference to an HDF5 object. Released by a thread that may call HDF5.
class Hid {
public:
    Hid() = default;
    explicit Hid(hid_t id) : id_(id) {}
    Hid(Hid &&other) noexcept : id_(std::exchange(other.id_, none)) {}
    Hid &operator=(Hid &&other) noexcept {
        std::swap(id_, other.id_);
        return *this;
    }
    ~Hid() { release(); }

    [[nodiscard]] hid_t get() const { return id_; }
    [[nodiscard]] bool valid() const { return id_ >= 0; }
    /// Whether that went well: what is closed may have to be written first.
    bool release() { return id_ < 0 || H5Idec_ref(std::exchange(id_, none)) >= 0; }

private:
    static constexpr hid_t none = -1;
    hid_t id_ = none;
};

}  // namespace cldist
