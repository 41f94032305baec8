#pragma once

#include <sys/types.h>

#include "hdf5/dataset_access.hpp"

namespace cldist {

/// A dataset whose selected elements are contiguous in the file. System calls read them.
class DirectAccess final : public DatasetAccess {
public:
    /// Returns null, and leaves `transfer` unchanged, if only HDF5 can do it or HDF5 is as fast.
    static std::shared_ptr<DirectAccess> make(const LibraryUse &hdf5, DatasetTransfer &transfer);

    /// Takes ownership of the descriptor. The data begins at byte `start` of the file.
    DirectAccess(DatasetObjects objects, std::string name, int descriptor, off_t start);
    ~DirectAccess() override;

    [[nodiscard]] bool parallel_reads() const override { return true; }
    /// Flushes the data that HDF5 holds in memory.
    Status begin() override;
    FileResult read(std::size_t offset, std::byte *to, std::size_t size) override;
    FileResult write(std::size_t offset, const std::byte *from, std::size_t size) override;

private:
    const int descriptor_;
    const off_t start_;
    const std::shared_ptr<FileAccess> file_;
};

}  // namespace cldist
