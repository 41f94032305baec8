#include <cstring>
#include <tuple>

#include "base/log.hpp"
#include "cluster/entry_points.hpp"
#include "cluster/object.hpp"
#include "cluster/platform.hpp"

namespace cldist::cluster {
namespace {

// Of functions that belong to features which the platform reports as absent.
template <typename Function>
struct Absent;
template <typename... Arguments>
struct Absent<cl_int (*)(Arguments...)> {
    static cl_int CL_API_CALL call(Arguments...) { return CL_INVALID_OPERATION; }
};
template <typename Object, typename... Arguments>
struct Absent<Object *(*)(Arguments...)> {
    static Object *CL_API_CALL call(Arguments... arguments) {
        // The last argument is where a code goes, if there is such an argument.
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
    table.clGetPlatformIDs = &get_platform_ids;
#define CLDIST_ENTRY(function, name) table.function = &name;
#include "cluster/entry_points.def"
#undef CLDIST_ENTRY
    set_absent(table.clCreatePipe);
    set_absent(table.clSVMAlloc);
    set_absent(table.clSVMFree);
    set_absent(table.clEnqueueSVMFree);
    set_absent(table.clEnqueueSVMMemcpy);
    set_absent(table.clEnqueueSVMMemFill);
    set_absent(table.clEnqueueSVMMap);
    set_absent(table.clEnqueueSVMUnmap);
    set_absent(table.clEnqueueSVMMigrateMem);
    set_absent(table.clSetKernelArgSVMPointer);
    set_absent(table.clSetKernelExecInfo);
    return table;
}

}  // namespace

const cl_icd_dispatch dispatch_table = make_table();

void *function_address(const char *name) {
    if (std::strcmp(name, "clIcdGetPlatformIDsKHR") == 0) return reinterpret_cast<void *>(&get_platform_ids);
#define CLDIST_ENTRY(function, entry) \
    if (std::strcmp(name, #function) == 0) return reinterpret_cast<void *>(&entry);
#include "cluster/entry_points.def"
#undef CLDIST_ENTRY
    return nullptr;
}

}  // namespace cldist::cluster

// What a loader looks for.
extern "C" {

void *CL_API_CALL clGetExtensionFunctionAddress(const char *name) { return cldist::cluster::function_address(name); }

cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint count, cl_platform_id *platforms, cl_uint *number) {
    return cldist::cluster::get_platform_ids(count, platforms, number);
}

}  // extern "C"
