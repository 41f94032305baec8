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

/// Writes the pressure after `iteration` iterations, which `field` (the planes Slab::all()) holds
/// once `after` has ended, to a new file; returns the command's event. Collective. While it is in
/// flight there must be no other call to HDF5.
Event enqueue_write(const Slab &slab, const Grid &grid, int iteration, const Queue &queue,
                    const Buffer &field, const Event &after, const std::string &path);

/// Reads a file that any number of processes wrote into both pressure buffers; returns the
/// iteration. Collective.
int read(const Slab &slab, const Grid &grid, const Queue &queue, const std::string &path);

}  // namespace checkpoint
