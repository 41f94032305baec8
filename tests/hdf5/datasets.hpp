/// Support for tests of HDF5: temporary files, owned ids, and commands in short form.
#pragma once

#include <string>
#include <vector>

#include <CL/cl_ext_dist_hdf5.h>

#include "transfers.hpp"

/// Requires that an HDF5 call succeeds.
#define H5_OK(expression) REQUIRE((expression) >= 0)

namespace cldist_test {

/// Owns one reference of an HDF5 object.
class hid {
public:
    hid() = default;
    explicit hid(hid_t id_in) : id(id_in) { REQUIRE(id >= 0); }
    hid(hid &&other) noexcept : id(std::exchange(other.id, -1)) {}
    hid &operator=(hid &&other) noexcept {
        std::swap(id, other.id);
        return *this;
    }
    ~hid() { close(); }
    void close() {
        if (id >= 0) {
            H5Idec_ref(std::exchange(id, -1));
        }
    }

    operator hid_t() const { return id; }  // NOLINT: ids are passed to C calls

private:
    hid_t id = -1;
};

/// A new file name. The constructor does not create the file; the destructor removes it.
class temporary_file {
public:
    temporary_file();
    temporary_file(const temporary_file &) = delete;
    temporary_file &operator=(const temporary_file &) = delete;
    ~temporary_file();

    [[nodiscard]] const char *name() const { return path.c_str(); }
    [[nodiscard]] hid create(hid_t access = H5P_DEFAULT) const {
        return hid(H5Fcreate(name(), H5F_ACC_TRUNC, H5P_DEFAULT, access));
    }
    [[nodiscard]] hid open(unsigned flags, hid_t access = H5P_DEFAULT) const {
        return hid(H5Fopen(name(), flags, access));
    }

private:
    std::string path;
};

using extent = std::vector<hsize_t>;

inline hid space(const extent &dimensions) {
    return hid(H5Screate_simple(static_cast<int>(dimensions.size()), dimensions.data(), nullptr));
}
inline hsize_t points_of(hid_t selection) {
    return static_cast<hsize_t>(H5Sget_select_npoints(selection));
}

inline hid make_dataset(hid_t file, const char *name, hid_t type, const extent &dimensions,
                        hid_t creation = H5P_DEFAULT) {
    const hid whole = space(dimensions);
    return hid(H5Dcreate2(file, name, type, whole, H5P_DEFAULT, creation, H5P_DEFAULT));
}

/// The selected elements, converted to `type` and packed by HDF5.
bytes selected(hid_t dataset, hid_t type, hid_t selection);
/// Writes the selected elements from `data`.
void write_selected(hid_t dataset, hid_t type, hid_t selection, const bytes &data);
/// All elements in the dataset's own type, as bytes.
bytes content(hid_t dataset);

/// The arguments of a command that concern HDF5. `type` is the type of the elements in the buffer.
struct dataset_access {
    hid_t dataset;
    hid_t type;
    hid_t selection = H5S_ALL;
    hid_t list = H5P_DEFAULT;
};

inline event_handle to_dataset(cl_command_queue queue, cl_mem buffer, std::size_t offset,
                               const dataset_access &to, wait_list events = {}) {
    event_handle event;
    CL_OK(clEnqueueReadBufferToHDF5Dataset(
        queue, buffer, CL_FALSE, offset, to.dataset, to.type, to.selection, to.list,
        static_cast<cl_uint>(events.size()), data_of(events), event.out()));
    return event;
}

inline event_handle from_dataset(cl_command_queue queue, cl_mem buffer, std::size_t offset,
                                 const dataset_access &from, wait_list events = {}) {
    event_handle event;
    CL_OK(clEnqueueWriteBufferFromHDF5Dataset(
        queue, buffer, CL_FALSE, offset, from.dataset, from.type, from.selection, from.list,
        static_cast<cl_uint>(events.size()), data_of(events), event.out()));
    return event;
}

/// Holds cldist's lock of HDF5 during its life, for HDF5 calls while commands are in flight.
class hdf5_lock {
public:
    hdf5_lock() { CL_OK(clDistLockHDF5()); }
    hdf5_lock(const hdf5_lock &) = delete;
    hdf5_lock &operator=(const hdf5_lock &) = delete;
    ~hdf5_lock() { clDistUnlockHDF5(); }
};

}  // namespace cldist_test
