#include <fmt/format.h>

#include "api/file_commands.hpp"
#include "stdio/descriptor_access.hpp"
#include "stdio/stream_access.hpp"

using namespace cldist;

namespace {

std::shared_ptr<FileAccess> stream_access(std::FILE *stream) {
    if (stream == nullptr) throw Error(CL_INVALID_VALUE, "fp is NULL");
    return make_stream_access(stream);
}

std::shared_ptr<FileAccess> descriptor_access(int descriptor, off_t start) {
    if (descriptor < 0)
        throw Error(CL_INVALID_VALUE,
                    fmt::format("the file descriptor {} is negative", descriptor));
    if (start < 0)
        throw Error(CL_INVALID_VALUE, fmt::format("the file offset {} is negative", start));
    return make_descriptor_access(descriptor, start);
}

}  // namespace

extern "C" {

cl_int clEnqueueReadBufferToStdioFile(cl_command_queue command_queue, cl_mem buffer,
                                      cl_bool blocking, size_t offset, size_t size, FILE *fp,
                                      cl_uint num_events_in_wait_list,
                                      const cl_event *event_wait_list, cl_event *event) {
    return run_file_command(
        "clEnqueueReadBufferToStdioFile",
        {{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
         {buffer, offset, size, Direction::to_file}},
        [&](std::size_t &) { return stream_access(fp); });
}

cl_int clEnqueueWriteBufferFromStdioFile(cl_command_queue command_queue, cl_mem buffer,
                                         cl_bool blocking, size_t offset, size_t size, FILE *fp,
                                         cl_uint num_events_in_wait_list,
                                         const cl_event *event_wait_list, cl_event *event) {
    return run_file_command(
        "clEnqueueWriteBufferFromStdioFile",
        {{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
         {buffer, offset, size, Direction::from_file}},
        [&](std::size_t &) { return stream_access(fp); });
}

cl_int clEnqueueReadBufferToFile(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                                 size_t offset, size_t size, int fd, off_t file_offset,
                                 cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                 cl_event *event) {
    return run_file_command(
        "clEnqueueReadBufferToFile",
        {{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
         {buffer, offset, size, Direction::to_file}},
        [&](std::size_t &) { return descriptor_access(fd, file_offset); });
}

cl_int clEnqueueWriteBufferFromFile(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                                    size_t offset, size_t size, int fd, off_t file_offset,
                                    cl_uint num_events_in_wait_list,
                                    const cl_event *event_wait_list, cl_event *event) {
    return run_file_command(
        "clEnqueueWriteBufferFromFile",
        {{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
         {buffer, offset, size, Direction::from_file}},
        [&](std::size_t &) { return descriptor_access(fd, file_offset); });
}

}  // extern "C"
