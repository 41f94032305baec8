#pragma once

#include <memory>
#include <string>

#include "hdf5/dataset.hpp"
#include "pipeline/file_access.hpp"

namespace cldist {

/// The line of all that is done by HDF5: one command after the other.
std::shared_ptr<FileLane> library_lane();

/// A dataset as the end of a transfer.
class DatasetAccess : public FileAccess {
public:
    DatasetAccess(DatasetObjects objects, std::string name);
    ~DatasetAccess() override;

    [[nodiscard]] std::string name() const override { return name_; }
    /// Programs need not mind HDF5's threads once a command has ended.
    [[nodiscard]] bool ends_always() const override { return true; }
    void end() override { release(); }
    /// Lets go of the objects, by a thread that may wait for HDF5. Nothing may be called afterwards.
    void release();

protected:
    [[nodiscard]] const DatasetObjects &objects() const { return objects_; }

private:
    DatasetObjects objects_;
    const std::string name_;
};

/// A checked transfer: by calls of HDF5, or, where that is faster, around it.
std::shared_ptr<DatasetAccess> make_dataset_access(const LibraryUse &hdf5, DatasetTransfer transfer);

}  // namespace cldist
