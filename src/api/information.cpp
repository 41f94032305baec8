#include "api/boundary.hpp"
#include "api/transfer_info.hpp"

using namespace cldist;

extern "C" {

const char *clDistErrorName(cl_int code) {
    if (code == CL_SUCCESS) return "CL_SUCCESS";
    const char *const name = error_name(code);
    return name != nullptr ? name : "unknown error code";
}

const char *clDistLastErrorMessage(void) { return last_error_message(); }

cl_int clGetTransferInfo(cl_event event, cl_transfer_info param_name, size_t param_value_size,
                         void *param_value, size_t *param_value_size_ret) {
    return at_boundary("clGetTransferInfo", [&] {
        get_transfer_info(event, param_name, param_value_size, param_value, param_value_size_ret);
    });
}

cl_int clTraceEvent(cl_event event, const char *name) {
    return at_boundary("clTraceEvent", [&] { trace_event(event, name); });
}

}  // extern "C"
