// A library that draws random numbers while the program loads it.
#include <sys/random.h>

#include <ctime>

namespace {

unsigned seed = 0;

__attribute__((constructor)) void draw_seed() {
    (void)!getrandom(&seed, sizeof seed, 0);
    seed ^= static_cast<unsigned>(time(nullptr));
}

}  // namespace

extern "C" unsigned seed_of_library();
unsigned seed_of_library() { return seed; }
