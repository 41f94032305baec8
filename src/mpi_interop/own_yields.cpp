#include "mpi_interop/own_yields.hpp"

#include <dlfcn.h>

namespace cldist {

OwnYields::Switch OwnYields::switch_ = nullptr;

void OwnYields::begin() {
    // Open MPI 4 and 5 export this function. It returns the previous setting.
    const auto found =
        reinterpret_cast<Switch>(dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle"));
    if (found == nullptr) return;
    const bool yields = found(false);
    found(yields);
    switch_ = yields ? found : nullptr;
}

}  // namespace cldist
