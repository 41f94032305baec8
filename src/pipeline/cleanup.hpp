#pragma once

#include "ocl/handle.hpp"

namespace cldist {

/// Starts the cleanup thread unless it runs. It frees idle device resources, rings, imported memory
/// and file lanes, page-locks staging memory for later calls, and calls registered functions that
/// free more. A separate thread does this because the release of a context may take long or never
/// return. No other thread waits long for it. It stops when the program ends.
void start_cleanup_thread();

/// Registers a function that the cleanup thread calls in each round. Register each function once.
void at_cleanup_rounds(void (*release)());

/// Reports that the program has released an object, and perhaps its context. The thread checks soon
/// and then at growing intervals. Does not wait.
void clean_up_soon();

/// Releases the reference that a command of the program held. With CLDIST_PATH=device, the cleanup
/// thread does this in a few milliseconds. The last release of a buffer may not return while a
/// kernel waits, perhaps for what the calling thread does next. Does not wait.
void release_later(Mem buffer);

/// Frees all unused device resources, rings and imported memory. Waits at most five seconds for it.
void clean_up();

}  // namespace cldist
