#pragma once

#include <memory>

#include "events/engine.hpp"
#include "pipeline/device_endpoint.hpp"
#include "pipeline/file_endpoint.hpp"

namespace cldist {

/// The engine of all commands for files that are not blocking: made on first use, never destroyed. When the program ends
/// it waits for them.
Engine &file_engine();
/// That one if there is one, else null.
Engine *find_file_engine();

/// Moves `range` to or from a file.
std::unique_ptr<Operation> make_file_transfer(DeviceRange range, Direction direction,
                                              std::shared_ptr<FileAccess> access, FileDriver driver);

}  // namespace cldist
