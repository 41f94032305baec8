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

/// Restricts an HDF5 library that is not thread-safe to one thread at a time. Recursive. Threads
/// get the lock in the order of their requests, so that constant use by one thread does not block
/// commands.
class LibraryLock {
public:
    /// The number of times that a thread holds the lock.
    using Depth = unsigned;

    void lock() { lock_again(1); }
    /// Returns true if the calling thread held the lock.
    bool unlock();
    /// Releases the lock completely if the calling thread holds it. Returns the depth before.
    Depth unlock_all();
    void lock_again(Depth depth);

private:
    std::mutex mutex_;
    std::condition_variable free_;
    std::uint64_t next_ = 0;   ///< ticket of the next request
    std::uint64_t first_ = 0;  ///< ticket of the longest waiting request, or next_
    std::thread::id owner_;
    Depth depth_ = 0;
};

/// The lock of the program's HDF5 library. Null if the library is thread-safe.
LibraryLock *library_lock();

/// Releases the lock while the object exists, for calls that wait for other threads' use of HDF5.
class LibraryLockGivenUp {
public:
    explicit LibraryLockGivenUp(bool wanted);
    LibraryLockGivenUp(const LibraryLockGivenUp &) = delete;
    LibraryLockGivenUp &operator=(const LibraryLockGivenUp &) = delete;
    ~LibraryLockGivenUp();

private:
    LibraryLock::Depth depth_ = 0;
};

/// While the object exists, its thread may call HDF5, and HDF5 prints nothing.
class LibraryUse {
public:
    LibraryUse();
    LibraryUse(const LibraryUse &) = delete;
    LibraryUse &operator=(const LibraryUse &) = delete;
    ~LibraryUse();

    /// CL_HDF5_ERROR with HDF5's description of the failed last call.
    [[nodiscard]] Status failure(std::string_view what) const;
    /// Throws that error if the result of an HDF5 call is negative.
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

/// Owns one reference to an HDF5 object. Only a thread that may call HDF5 may release it.
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
    /// Returns true on success. Closing an object may write data first, which can fail.
    bool release() { return id_ < 0 || H5Idec_ref(std::exchange(id_, none)) >= 0; }

private:
    static constexpr hid_t none = -1;
    hid_t id_ = none;
};

}  // namespace cldist
