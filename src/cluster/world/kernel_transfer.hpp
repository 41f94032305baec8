#pragma once

#include <memory>
#include <span>

#include "cluster/world/host_memory_transfer.hpp"
#include "mpi_interop/device_links.hpp"
#include "mpi_interop/message_driver.hpp"
#include "mpi_interop/ordered_command.hpp"

namespace cldist::cluster {

/// One end of a message between devices of one host that kernels carry out (decision 44). The
/// sender's kernel writes the bytes to landing memory of the receiver's device and sets a flag. The
/// receiver's kernel copies them from there. A user event holds it back until the flag is set, so
/// no kernel waits for another process.
struct KernelEnd {
    DeviceRange range;
    std::shared_ptr<const QueueInfo> queue;  ///< in-order, only for this kernel
    std::span<const cl_event> wait_list;
    Wire wire;
};

/// Enqueues the kernel, and submits the operation that exchanges the header and follows the kernel.
/// Returns the kernel's event, or null if the host must carry out this end. Throws an Error.
Event send_by_kernel(KernelEnd end, const std::shared_ptr<DeviceLinks> &links,
                     MessageDriver &driver, ProgressThread &progress_thread);
/// The same for the receiver. `by_host` receives the message if the sender's host sends it.
Event receive_by_kernel(KernelEnd end, const std::shared_ptr<DeviceLinks> &links,
                        MessageDriver &driver, ProgressThread &progress_thread,
                        std::unique_ptr<Operation> by_host);

/// The status of a transfer after a failure in the sender's process.
[[nodiscard]] inline Status failed_before(cl_int code) {
    return Status::failure(code, "a command before the message failed");
}

}  // namespace cldist::cluster
