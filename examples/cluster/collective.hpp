#pragma once

#include "common.hpp"

#include <CL/cl_ext_collective.h>

/// For programs whose devices exchange data by collectives.
namespace cluster {

inline std::vector<cl_command_queue> queues(const Devices &devices) {
    std::vector<cl_command_queue> list;
    for (int device = 0; device < devices.count(); ++device) list.push_back(devices.queue(device));
    return list;
}

/// Returns the member `buffer` of all parts.
template <class Part>
std::vector<cl_mem> buffers(const std::vector<Part> &parts, Buffer Part::*buffer) {
    std::vector<cl_mem> list;
    for (const Part &part : parts) list.push_back((part.*buffer).get());
    return list;
}

}  // namespace cluster
