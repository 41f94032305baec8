#pragma once

#include "slab.hpp"

#include "options.hpp"

#include <CL/cl_ext_dist_hdf5.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace checkpoint {

using namespace himeno;

/// Owns one reference to an HDF5 object.
class Id {
public:
    Id(hid_t id, const char *what) : id_(id) {
        if (id < 0) throw std::runtime_error(fmt::format("{}: HDF5 says no", what));
    }
    Id(Id &&other) noexcept : id_(std::exchange(other.id_, -1)) {}
    ~Id() {
        if (id_ >= 0) H5Idec_ref(id_);
    }
    operator hid_t() const { return id_; }

private:
    hid_t id_;
};

/// Enqueues a write of the pressure after `iteration` iterations to a new file. `field` contains
/// the planes Slab::all() when `after` is complete. Returns the command's event. Collective. While
/// the command is in flight, HDF5 calls need clDistLockHDF5().
Event enqueue_write(const Slab &slab, const Grid &grid, int iteration, const Queue &queue,
                    const Buffer &field, const Event &after, const std::string &path);

/// Reads a file into both pressure buffers. Returns its iteration. Collective; the number of
/// processes may differ from that of the writer.
int read(const Slab &slab, const Grid &grid, const Queue &queue, const std::string &path);

}  // namespace checkpoint
