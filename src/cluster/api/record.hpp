/// Creation of objects: all processes number them in the same order and get the same errors.
#pragma once

#include <new>
#include <utility>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "cluster/objects/errors.hpp"
#include "cluster/world/exchange.hpp"
#include "cluster/world/world.hpp"

namespace cldist::cluster {

/// Returns a new object with its number.
template <typename T, typename... Args>
T *make(Args &&...args) {
    T *const object = new T(std::forward<Args>(args)...);
    object->set_number(World::get().next_number());
    return object;
}

/// Calls `make`, which creates native objects in this process. If it fails in some process, all
/// processes throw an Error with that code. Collective.
template <typename Make>
void in_all(Make &&make) {
    World &world = World::get();
    if (world.alone()) return make();
    const Exchange exchange;
    cl_int code = CL_SUCCESS;
    try {
        make();
    } catch (const Error &error) {
        log_info("{}", error.status().message);
        code = error.status().code;
    } catch (const std::bad_alloc &) {
        code = CL_OUT_OF_HOST_MEMORY;
    }
    code = exchange.least(code);
    if (code != CL_SUCCESS)
        fail(code, "the driver of a device rejected the call with {}", code_text(code));
}

}  // namespace cldist::cluster
