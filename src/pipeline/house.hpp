#pragma once

namespace cldist {

/// Starts the cleanup thread unless it runs. It frees idle device resources and file lanes, and calls registered
/// functions that free more. A separate thread does this because NVIDIA's driver (580) takes a tenth of a second to
/// release a context and sometimes never returned. No thread waits long for it. It stops when the program ends.
void keep_house();

/// Registers a function that the cleanup thread calls in each round. Call it once per function.
void at_rounds_of_house(void (*let_go)());

/// Reports that the program has released an object, and perhaps a context with it. The thread checks soon and then at
/// growing intervals. Does not wait.
void clear_house_soon();

/// Frees all unused device resources. Returns when they are freed, or after five seconds.
void clear_house();

}  // namespace cldist
