// A native driver that reports long attributes of kernels. The program is plain OpenCL; its own
// clGetKernelInfo, which replaces the loader's, lengthens the attributes for the platform.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "one_kernel.hpp"

namespace {

const std::string attributes(10000, 'a');
bool is_programs_call = false;

}  // namespace

// The platform's own calls arrive here, too.
extern "C" CL_API_ENTRY cl_int CL_API_CALL clGetKernelInfo(cl_kernel kernel, cl_kernel_info param,
                                                           size_t size, void *value,
                                                           size_t *size_ret) {
    if (param == CL_KERNEL_ATTRIBUTES && !is_programs_call) {
        if (size_ret != nullptr) *size_ret = attributes.size() + 1;
        if (value == nullptr) return CL_SUCCESS;
        if (size <= attributes.size()) return CL_INVALID_VALUE;
        std::memcpy(value, attributes.c_str(), attributes.size() + 1);
        return CL_SUCCESS;
    }
    decltype(&clGetKernelInfo) next = nullptr;
    void *const symbol = dlsym(RTLD_NEXT, "clGetKernelInfo");
    std::memcpy(&next, &symbol, sizeof next);
    return next(kernel, param, size, value, size_ret);
}

int main() {
    const cluster_test::OneKernel one("kernel void set(global int *out) { *out = 1; }", "set");
    std::string found(2 * attributes.size(), '\0');
    is_programs_call = true;
    cluster_test::require(
        clGetKernelInfo(one.kernel, CL_KERNEL_ATTRIBUTES, found.size(), found.data(), nullptr),
        "clGetKernelInfo");
    found.resize(std::strlen(found.c_str()));
    if (found == attributes) return 0;
    std::fprintf(stderr, "%zu characters instead of %zu\n", found.size(), attributes.size());
    return 1;
}
