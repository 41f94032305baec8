#pragma once

#include <memory>

#include "events/engine.hpp"
#include "pipeline/device_endpoint.hpp"
#include "pipeline/file_endpoint.hpp"

namespace cldist {

/// Of a transfer to or from a file.
[[nodiscard]] constexpr Route file_route(Direction direction) {
    return direction == Direction::from_file ? Route::from_file : Route::to_file;
}

/// What a profile says of transfers with this file, or null: files are measured with descriptors.
[[nodiscard]] inline const Advice *file_advice(const DeviceResources &resources, Direction direction,
                                               const FileAccess &access) {
    const bool unlike = access.lane() != nullptr || access.ends_always() || access.is_memory();
    return unlike ? nullptr : resources.advice(file_route(direction));
}

/// The engine of all commands for files that are not blocking: made on first use, never destroyed. When the program ends
/// it waits for them.
Engine &file_engine();
/// That one if there is one, else null.
Engine *find_file_engine();

/// When the program ends, `give_up` is called once the commands that had not ended were named: what calls on files still
/// wait for will not come. For one caller.
void at_end_of_files(void (*give_up)());

/// Moves `range` to or from a file. Its driver must give it a waker. `calls_itself` as in FileDriver.
std::unique_ptr<Operation> make_file_transfer(DeviceRange range, Direction direction,
                                              std::shared_ptr<FileAccess> access, bool calls_itself);

}  // namespace cldist
