#pragma once

#include <memory>
#include <string>

#include "hdf5/dataset.hpp"
#include "pipeline/file_access.hpp"

namespace cldist {

/// The lane of all HDF5 calls, which run one after the other.
std::shared_ptr<FileLane> library_lane();

/// A dataset as the end of a transfer.
class DatasetAccess : public FileAccess {
public:
    DatasetAccess(DatasetObjects objects, std::string name);
    ~DatasetAccess() override;

    [[nodiscard]] std::string name() const override { return name_; }
    /// After a command has ended, HDF5's threads do not use the program's objects any more.
    [[nodiscard]] bool ends_always() const override { return true; }
    /// Releases the objects. May wait for HDF5. No function may be called afterwards.
    void end() override;

protected:
    [[nodiscard]] const DatasetObjects &objects() const { return objects_; }

private:
    DatasetObjects objects_;
    const std::string name_;
};

/// The access for a checked transfer. It calls HDF5, or reads the file directly if that is faster.
std::shared_ptr<DatasetAccess> make_dataset_access(const LibraryUse &hdf5,
                                                   DatasetTransfer transfer);

}  // namespace cldist
