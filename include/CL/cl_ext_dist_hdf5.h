/// cldist: datasets of HDF5 files as ends of OpenCL commands.
///
/// A library of its own (libcldist-hdf5, pkg-config module cldist-hdf5), so that other programs need no HDF5. It uses the
/// HDF5 library that the program is linked with, serial or parallel, which must be of the version (1.10, 1.14, …) whose
/// headers the library was built with. Compile with that library's headers:
///     mpicc program.c $(pkg-config --cflags --libs cldist-hdf5 hdf5-openmpi)
///
/// What cl_ext_dist.h says about all commands for files holds here, too: names, order, blocking, event, lifetime.
#ifndef CL_EXT_DIST_HDF5_H
#define CL_EXT_DIST_HDF5_H

#include <CL/cl_ext_dist.h>
#include <hdf5.h>

#ifdef __cplusplus
extern "C" {
#endif

/** HDF5 reported an error while the command ran: a damaged file, a filter that is not there, a full disk. The call's
 *  return value or the event's status; CL_TRANSFER_ERROR_MESSAGE has HDF5's error stack in one line. */
#define CL_HDF5_ERROR -1220

/* ---- Sharing the HDF5 library ------------------------------------------------------------------------------------
 * An HDF5 library that is not thread-safe (H5is_library_threadsafe; parallel ones are not) may be used by one thread at
 * a time. The calls below and the threads that do their work keep to that among themselves, by one lock. So must the
 * program, wherever it calls HDF5 while a command of this header is in flight:
 *
 *     clDistLockHDF5();
 *     H5Dwrite(other_dataset, …);
 *     clDistUnlockHDF5();
 *
 * Closing ids behind the call that enqueues a command is such a use. Nothing is to be locked before the first command,
 * after the last one has ended, around the calls of this header, or with a thread-safe HDF5, where both functions do
 * nothing. The event of a command whose wait list fails may end before the command has done with HDF5: from then on lock
 * until a command that was enqueued behind CL_STAGE_FILE of that one (CL_TRANSFER_STAGES) has ended. */

/** Waits until no other thread uses HDF5, and keeps the others out until clDistUnlockHDF5. A thread may lock several times
 *  and must unlock as often.
 *
 *  A command in flight goes on once the lock is free: don't wait for one, nor for another process that does (in a
 *  collective call, for example), while holding it. A blocking call of this header, and only that, gives the lock up until
 *  it returns. With a collective command in flight the wait can be for the other processes to take part.
 *
 *  Thread-safe. Not collective. Returns CL_SUCCESS. */
cl_int clDistLockHDF5(void);

/** Undoes one clDistLockHDF5 of the calling thread. Returns CL_SUCCESS; CL_INVALID_OPERATION if the calling thread does not
 *  hold the lock, which is left as it is. */
cl_int clDistUnlockHDF5(void);

/* ---- Commands ----------------------------------------------------------------------------------------------------
 * Common to both:
 *
 * Meaning. As if the selected elements had been read by H5Dread, or written by H5Dwrite, when the command ran. In the
 * buffer they lie from byte `offset` on, packed, in the order of the selection: the last dimension fastest, points in the
 * order of the list. `mem_type` is their type there, HDF5 converts; `file_space` is a selection in the dataset's extent,
 * or H5S_ALL. So `H5Sget_select_npoints(file_space) * H5Tget_size(mem_type)` bytes of the buffer are read or written. That
 * may be none. Bytes of an element that belong to no member of a compound `mem_type` get unspecified values.
 *
 * Layouts. All that HDF5 knows: contiguous, chunked, filtered (a filter that is not available is an error of the command),
 * compact, external, virtual. A large regular hyperslab is moved in blocks along its slowest dimension, cut between chunks
 * where it can be; other selections, and collective transfers, are moved at once, with as much host memory as they have
 * bytes where the device's own is not in reach.
 *
 * `xfer_plist` may be H5P_DEFAULT. Where it asks for collective transfers (H5Pset_dxpl_mpio) all processes of the file must
 * enqueue the command, with selections of their own, H5Sselect_none included: it then has no bytes but takes part.
 * Collective commands start one after the other; their order, and that of other collective calls on HDF5 files, must be the
 * same in all processes. A command that fails before its turn, because its wait list did, takes part with nothing, so that
 * the others end.
 *
 * Order. Commands of this header run one after the other, in the order in which they start, whatever their files.
 * Exceptions are large reads of contiguous data without conversion or a transfer list, from files opened with HDF5's
 * default driver: where there are more than two I/O threads (CLDIST_IO_THREADS), these read the file themselves, beside all
 * others, after HDF5 has written what it held back.
 *
 * Lifetime. Ids may be closed once the call has returned. A dataset and its file that are closed while the command is in
 * flight are closed when it ends, before its event says so.
 * A file that several processes opened together (H5Pset_fapl_mpio) is to be closed when its commands have ended in this
 * process: closing it is collective, and a command's end is not at the same place among the collective calls of all
 * processes. If it is closed sooner, one process may wait in the closing while another waits in the next command, for ever.
 *
 * Waiting. The call itself uses HDF5. With a library that is not thread-safe it waits until others, a running command for
 * example, don't; with a collective command in flight until all processes take part in that.
 *
 * Failure. The event ends with CL_HDF5_ERROR. CL_TRANSFER_BYTES tells how many bytes were moved by whole blocks before
 * that; what the failing block was for has unspecified contents. Other commands are untouched. HDF5 prints nothing.
 *
 * Not supported: memory types with pointers, of variable length (H5T_VLEN, variable strings).
 *
 * Threads. Thread-safe, also where HDF5 is not; see clDistLockHDF5. Not collective, where `xfer_plist` does not say so.
 *
 * Errors, in the order of the checks: CL_INVALID_COMMAND_QUEUE and CL_INVALID_MEM_OBJECT as for messages;
 * CL_INVALID_OPERATION if the program's HDF5 library is of another version than the headers this library was built with;
 * CL_INVALID_VALUE     if `dataset` is not a dataset;
 *                      if `mem_type` is not a datatype, has elements of variable length, or if HDF5 knows no conversion
 *                      between it and the dataset's type;
 *                      if `file_space` is neither H5S_ALL nor a dataspace, has another rank than the dataset, or a
 *                      selection that is unlimited or leaves the dataset's extent;
 *                      if `xfer_plist` is neither H5P_DEFAULT nor a dataset transfer list;
 *                      if a dataset to be written is in a file opened for reading;
 * CL_HDF5_ERROR        if HDF5 fails otherwise;
 * then those of a range of the buffer with that size, as for messages, from CL_INVALID_CONTEXT to CL_INVALID_OPERATION,
 * and CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY, CL_MEM_OBJECT_ALLOCATION_FAILURE as for clEnqueueReadBuffer. */

/** Enqueues a command that reads `buffer` and writes the selected elements of `dataset`. */
cl_int clEnqueueReadBufferToHDF5Dataset(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset,
                                        hid_t dataset, hid_t mem_type, hid_t file_space, hid_t xfer_plist,
                                        cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                        cl_event *event);

/** Enqueues a command that reads the selected elements of `dataset` and writes them to `buffer`. */
cl_int clEnqueueWriteBufferFromHDF5Dataset(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                                           size_t offset, hid_t dataset, hid_t mem_type, hid_t file_space,
                                           hid_t xfer_plist, cl_uint num_events_in_wait_list,
                                           const cl_event *event_wait_list, cl_event *event);

#ifdef __cplusplus
}
#endif

#endif
