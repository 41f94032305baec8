#include <CL/cl_ext_dist.h>

#include "api/file_commands.hpp"
#include "mpi_interop/mpi_file_access.hpp"

using namespace cldist;

namespace {

// A position in a file, and the kind of access.
struct FilePosition {
    MPI_File file;
    MPI_Offset offset;  ///< in etypes
    bool collective;
};

cl_int run(const char *call, const FileCommand &command, const FilePosition &position) {
    return run_file_command(call, command, [&](std::size_t &size) {
        return make_mpi_file_access(position.file, position.offset, size, command.range.direction,
                                    position.collective);
    });
}

}  // namespace

extern "C" {

cl_int clEnqueueReadBufferToMPIFile(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                                    size_t offset, size_t size, MPI_File file,
                                    MPI_Offset file_offset, cl_uint num_events_in_wait_list,
                                    const cl_event *event_wait_list, cl_event *event) {
    return run("clEnqueueReadBufferToMPIFile",
               {{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                {buffer, offset, size, Direction::to_file}},
               {file, file_offset, false});
}

cl_int clEnqueueWriteBufferFromMPIFile(cl_command_queue command_queue, cl_mem buffer,
                                       cl_bool blocking, size_t offset, size_t size, MPI_File file,
                                       MPI_Offset file_offset, cl_uint num_events_in_wait_list,
                                       const cl_event *event_wait_list, cl_event *event) {
    return run("clEnqueueWriteBufferFromMPIFile",
               {{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                {buffer, offset, size, Direction::from_file}},
               {file, file_offset, false});
}

cl_int clEnqueueReadBufferToMPIFileAll(cl_command_queue command_queue, cl_mem buffer,
                                       cl_bool blocking, size_t offset, size_t size, MPI_File file,
                                       MPI_Offset file_offset, cl_uint num_events_in_wait_list,
                                       const cl_event *event_wait_list, cl_event *event) {
    return run("clEnqueueReadBufferToMPIFileAll",
               {{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                {buffer, offset, size, Direction::to_file}},
               {file, file_offset, true});
}

cl_int clEnqueueWriteBufferFromMPIFileAll(cl_command_queue command_queue, cl_mem buffer,
                                          cl_bool blocking, size_t offset, size_t size,
                                          MPI_File file, MPI_Offset file_offset,
                                          cl_uint num_events_in_wait_list,
                                          const cl_event *event_wait_list, cl_event *event) {
    return run("clEnqueueWriteBufferFromMPIFileAll",
               {{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                {buffer, offset, size, Direction::from_file}},
               {file, file_offset, true});
}

}  // extern "C"
