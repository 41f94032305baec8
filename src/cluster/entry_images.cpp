// Images.
#include "cluster/entry.hpp"
#include "cluster/entry_points.hpp"

namespace cldist::cluster {

#define X(name, ...) \
    { return CL_INVALID_OPERATION; }
cl_mem CL_API_CALL create_image(cl_context, cl_mem_flags, const cl_image_format *, const cl_image_desc *, void *,
                                cl_int *) {
    return nullptr;
}
cl_mem CL_API_CALL create_image_with_properties(cl_context, const cl_mem_properties *, cl_mem_flags,
                                                const cl_image_format *, const cl_image_desc *, void *, cl_int *) {
    return nullptr;
}
cl_mem CL_API_CALL create_image_2d(cl_context, cl_mem_flags, const cl_image_format *, size_t, size_t, size_t, void *,
                                   cl_int *) {
    return nullptr;
}
cl_mem CL_API_CALL create_image_3d(cl_context, cl_mem_flags, const cl_image_format *, size_t, size_t, size_t, size_t,
                                   size_t, void *, cl_int *) {
    return nullptr;
}
cl_int CL_API_CALL get_supported_image_formats(cl_context, cl_mem_flags, cl_mem_object_type, cl_uint, cl_image_format *,
                                               cl_uint *) X() cl_int CL_API_CALL
    get_image_info(cl_mem, cl_image_info, size_t, void *, size_t *) X() cl_int CL_API_CALL
    enqueue_read_image(cl_command_queue, cl_mem, cl_bool, const size_t *, const size_t *, size_t, size_t, void *,
                       cl_uint, const cl_event *, cl_event *) X() cl_int CL_API_CALL
    enqueue_write_image(cl_command_queue, cl_mem, cl_bool, const size_t *, const size_t *, size_t, size_t, const void *,
                        cl_uint, const cl_event *, cl_event *) X() cl_int CL_API_CALL
    enqueue_copy_image(cl_command_queue, cl_mem, cl_mem, const size_t *, const size_t *, const size_t *, cl_uint,
                       const cl_event *, cl_event *) X() cl_int CL_API_CALL
    enqueue_copy_image_to_buffer(cl_command_queue, cl_mem, cl_mem, const size_t *, const size_t *, size_t, cl_uint,
                                 const cl_event *, cl_event *) X() cl_int CL_API_CALL
    enqueue_copy_buffer_to_image(cl_command_queue, cl_mem, cl_mem, size_t, const size_t *, const size_t *, cl_uint,
                                 const cl_event *, cl_event *) X() cl_int CL_API_CALL
    enqueue_fill_image(cl_command_queue, cl_mem, const void *, const size_t *, const size_t *, cl_uint,
                       const cl_event *, cl_event *) X() void *CL_API_CALL
    enqueue_map_image(cl_command_queue, cl_mem, cl_bool, cl_map_flags, const size_t *, const size_t *, size_t *,
                      size_t *, cl_uint, const cl_event *, cl_event *, cl_int *) {
    return nullptr;
}

}  // namespace cldist::cluster
