#include <cstring>
#include <tuple>

#include "base/log.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/following.hpp"
#include "cluster/api/guard.hpp"
#include "cluster/icd/platform.hpp"
#include "cluster/objects/object.hpp"

namespace cldist::cluster {
namespace {

// Replaces the functions of unsupported features. Fails with CL_INVALID_OPERATION.
template <typename Function>
struct Absent;
template <typename... Arguments>
struct Absent<cl_int (*)(Arguments...)> {
    static cl_int CL_API_CALL call(Arguments...) { return CL_INVALID_OPERATION; }
};
template <typename Object, typename... Arguments>
struct Absent<Object *(*)(Arguments...)> {
    static Object *CL_API_CALL call(Arguments... arguments) {
        // A last argument of this type is errcode_ret.
        const std::tuple all{arguments...};
        const auto last = std::get<sizeof...(Arguments) - 1>(all);
        if constexpr (std::is_same_v<decltype(last), cl_int *const>) {
            if (last != nullptr) *last = CL_INVALID_OPERATION;
        }
        return nullptr;
    }
};
template <typename... Arguments>
struct Absent<void (*)(Arguments...)> {
    static void CL_API_CALL call(Arguments...) {}
};

template <typename Function>
void set_absent(Function &entry) {
    if constexpr (!std::is_same_v<Function, void *>) entry = &Absent<Function>::call;
}

cl_icd_dispatch make_table() {
    cl_icd_dispatch table{};
#define CLDIST_CALL(function, entry, ...) \
    table.function = &Entry<calls::function, &entry>::opencl_function;
#define CLDIST_PLAIN(function, entry, ...) table.function = &entry;
#define CLDIST_EXTENSION(function, ...)
#define CLDIST_ABSENT(function) set_absent(table.function);
#include "cluster/calls/calls.def"
    return table;
}

}  // namespace

const cl_icd_dispatch dispatch_table = make_table();

void *function_address(const char *name) {
    if (std::strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
        return reinterpret_cast<void *>(&get_platform_ids);
    if (std::strcmp(name, "cldistFollowHost") == 0) return reinterpret_cast<void *>(&follow_host);
#define CLDIST_CALL(function, entry, ...) \
    if (std::strcmp(name, #function) == 0) return reinterpret_cast<void *>(dispatch_table.function);
#define CLDIST_PLAIN CLDIST_CALL
#define CLDIST_EXTENSION(function, entry, ...) \
    if (std::strcmp(name, #function) == 0)     \
        return reinterpret_cast<void *>(&Entry<calls::function, &entry>::opencl_function);
#define CLDIST_ABSENT(function) CLDIST_CALL(function, , )
#include "cluster/calls/calls.def"
    return nullptr;
}

}  // namespace cldist::cluster

// The entry points for ICD loaders.
extern "C" {

void *CL_API_CALL clGetExtensionFunctionAddress(const char *name) {
    return cldist::cluster::function_address(name);
}

cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint count, cl_platform_id *platforms,
                                          cl_uint *number) {
    return cldist::cluster::get_platform_ids(count, platforms, number);
}

}  // extern "C"
