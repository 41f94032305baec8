#include "hdf5/library.hpp"

#include <fmt/format.h>

#include "api/boundary.hpp"

namespace cldist {

bool LibraryLock::unlock() {
    const std::lock_guard guard(mutex_);
    if (depth_ == 0 || owner_ != std::this_thread::get_id()) return false;
    if (--depth_ == 0) free_.notify_all();
    return true;
}

LibraryLock::Depth LibraryLock::unlock_all() {
    const std::lock_guard guard(mutex_);
    if (depth_ == 0 || owner_ != std::this_thread::get_id()) return 0;
    free_.notify_all();
    return std::exchange(depth_, 0);
}

void LibraryLock::lock_again(Depth depth) {
    if (depth == 0) return;
    std::unique_lock guard(mutex_);
    const std::thread::id self = std::this_thread::get_id();
    if (depth_ == 0 || owner_ != self) {
        const std::uint64_t mine = next_++;
        free_.wait(guard, [&] { return depth_ == 0 && first_ == mine; });
        ++first_;
        owner_ = self;
    }
    depth_ += depth;
}

LibraryLock *library_lock() {
    // Never destroyed, because commands may be pending at exit.
    static LibraryLock *const lock = [] {
        hbool_t safe = false;
        return H5is_library_threadsafe(&safe) >= 0 && safe ? nullptr : new LibraryLock;
    }();
    return lock;
}

LibraryLockGivenUp::LibraryLockGivenUp(bool wanted) {
    if (LibraryLock *const lock = library_lock(); wanted && lock != nullptr)
        depth_ = lock->unlock_all();
}

LibraryLockGivenUp::~LibraryLockGivenUp() {
    if (depth_ != 0) library_lock()->lock_again(depth_);
}

LibraryUse::LibraryUse() : lock_(library_lock()) {
    if (lock_ != nullptr) lock_->lock();
    // An error handler of the HDF5 1.6 interface can't be queried, so it is not replaced.
    unsigned new_style = 0;
    silenced_ = H5Eauto_is_v2(H5E_DEFAULT, &new_style) >= 0 && new_style != 0 &&
                H5Eget_auto2(H5E_DEFAULT, &function_, &data_) >= 0;
    if (silenced_) H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

LibraryUse::~LibraryUse() {
    if (silenced_) H5Eset_auto2(H5E_DEFAULT, function_, data_);
    if (lock_ != nullptr) lock_->unlock();
}

namespace {

// Called for each error, from the call to its cause.
herr_t add_error(unsigned /*n*/, const H5E_error2_t *error, void *text) {
    auto &all = *static_cast<std::string *>(text);
    const bool told = error->desc != nullptr && *error->desc != '\0';
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", error->func_name,
                       told ? error->desc : "failed");
    return 0;
}

}  // namespace

Status LibraryUse::failure(std::string_view what) const {
    std::string cause;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, &add_error, &cause);
    return Status::failure(
        CL_HDF5_ERROR,
        fmt::format("{}: {}", what, cause.empty() ? "HDF5 reports no reason" : cause));
}

}  // namespace cldist

using namespace cldist;

extern "C" {

cl_int clDistLockHDF5(void) {
    if (LibraryLock *const lock = library_lock()) lock->lock();
    return CL_SUCCESS;
}

cl_int clDistUnlockHDF5(void) {
    return at_boundary(__func__, [] {
        LibraryLock *const lock = library_lock();
        if (lock != nullptr && !lock->unlock())
            throw Error(CL_INVALID_OPERATION, "the calling thread does not hold the lock");
    });
}

}  // extern "C"
