#pragma once

#include <memory>

#include "events/progress_thread.hpp"
#include "pipeline/device_endpoint.hpp"
#include "pipeline/file_endpoint.hpp"

namespace cldist {

/// The route of a transfer to or from a file.
[[nodiscard]] constexpr Route file_route(Direction direction) {
    return direction == Direction::from_file ? Route::from_file : Route::to_file;
}

/// The profile for transfers with this file. Null for files that are not accessed like a
/// descriptor, because profiles are measured with descriptors.
[[nodiscard]] inline const Advice *file_advice(const DeviceResources &resources,
                                               Direction direction, const FileAccess &access) {
    const bool unlike = access.lane() != nullptr || access.ends_always() || access.is_memory();
    return unlike ? nullptr : resources.advice(file_route(direction));
}

/// The progress thread of all non-blocking file commands. It is created at the first use and never
/// destroyed. At exit, the program waits for these commands.
ProgressThread &file_progress_thread();
/// The same, or null if it was not created.
ProgressThread *find_file_progress_thread();

/// Sets a function that is called at exit after the pending commands were listed. It must unblock
/// file calls that are still waiting. Only one caller.
void at_end_of_files(void (*give_up)());

/// A transfer of `range` to or from a file. Its driver must set a waker. `calls_itself`: see
/// FileDriver.
std::unique_ptr<Operation> make_file_transfer(DeviceRange range, Direction direction,
                                              std::shared_ptr<FileAccess> access,
                                              bool calls_itself);

}  // namespace cldist
