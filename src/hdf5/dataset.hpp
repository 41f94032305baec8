#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "events/record.hpp"
#include "hdf5/library.hpp"
#include "hdf5/selection.hpp"

namespace cldist {

/// The arguments of a call. The header describes them.
struct DatasetArguments {
    hid_t dataset;
    hid_t mem_type;
    hid_t file_space;
    hid_t xfer_plist;
    Direction direction;
};

/// The objects of a command. They stay open until the command has ended. The dataset is closed
/// before its file.
struct DatasetObjects {
    Hid file;
    Hid dataset;
    Hid mem_type;
    Hid file_space;  ///< has the dataset's extent
    Hid xfer_plist;  ///< invalid: the default list

    [[nodiscard]] hid_t transfer_list() const {
        return xfer_plist.valid() ? xfer_plist.get() : H5P_DEFAULT;
    }
};

/// A checked call.
struct DatasetTransfer {
    DatasetObjects objects;
    std::string name;  ///< for example "dataset /group/field of file.h5"
    Direction direction;
    bool collective;
    std::vector<std::uint64_t> extent;
    std::uint64_t elements;
    std::size_t element_size;            ///< bytes, in memory
    std::optional<Hyperslab> hyperslab;  ///< if the selection is regular and not empty

    [[nodiscard]] std::size_t size() const { return elements * element_size; }
};

/// Makes all checks that concern HDF5, in the order of the header. Throws an Error.
DatasetTransfer check_dataset(const LibraryUse &hdf5, const DatasetArguments &arguments);

}  // namespace cldist
