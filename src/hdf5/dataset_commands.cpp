#include <cstdlib>
#include <mutex>

#include "api/file_commands.hpp"
#include "base/forks.hpp"
#include "base/job.hpp"
#include "hdf5/dataset_access.hpp"
#include "pipeline/file_operation.hpp"

using namespace cldist;

namespace {

// HDF5 ends in exit() and, if it is parallel, in MPI_Finalize. Handlers run in the reverse order of
// their registration. These are registered after HDF5's, so that HDF5 ends after the commands.
void wait_before_hdf5_ends() {
    static std::once_flag once;
    std::call_once(once, [] {
        if (const Job *const with_mpi = job) with_mpi->wait_for_files_at_finalize();
        std::atexit([] {
            if (!in_forked_child()) file_progress_thread().wait_idle(config().stall_seconds);
        });
    });
}

cl_int run(const char *call, const CommandArguments &command, cl_mem buffer, std::size_t offset,
           const DatasetArguments &arguments) {
    // A blocking call waits for earlier commands, which may need the lock.
    const LibraryLockGivenUp meanwhile(command.blocking != CL_FALSE);
    std::shared_ptr<DatasetAccess> access;
    const cl_int code = run_file_command(
        call, {command, {buffer, offset, 0, arguments.direction}}, [&](std::size_t &size) {
            const LibraryUse hdf5;
            DatasetTransfer transfer = check_dataset(hdf5, arguments);
            wait_before_hdf5_ends();
            size = transfer.size();
            return access = make_dataset_access(hdf5, std::move(transfer));
        });
    // No other code releases the access, and the caller may want to close the file.
    if (code != CL_SUCCESS && access != nullptr) access->end();
    return code;
}

}  // namespace

extern "C" {

cl_int clEnqueueReadBufferToHDF5Dataset(cl_command_queue command_queue, cl_mem buffer,
                                        cl_bool blocking, size_t offset, hid_t dataset,
                                        hid_t mem_type, hid_t file_space, hid_t xfer_plist,
                                        cl_uint num_events_in_wait_list,
                                        const cl_event *event_wait_list, cl_event *event) {
    return run("clEnqueueReadBufferToHDF5Dataset",
               {command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, buffer,
               offset, {dataset, mem_type, file_space, xfer_plist, Direction::to_file});
}

cl_int clEnqueueWriteBufferFromHDF5Dataset(cl_command_queue command_queue, cl_mem buffer,
                                           cl_bool blocking, size_t offset, hid_t dataset,
                                           hid_t mem_type, hid_t file_space, hid_t xfer_plist,
                                           cl_uint num_events_in_wait_list,
                                           const cl_event *event_wait_list, cl_event *event) {
    return run("clEnqueueWriteBufferFromHDF5Dataset",
               {command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, buffer,
               offset, {dataset, mem_type, file_space, xfer_plist, Direction::from_file});
}

}  // extern "C"
