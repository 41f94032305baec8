#pragma once

#include <sys/types.h>

#include "hdf5/dataset_access.hpp"

namespace cldist {

/// A dataset whose selected elements are one run of bytes in the file, read by the system's calls.
class DirectAccess final : public DatasetAccess {
public:
    /// Null where the transfer is for HDF5, because only it can do it or does it as fast; then `transfer` is untouched.
    static std::shared_ptr<DirectAccess> make(const LibraryUse &hdf5, DatasetTransfer &transfer);

    /// Takes the descriptor over; the data begin at byte `start` of the file.
    DirectAccess(DatasetObjects objects, std::string name, int descriptor, off_t start);
    ~DirectAccess() override;

    [[nodiscard]] bool parallel_reads() const override { return true; }
    /// HDF5 writes what it holds back.
    Status begin() override;
    FileResult read(std::size_t offset, std::byte *to, std::size_t size) override;
    FileResult write(std::size_t offset, const std::byte *from, std::size_t size) override;

private:
    const int descriptor_;
    const off_t start_;
    const std::shared_ptr<FileAccess> file_;
};

}  // namespace cldist
