#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "ocl/handle.hpp"

namespace cldist {

/// Where buffers lie that their device uses at one address of the host's memory for as long as they live, so that nobody
/// has to map them to find them (docs/dev/decisions/0025-persistent-mappings.md). Thread-safe.
class HostAddresses {
public:
    /// Whether the buffers of `context` are such.
    static bool last(cl_context context);

    /// Of the buffer's first byte; null if nobody has learned it.
    [[nodiscard]] std::byte *find(cl_mem buffer) const;
    /// To be forgotten when the buffer is destroyed.
    void learn(cl_mem buffer, std::byte *address);
    /// The address; learned, if need be, from mapping the first byte with `flags` on an in-order queue, for which it waits.
    /// Null if the platform refuses.
    std::byte *find_or_map(cl_command_queue queue, cl_mem buffer, cl_map_flags flags);

private:
    static void CL_CALLBACK on_destroyed(cl_mem buffer, void *data);

    mutable std::mutex mutex_;
    std::map<cl_mem, std::byte *> of_buffer_;
};

HostAddresses &host_addresses();

}  // namespace cldist
