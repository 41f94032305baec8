#pragma once

#include "hdf5/dataset_access.hpp"

namespace cldist {

/// A dataset that is read and written through HDF5.
class LibraryAccess final : public DatasetAccess {
public:
    LibraryAccess(const LibraryUse &hdf5, DatasetTransfer transfer);

    [[nodiscard]] std::shared_ptr<FileLane> lane() const override { return lane_; }
    [[nodiscard]] std::size_t granularity() const override {
        return blocks_.elements * element_size_;
    }
    [[nodiscard]] std::size_t first_block() const override { return blocks_.first * element_size_; }
    [[nodiscard]] bool collective() const override { return collective_; }
    FileResult read(std::size_t offset, std::byte *to, std::size_t size) override;
    FileResult write(std::size_t offset, const std::byte *from, std::size_t size) override;

private:
    template <typename Call>
    FileResult move(std::size_t offset, std::size_t size, const char *what, Call &&call);
    [[nodiscard]] Hid selection(const LibraryUse &hdf5, std::uint64_t first,
                                std::uint64_t elements) const;

    const std::shared_ptr<FileLane> lane_;
    const bool collective_;
    const std::uint64_t elements_;
    const std::size_t element_size_;
    const std::vector<std::uint64_t> extent_;
    const std::optional<Hyperslab> hyperslab_;
    const Cuts blocks_;
};

}  // namespace cldist
