#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "ocl/handle.hpp"

namespace cldist {

/// Persistent mappings: the host addresses of buffers that stay at one address for their whole
/// life. Commands need not map these buffers (docs/dev/decisions/0025-persistent-mappings.md).
/// Thread-safe.
class HostAddresses {
public:
    /// Returns true if all buffers of `context` have persistent mappings.
    static bool persist(cl_context context);

    /// The address of the buffer's first byte. Null if it is unknown.
    [[nodiscard]] std::byte *find(cl_mem buffer) const;
    /// Stores the address until the buffer is destroyed.
    void learn(cl_mem buffer, std::byte *address);
    /// Returns the address. If it is unknown, maps the first byte with `flags` through an in-order
    /// queue and waits. Returns null if the platform refuses.
    std::byte *find_or_map(cl_command_queue queue, cl_mem buffer, cl_map_flags flags);

private:
    static void CL_CALLBACK on_destroyed(cl_mem buffer, void *data);

    mutable std::mutex mutex_;
    std::map<cl_mem, std::byte *> of_buffer_;
};

HostAddresses &host_addresses();

}  // namespace cldist
