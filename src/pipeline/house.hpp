#pragma once

namespace cldist {

/// Starts, once, the thread that lets go of device resources and file lanes that nobody uses, and calls back who has more to
/// let go of. It is a thread of its own, and nobody waits for it for long: releasing a context takes NVIDIA's driver (580) a
/// tenth of a second, and was seen never to return. When the program ends it stops.
void keep_house();

/// Has `let_go` called whenever that thread looks, on that thread. To be called once.
void at_rounds_of_house(void (*let_go)());

/// The program has released something, and perhaps a context with it: the thread is to look in a moment, and then, for what
/// is released later, in longer and longer intervals. Waits for nothing.
void clear_house_soon();

/// Lets go of all device resources that nobody uses now; returns once they are gone, or after five seconds.
void clear_house();

}  // namespace cldist
