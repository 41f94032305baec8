/* An OpenCL driver for tests on top of another driver, the library CLDIST_TEST_DRIVER. A source
 * file includes this header and defines begin(), which gets the other driver's platform and returns
 * the platform to show, or NULL on failure. */
#define CL_TARGET_OPENCL_VERSION 300
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <CL/cl.h>
#include <CL/cl_icd.h>

struct _cl_platform_id {
    const cl_icd_dispatch *dispatch;
};

typedef void *(*address_function)(const char *);
typedef cl_int(CL_API_CALL *platforms_function)(cl_uint, cl_platform_id *, cl_uint *);

static cl_platform_id begin(cl_platform_id other);

static cl_int CL_API_CALL get_platform_ids(cl_uint count, cl_platform_id *platforms,
                                           cl_uint *number) {
    const char *const name = getenv("CLDIST_TEST_DRIVER");
    void *const library = name != NULL ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL) return CL_INVALID_PLATFORM;
    void *symbol = dlsym(library, "clGetExtensionFunctionAddress");
    address_function address_of;
    memcpy(&address_of, &symbol, sizeof symbol);
    symbol = address_of("clIcdGetPlatformIDsKHR");
    platforms_function get;
    memcpy(&get, &symbol, sizeof symbol);
    cl_platform_id other = NULL;
    if (get(1, &other, NULL) != CL_SUCCESS) return CL_INVALID_PLATFORM;
    static cl_platform_id shown;
    if (shown == NULL) shown = begin(other);
    if (shown == NULL) return CL_INVALID_PLATFORM;
    if (platforms != NULL && count > 0) platforms[0] = shown;
    if (number != NULL) *number = 1;
    return CL_SUCCESS;
}

typedef cl_int(CL_API_CALL *info_function)(cl_platform_id, cl_platform_info, size_t, void *,
                                           size_t *);

static cl_int CL_API_CALL get_platform_info(cl_platform_id platform, cl_platform_info param,
                                            size_t size, void *value, size_t *size_ret) {
    return platform->dispatch->clGetPlatformInfo(platform, param, size, value, size_ret);
}

CL_API_ENTRY void *CL_API_CALL clGetExtensionFunctionAddress(const char *name) {
    const platforms_function platforms = get_platform_ids;
    const info_function info = get_platform_info; /* for ocl-icd */
    void *address = NULL;
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0) memcpy(&address, &platforms, sizeof address);
    if (strcmp(name, "clGetPlatformInfo") == 0) memcpy(&address, &info, sizeof address);
    return address;
}
