#pragma once

#include <memory>

#include "events/operation.hpp"
#include "pipeline/endpoint.hpp"
#include "pipeline/file_access.hpp"
#include "pipeline/plan.hpp"

namespace cldist {

/// The threads that make calls on files without a lane, and the largest number of these threads.
IoThreads &io_threads();
unsigned io_thread_count();

/// The driver of a transfer with a file.
struct FileDriver {
    /// Requests another poll of the transfer. Any thread may call it, even after the transfer was
    /// destroyed.
    Waker wake;
    /// The driving thread makes the calls itself, except calls that several threads make in
    /// parallel.
    bool calls_itself;
};

/// Creates the file's end of a transfer of `size` bytes in blocks. Its calls run on other threads,
/// or on the driving thread if the driver makes its calls itself. It is in the file's lane until
/// its last call.
std::shared_ptr<Endpoint> make_file_endpoint(std::shared_ptr<FileAccess> access,
                                             Direction direction, std::size_t size,
                                             const Plan &plan, FileDriver driver,
                                             std::shared_ptr<Record> record);

}  // namespace cldist
