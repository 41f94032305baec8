/** @file
 *  Transfers between device buffers and datasets of HDF5 files as OpenCL commands.
 *
 *  These functions are in a separate library, libcldist-hdf5 (pkg-config module cldist-hdf5), so
 *  that other programs do not need HDF5. libcldist-hdf5 uses the HDF5 library that the program is
 *  linked with, serial or parallel. The HDF5 library must have the version (1.10, 1.14, …) of the
 *  headers that libcldist-hdf5 was built with. Compile the program with the headers of its HDF5
 *  library:
 *
 *      mpicc program.c $(pkg-config --cflags --libs cldist cldist-hdf5 hdf5-openmpi)
 *
 *  A program without MPI uses serial HDF5, cc instead of mpicc, and neither libcldist nor
 *  CL/cl_ext_dist.h:
 *
 *      cc program.c $(pkg-config --cflags --libs cldist-hdf5 hdf5-serial)
 *
 *  Names, order, blocking, events and lifetime are as for all commands for files (@ref
 *  cldist_files). The header is valid C99 and C++. */
#ifndef CL_EXT_DIST_HDF5_H
#define CL_EXT_DIST_HDF5_H

#include <CL/cl_ext_file.h>
#include <hdf5.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup cldist_hdf5 HDF5
 *  Transfers between device buffers and HDF5 datasets.
 *  @{ */

/** HDF5 reported an error while the command ran, such as a damaged file, an unavailable filter or a
 *  full disk.
 *
 *  The code is the return value of the call or the status of the event. CL_TRANSFER_ERROR_MESSAGE
 *  returns HDF5's error stack in one line. */
#define CL_HDF5_ERROR -1220

/** @name Sharing the HDF5 library
 *  Only one thread at a time may use an HDF5 library that is not thread-safe
 *  (H5is_library_threadsafe). Parallel HDF5 libraries are not thread-safe. The calls of this header
 *  and the library's threads use one lock for this. While a command of this header is pending, the
 *  program must use the same lock around its own HDF5 calls, and to close identifiers:
 *
 *      clDistLockHDF5();
 *      H5Dwrite(other_dataset, ...);
 *      clDistUnlockHDF5();
 *
 *  The lock is not needed before the first command, after the last command has ended, or around the
 *  calls of this header. With a thread-safe HDF5 library both functions do nothing. If the wait
 *  list of a command fails, its event may end before the command has finished with HDF5. From then
 *  on, use the lock until its CL_TRANSFER_STAGES contain CL_STAGE_FILE and a command that was
 *  enqueued after that has ended.
 *  @{ */

/** Waits until no other thread uses HDF5, and locks HDF5 until #clDistUnlockHDF5.
 *
 *  A thread may lock several times and must unlock as often. Pending commands continue when the
 *  lock is free. While a thread holds the lock, it must not wait for a pending command, or for
 *  another process that waits for one (in a collective call, for example). A blocking call of this
 *  header releases the lock until it returns; no other call does. If a collective command is
 *  pending, this call may wait until the other processes take part.
 *
 *  Thread-safe. Not collective. Must not be called in an OpenCL callback, because it blocks.
 *
 *  @retval CL_SUCCESS The calling thread holds the lock. */
cl_int clDistLockHDF5(void);

/** Releases one #clDistLockHDF5 of the calling thread.
 *
 *  @retval CL_SUCCESS The lock is released.
 *  @retval CL_INVALID_OPERATION The calling thread does not hold the lock. The lock is unchanged.
 */
cl_int clDistUnlockHDF5(void);
/** @} */

/** @name Commands
 *  @par Meaning
 *  The commands transfer the selected elements as H5Dread or H5Dwrite would when the command runs.
 *  In the buffer, the elements are packed from byte `offset` on, in the order of the selection: the
 *  last dimension varies fastest, and points are in the order of the list. `mem_type` is their type
 *  in the buffer; HDF5 converts between the types. `file_space` is a selection in the dataset's
 *  extent, or H5S_ALL. The command transfers `H5Sget_select_npoints(file_space) *
 *  H5Tget_size(mem_type)` bytes, which may be 0. Bytes of an element that belong to no member of a
 *  compound `mem_type` receive unspecified values.
 *
 *  @par Layouts
 *  All layouts of HDF5 are supported: contiguous, chunked, filtered, compact, external, virtual. If
 *  a filter is not available, the command fails. A large regular hyperslab is transferred in blocks
 *  along its slowest dimension, split between chunks if possible. Other selections and collective
 *  transfers are transferred in one piece; if the device's memory is not accessible to the host,
 *  they need host memory of their size.
 *
 *  @par Transfer property list
 *  `xfer_plist` may be H5P_DEFAULT. If it requests collective transfers (H5Pset_dxpl_mpio), all
 *  processes of the file must enqueue the command, each with its own selection. With H5Sselect_none
 *  a process takes part without bytes. Collective commands start one after the other. Their order,
 *  and that of other collective calls on HDF5 files, must be the same in all processes. If the wait
 *  list of a command fails, the command takes part without bytes, so that the other processes
 *  complete.
 *
 *  @par Order
 *  Commands of this header run one after the other, in the order in which they start, whatever
 *  their files. Exception: large reads of contiguous data without conversion or transfer property
 *  list, from files that were opened with HDF5's default driver. If there are more than two I/O
 *  threads (CLDIST_IO_THREADS), these threads read the file directly, concurrently with other
 *  commands, after HDF5 has written its cached data.
 *
 *  @par Lifetime
 *  The program may close identifiers when the call has returned. If a dataset and its file are
 *  closed while the command is pending, HDF5 closes them when the command ends, before its event
 *  completes. Close a file that several processes opened together (H5Pset_fapl_mpio) only when its
 *  commands have ended in this process. Closing is collective, and the commands may end at
 *  different places in the order of collective calls. If it is closed earlier, one process may wait
 *  in the close call and another in the next command: a deadlock. MPI_Finalize ends a parallel HDF5
 *  library. In a program that is linked with libcldist and runs MPI at MPI_THREAD_MULTIPLE, it
 *  first waits for pending commands.
 *
 *  @par Waiting
 *  The call itself uses HDF5. With a library that is not thread-safe it waits until other users,
 *  such as a running command, have finished. If a collective command is pending, it waits until all
 *  processes take part in that command. Do not make these calls in an OpenCL callback.
 *
 *  @par Failure
 *  The event ends with CL_HDF5_ERROR. CL_TRANSFER_BYTES returns the number of bytes in the complete
 *  blocks before the failure. The contents of the buffer's range for the failing block are
 *  unspecified. Other commands are not affected. HDF5 prints nothing.
 *
 *  @par Not supported
 *  Memory types that contain pointers: types of variable length (H5T_VLEN, variable-length
 *  strings).
 *
 *  @par Threads
 *  Thread-safe, even if HDF5 is not; see #clDistLockHDF5. Collective only if `xfer_plist` requests
 *  it.
 *
 *  @par Errors
 *  Checked in this order.
 *  @retval CL_INVALID_COMMAND_QUEUE as for @ref cldist_messages.
 *  @retval CL_INVALID_MEM_OBJECT as for @ref cldist_messages.
 *  @retval CL_INVALID_CONTEXT as for @ref cldist_messages.
 *  @retval CL_INVALID_VALUE `offset` exceeds the buffer.
 *  @retval CL_INVALID_EVENT_WAIT_LIST as for @ref cldist_messages.
 *  @retval CL_MISALIGNED_SUB_BUFFER_OFFSET as for @ref cldist_messages.
 *  @retval CL_INVALID_OPERATION as for @ref cldist_files; or the program's HDF5 library has another
 *          version than the headers of libcldist-hdf5.
 *  @retval CL_INVALID_VALUE `dataset` is not a dataset; `mem_type` is not a datatype, has elements
 *          of variable length, or HDF5 cannot convert between it and the dataset's type;
 *          `file_space` is neither H5S_ALL nor a dataspace, its extent differs from the dataset's,
 *          or its selection is unlimited or exceeds the extent; `xfer_plist` is neither H5P_DEFAULT
 *          nor a dataset transfer property list; or the command writes a dataset of a file that was
 *          opened for reading.
 *  @retval CL_HDF5_ERROR HDF5 fails in another way.
 *  @retval CL_INVALID_VALUE The selected elements in their memory type exceed the buffer.
 *  @retval CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST as for @ref cldist_files.
 *  @retval CL_OUT_OF_RESOURCES as for clEnqueueReadBuffer.
 *  @retval CL_OUT_OF_HOST_MEMORY as for clEnqueueReadBuffer.
 *  @retval CL_MEM_OBJECT_ALLOCATION_FAILURE as for clEnqueueReadBuffer.
 *  @{ */

/** Enqueues a command that reads `buffer` and writes the selected elements of `dataset`.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_hdf5. */
cl_int clEnqueueReadBufferToHDF5Dataset(cl_command_queue command_queue, cl_mem buffer,
                                        cl_bool blocking, size_t offset, hid_t dataset,
                                        hid_t mem_type, hid_t file_space, hid_t xfer_plist,
                                        cl_uint num_events_in_wait_list,
                                        const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reads the selected elements of `dataset` and writes them to `buffer`.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_hdf5. */
cl_int clEnqueueWriteBufferFromHDF5Dataset(cl_command_queue command_queue, cl_mem buffer,
                                           cl_bool blocking, size_t offset, hid_t dataset,
                                           hid_t mem_type, hid_t file_space, hid_t xfer_plist,
                                           cl_uint num_events_in_wait_list,
                                           const cl_event *event_wait_list, cl_event *event);
/** @} */
/** @} */

#ifdef __cplusplus
}
#endif

#endif
