#include "field_file.hpp"

namespace checkpoint {
namespace {

constexpr char dataset_name[] = "pressure", iteration_name[] = "iteration";

void check_hdf5(herr_t result, const char *what) {
    if (result < 0) throw std::runtime_error(fmt::format("{}: HDF5 says no", what));
}

/// Holds HDF5's lock. enqueue_write() releases ids while its command may already use HDF5.
struct Locked {
    Locked() { clDistLockHDF5(); }
    ~Locked() { clDistUnlockHDF5(); }
};

/// The file access list with which all processes open the file together. A serial HDF5 library is
/// enough for one process.
Id file_access(const Slab &slab) {
    Id list(H5Pcreate(H5P_FILE_ACCESS), "a file access list");
#ifdef H5_HAVE_PARALLEL
    check_hdf5(H5Pset_fapl_mpio(list, slab.comm(), MPI_INFO_NULL), "H5Pset_fapl_mpio");
#else
    if (size_of(slab.comm()) > 1) refuse("several processes need a parallel HDF5 library");
#endif
    return list;
}

/// The transfer list for collective transfers.
Id collective() {
    Id list(H5Pcreate(H5P_DATASET_XFER), "a transfer list");
#ifdef H5_HAVE_PARALLEL
    check_hdf5(H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio");
#endif
    return list;
}

/// The grid as a dataspace with these planes selected.
Id select(const Grid &grid, const Planes &planes) {
    const hsize_t extent[] = {hsize_t(grid.imax), hsize_t(grid.jmax), hsize_t(grid.kmax)};
    const hsize_t start[] = {hsize_t(planes.in_grid), 0, 0},
                  count[] = {hsize_t(planes.count), extent[1], extent[2]};
    Id space(H5Screate_simple(3, extent, nullptr), "a dataspace");
    check_hdf5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr),
               "H5Sselect_hyperslab");
    return space;
}

}  // namespace

Event enqueue_write(const Slab &slab, const Grid &grid, int iteration, const Queue &queue,
                    const Buffer &field, const Event &after, const std::string &path) {
    const Locked until_all_ids_are_released;
    const Id access = file_access(slab), list = collective(), space = select(grid, slab.own());
    const Id file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), path.c_str());
    const Id dataset(H5Dcreate2(file, dataset_name, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT,
                                H5P_DEFAULT),
                     "creating the dataset");
    const Id scalar(H5Screate(H5S_SCALAR), "a dataspace");
    const Id attribute(
        H5Acreate2(dataset, iteration_name, H5T_STD_I32LE, scalar, H5P_DEFAULT, H5P_DEFAULT),
        "creating the attribute");
    check_hdf5(H5Awrite(attribute, H5T_NATIVE_INT, &iteration), "writing the attribute");

    // The command keeps dataset and file open, and closes them when it is done.
    const cl_event wait = after.get();
    Event event;
    check(clEnqueueReadBufferToHDF5Dataset(queue.get(), field.get(), CL_FALSE,
                                           slab.own().first * slab.face_size(), dataset,
                                           H5T_NATIVE_FLOAT, space, list, 1, &wait, event.put()),
          "clEnqueueReadBufferToHDF5Dataset");
    return event;
}

int read(const Slab &slab, const Grid &grid, const Queue &queue, const std::string &path) {
    const Id access = file_access(slab), list = collective(), space = select(grid, slab.all());
    const Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), path.c_str());
    const Id dataset(H5Dopen2(file, dataset_name, H5P_DEFAULT), "opening the dataset");
    const Id attribute(H5Aopen(dataset, iteration_name, H5P_DEFAULT), "opening the attribute");
    int iteration;
    check_hdf5(H5Aread(attribute, H5T_NATIVE_INT, &iteration), "reading the attribute");

    // Kernels read the surface, which never changes, from both buffers, so both get the data. If
    // the file has another grid size, this call fails.
    const cl_mem pressure = slab.pressure(iteration);
    check(clEnqueueWriteBufferFromHDF5Dataset(queue.get(), pressure, CL_FALSE, 0, dataset,
                                              H5T_NATIVE_FLOAT, space, list, 0, nullptr, nullptr),
          "clEnqueueWriteBufferFromHDF5Dataset");
    check(clEnqueueCopyBuffer(queue.get(), pressure, slab.pressure(iteration + 1), 0, 0,
                              slab.all().count * slab.face_size(), 0, nullptr, nullptr),
          "clEnqueueCopyBuffer");
    check(clFinish(queue.get()), "clFinish");
    return iteration;
}

}  // namespace checkpoint
