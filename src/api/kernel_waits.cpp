#include "api/kernel_waits.hpp"

#include <algorithm>
#include <span>

#include "api/event_table.hpp"
#include "base/config.hpp"
#include "ocl/query.hpp"

namespace cldist {
namespace {

bool has_fatal_errors(MPI_Comm comm) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    if (PMPI_Comm_get_errhandler(comm, &handler) != MPI_SUCCESS) return false;
    const bool fatal = handler == MPI_ERRORS_ARE_FATAL;
    PMPI_Errhandler_free(&handler);
    return fatal;
}

}  // namespace

bool may_wait_in_kernel(const QueueInfo &queue, const CommandArguments &arguments, MPI_Comm comm) {
    if (!queue.in_order || config().on_error == OnError::event || !has_fatal_errors(comm))
        return false;
    // User events and unfinished commands of the library may depend on later calls.
    const std::span<const cl_event> events = arguments.events();
    return std::all_of(events.begin(), events.end(), [](cl_event event) {
        const cl_int status = execution_status(event);
        return status == CL_COMPLETE ||
               (status > CL_COMPLETE && event_table().find(event).empty() &&
                query<cl_command_type>(event, CL_EVENT_COMMAND_TYPE) != CL_COMMAND_USER);
    });
}

bool open_to_kernels(const RangeArgument &range) {
    const cl_mem_flags closed =
        reads_device(range.direction) ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY;
    return (query<cl_mem_flags>(range.buffer, CL_MEM_FLAGS).value_or(closed) & closed) == 0;
}

}  // namespace cldist
