/** @file
 *  MPI messages, MPI collectives and file accesses as OpenCL commands.
 *
 *  Every command of this header is enqueued on an ordinary OpenCL command queue, takes an ordinary
 *  wait list and returns an ordinary event. The semantics follow clDataTransfer (Takizawa et al.,
 *  "clMPI" 2013, "clDataTransfer" 2015). Messages are matched by the rules of the MPI standard.
 *
 *  Sizes and offsets are in bytes and may exceed 4 GiB. Ranks are ranks of the given communicator,
 *  or of its remote group if it is an inter-communicator. The header is valid C99 and C++.
 *
 *  @par Callbacks
 *  The OpenCL driver chooses the thread that runs a callback of clSetEventCallback. For an event of
 *  this library, that thread may be the library's progress thread, or a thread that is in a
 *  blocking call of the library. Callbacks must therefore return quickly, because other transfers
 *  of the process may not progress meanwhile. A callback may call the non-blocking commands of this
 *  header, #clGetTransferInfo, #clTraceEvent and #clCreateMPIRequestFromEvent. It must not make
 *  blocking calls (`blocking` CL_TRUE, clFinish, clWaitForEvents, blocking MPI calls), and it must
 *  not call #clDistInit, #clDistLocalDevice or MPI_Finalize.
 *
 *  @par Processes that fork
 *  A forked child does not have the library's threads. In the child of a process that has used the
 *  library, all calls of this header return CL_INVALID_OPERATION. The child may exit in any way. */
#ifndef CL_EXT_DIST_H
#define CL_EXT_DIST_H

#include <CL/cl_ext_file.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup cldist_init Initialisation
 *  Initialisation, the choice of a device, and buffers that other processes can access.
 *
 *  A program that is linked with the library needs no initialisation. This is true for C and
 *  Fortran, for any order of the linked libraries, and under PMPI tools. MPI_Init and
 *  MPI_Init_thread request MPI_THREAD_MULTIPLE, because the library's progress thread makes MPI
 *  calls. `provided` is the level that MPI returned. If this level is lower, the program runs, but
 *  commands return CL_MPI_THREAD_LEVEL_TOO_LOW and log the cause.
 *  @{ */

/** Initialises the library for a communicator.
 *
 *  If a program enqueues commands on a communicator with processes outside MPI_COMM_WORLD
 *  (MPI_Comm_accept, MPI_Comm_spawn), it must first make this call for the communicator. A program
 *  that loads the library after MPI_Init (for example, in Python) should also make it. Otherwise
 *  its first command initialises the library, collectively over MPI_COMM_WORLD.
 *
 *  Collective over `comm`. The first call in a process must be collective over MPI_COMM_WORLD. Two
 *  threads must not call it at the same time. A repeated call with the same communicator does
 *  nothing.
 *
 *  @retval CL_SUCCESS The library is ready.
 *  @retval CL_MPI_NOT_INITIALIZED MPI is not initialised or is already finalised.
 *  @retval CL_MPI_THREAD_LEVEL_TOO_LOW MPI_Query_thread returns less than MPI_THREAD_MULTIPLE.
 *  @retval CL_INVALID_OPERATION The processes of the job have different versions of cldist.
 *  @retval CL_INVALID_COMMUNICATOR `comm` is MPI_COMM_NULL or was freed.
 *  @retval CL_MPI_ERROR MPI failed to duplicate the communicator. */
cl_int clDistInit(MPI_Comm comm);

/** Selects an OpenCL device for the calling process, so that the processes of `comm` on one host
 *  share its devices evenly.
 *
 *  The candidates are the devices of `platform` with the type `type`. If `platform` is NULL, the
 *  function uses the first platform that has such a device. In the order of their ranks in `comm`,
 *  each process takes the candidate that the fewest earlier processes took, or the first of several
 *  such candidates. This is round robin if all processes see the same devices. Processes may see
 *  different devices (CUDA_VISIBLE_DEVICES, for example). Devices are compared by UUID or bus
 *  address if the platform provides one, otherwise by vendor, name and position. If processes must
 *  share a device other than a CPU, the lowest of them logs a warning with their ranks.
 *
 *  Collective over `comm`, which must be an intra-communicator. `platform` and `type` may differ
 *  between processes. An error in one process does not block the others, except
 *  CL_MPI_NOT_INITIALIZED and CL_INVALID_COMMUNICATOR. A process with an error takes no device and
 *  leaves `device` unchanged. MPI must be initialised, at any thread level; #clDistInit is not
 *  needed. The call is as thread-safe as MPI_Comm_split_type. The device needs no release.
 *
 *  @retval CL_SUCCESS `*device` is the selected device.
 *  @retval CL_MPI_NOT_INITIALIZED MPI is not initialised or is already finalised.
 *  @retval CL_INVALID_COMMUNICATOR `comm` is MPI_COMM_NULL, was freed, or is an inter-communicator.
 *  @retval CL_INVALID_PLATFORM `platform` is neither NULL nor a platform that clGetPlatformIDs
 *          returns.
 *  @retval CL_INVALID_DEVICE_TYPE `type` is neither CL_DEVICE_TYPE_ALL nor a combination of the
 *          other types.
 *  @retval CL_INVALID_VALUE `device` is NULL.
 *  @retval CL_DEVICE_NOT_FOUND No device has that type.
 *  @retval CL_MPI_ERROR MPI failed.
 *  @retval CL_OUT_OF_RESOURCES as for clGetDeviceIDs.
 *  @retval CL_OUT_OF_HOST_MEMORY as for clGetDeviceIDs. */
cl_int clDistLocalDevice(MPI_Comm comm, cl_platform_id platform, cl_device_type type,
                         cl_device_id *device);

/** Creates a buffer whose memory the other processes of the host can read.
 *
 *  On path "peer-to-peer", a message from such a buffer to a device of another process needs one
 * copy, and a message from any other buffer two. Use exportable buffers for large data that is sent
 *  often: NVIDIA GPUs allocate the memory in pieces of 2 MiB, and receivers keep it mapped for up
 *  to 15 seconds after the last message.
 *
 *  The memory belongs to `device`, a device of the context. If the platform cannot share memory,
 *  the buffer is an ordinary buffer. Use and release the buffer like any other. MPI is not needed.
 *  Thread-safe. Not collective.
 *
 *  @return the buffer, and CL_SUCCESS in `*errcode_ret` unless `errcode_ret` is NULL. On failure
 *          the result is NULL, and `*errcode_ret` is:
 *  @retval CL_INVALID_CONTEXT `context` is not valid.
 *  @retval CL_INVALID_DEVICE `device` is not a device of the context.
 *  @retval CL_INVALID_VALUE `flags` contains CL_MEM_USE_HOST_PTR, CL_MEM_ALLOC_HOST_PTR or
 *          CL_MEM_COPY_HOST_PTR, or is invalid for clCreateBuffer.
 *  @retval CL_INVALID_BUFFER_SIZE as for clCreateBuffer.
 *  @retval CL_MEM_OBJECT_ALLOCATION_FAILURE as for clCreateBuffer.
 *  @retval CL_OUT_OF_RESOURCES as for clCreateBuffer.
 *  @retval CL_OUT_OF_HOST_MEMORY as for clCreateBuffer. */
cl_mem clCreateBufferExportable(cl_context context, cl_device_id device, cl_mem_flags flags,
                                size_t size, cl_int *errcode_ret);
/** @} */

/** @defgroup cldist_messages Messages
 *  Sends and receives between device buffers of MPI processes.
 *
 *  @par Order
 *  A command starts when the events of its wait list are complete and, on an in-order queue, the
 *  earlier commands are complete. On an out-of-order queue no other command waits for it. Messages
 *  between two processes on one communicator arrive in the order in which their commands start,
 *  whatever their tags. Commands on one in-order queue, and commands without wait list on one
 *  out-of-order queue, start in the order in which they are enqueued.
 *  @par
 *  If the wait list of a command fails, the command takes its position in this order nevertheless.
 *  On an in-order queue, it does so once the earlier commands of the queue have started, and before
 *  all calls that are made afterwards. On an out-of-order queue, it does so within 20 ms, but at
 * the latest before its event shows the failure to clWaitForEvents.
 *  @par
 *  With `CLDIST_PATH=device`, kernels move non-blocking messages between NVIDIA GPUs of one host.
 *  Such a command takes its position in this order at its call, although it may start later.
 *  Receives with wildcards, MPI_Probe, MPI_Cancel and calls with MPI_CL_MEM therefore see messages
 *  that have not started. The path is used if errors of the communicator are fatal
 *  (MPI_ERRORS_ARE_FATAL, the default), because a kernel cannot fail its event. A failure ends the
 *  job with a report.
 *  @par
 *  Receives match messages by MPI's rules, in the order in which the receives start. The oldest
 *  pending message from a process goes to the first receive that accepts it, whether that receive
 *  specifies a tag or MPI_ANY_TAG. A receive with MPI_ANY_SOURCE or MPI_ANY_TAG that starts first
 *  therefore takes precedence over a more specific receive. Messages from different processes have
 *  no order. The program's own receives (MPI_Recv with a datatype other than MPI_CL_MEM) are not
 *  part of this order: if such a receive and a command both accept a message, either may get it.
 *
 *  @par Blocking
 *  With `blocking` CL_TRUE, the call returns when the command is complete, and the calling thread
 *  does the work. If two processes both send first with blocking calls, they may deadlock, as with
 *  MPI_Send.
 *
 *  @par Event
 *  `event` may be NULL. Otherwise `*event` is the command's event, with a queue, a context,
 *  callbacks and, if the queue supports it, profiling information. If the command fails, the status
 *  is negative, and commands that wait for the event fail as the OpenCL specification requires.
 *  #clGetTransferInfo returns the cause. The caller releases the event. If a blocking call returns
 *  the status of a failed transfer, `*event` is set, too. If a call returns another error, it is
 *  not.
 *
 *  @par Lifetime
 *  The library retains the queue, the buffer and the events until the command ends. `comm` must not
 *  be freed before that.
 *
 *  @par Plain messages
 *  A message can be received by a command, or by an MPI call with MPI_CL_MEM. To exchange messages
 *  with unmodified MPI calls, set the info key "cldist_wire" to "plain" on the communicator, with
 *  MPI_Comm_set_info, MPI_Comm_dup_with_info or MPI_Comm_idup_with_info, in all processes that use
 *  commands on it. Each message is then one MPI message of `size` bytes without a header. Any MPI
 *  call with datatypes of that size can receive it, and a command receives a message from any MPI
 *  call. The value "cldist" restores the default. The library logs any other value and ignores it.
 *  @par
 *  The choice applies to commands that are enqueued afterwards. Do not change it while another
 *  thread enqueues commands on the communicator. MPI_Comm_dup and MPI_Comm_idup copy the choice.
 *  MPI_Comm_dup_with_info and MPI_Comm_idup_with_info take it only from the info object; if the key
 *  is absent, it is "cldist". Other new communicators start with "cldist".
 *
 *  @par Failure
 *  If the wait list of a send fails, the receive ends with CL_PEER_TRANSFER_FAILED. If the wait
 *  list of a receive fails, the receive takes its message and discards it, so that later receives
 *  match their own messages. A plain send that fails before its message leaves cannot inform the
 *  receiver: it sends nothing and logs a warning. The receive then stays pending or matches the
 *  next message.
 *
 *  @par Threads
 *  Thread-safe. Not collective. Two threads may enqueue commands of this header on one queue,
 *  including an in-order queue. A command may enqueue several commands of the platform. If another
 *  thread calls OpenCL's enqueue functions on the same in-order queue during the call, its command
 *  may be placed between them. Its order relative to the transfer is then undefined. Threads
 *  that need an order must share a lock.
 *
 *  @par Errors
 *  Checked in this order. Nothing is sent if the call returns one of them.
 *  @retval CL_INVALID_COMMAND_QUEUE The queue is not a valid host command queue.
 *  @retval CL_INVALID_MEM_OBJECT A buffer is not a valid buffer object.
 *  @retval CL_INVALID_CONTEXT The queue, the buffers and the events of the wait list do not all
 *          have the same context.
 *  @retval CL_INVALID_VALUE offset + size exceeds the buffer, the two ranges of a Sendrecv overlap,
 *          or a region is not valid (see #clEnqueueSendBufferRect).
 *  @retval CL_INVALID_EVENT_WAIT_LIST The wait list is NULL and num_events is not 0, or it is not
 *          NULL and num_events is 0, or it contains an invalid event.
 *  @retval CL_MISALIGNED_SUB_BUFFER_OFFSET A buffer is a sub-buffer that is not aligned for the
 *          queue's device.
 *  @retval CL_INVALID_OPERATION The buffer was created with CL_MEM_HOST_NO_ACCESS, or with
 *          CL_MEM_HOST_WRITE_ONLY and the command sends it, or with CL_MEM_HOST_READ_ONLY and the
 *          command receives into it.
 *  @retval CL_MPI_NOT_INITIALIZED see #CL_MPI_NOT_INITIALIZED.
 *  @retval CL_MPI_THREAD_LEVEL_TOO_LOW see #CL_MPI_THREAD_LEVEL_TOO_LOW.
 *  @retval CL_INVALID_OPERATION The processes of the job have different versions of cldist.
 *  @retval CL_INVALID_COMMUNICATOR see #CL_INVALID_COMMUNICATOR.
 *  @retval CL_INVALID_RANK see #CL_INVALID_RANK.
 *  @retval CL_INVALID_TAG see #CL_INVALID_TAG.
 *  @retval CL_OUT_OF_RESOURCES as for clEnqueueReadBuffer.
 *  @retval CL_OUT_OF_HOST_MEMORY as for clEnqueueReadBuffer.
 *  @retval CL_MEM_OBJECT_ALLOCATION_FAILURE as for clEnqueueReadBuffer.
 *  @retval CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST `blocking` is CL_TRUE and the wait list
 *          failed before or during the call, or an earlier command of the in-order queue failed
 *          during the call. The peer is informed as described under Failure. A blocking call also
 *          returns the status of a failed transfer.
 *  @{ */

/** Enqueues a command that sends `size` bytes of `buffer`, starting at byte `offset`, to rank
 *  `dest` of `comm`.
 *
 *  Counterpart of MPI_Send (clDataTransfer, section 4). When the event is CL_COMPLETE, the buffer
 *  may be modified; the receiver may not have the data yet. A `size` of 0 sends an empty message. A
 *  send to MPI_PROC_NULL does nothing.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_messages. */
cl_int clEnqueueSendBuffer(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                           size_t offset, size_t size, int dest, int tag, MPI_Comm comm,
                           cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                           cl_event *event);

/** Enqueues a command that receives a message of up to `size` bytes from rank `source` of `comm`
 *  into `buffer`, starting at byte `offset`.
 *
 *  Counterpart of MPI_Recv (clDataTransfer, section 4). `source` may be MPI_ANY_SOURCE, and `tag`
 *  may be MPI_ANY_TAG; #clGetTransferInfo returns the sender, the tag and the size. A shorter
 *  message leaves the rest of the range unchanged. A longer message ends the command with
 *  CL_MESSAGE_TRUNCATED. A receive from MPI_PROC_NULL leaves the buffer unchanged.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_messages. */
cl_int clEnqueueRecvBuffer(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                           size_t offset, size_t size, int source, int tag, MPI_Comm comm,
                           cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                           cl_event *event);

/** Enqueues one command that sends and receives at the same time, and completes when both are done.
 *
 *  Counterpart of MPI_Sendrecv (clDataTransfer, section 4). Both ranges may be in one buffer if
 *  they do not overlap. If both parts fail, the status is that of the part that failed first.
 *  #clGetTransferInfo describes the receive.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_messages. */
cl_int clEnqueueSendrecvBuffer(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                               size_t send_offset, size_t send_size, int dest, int send_tag,
                               cl_mem recv_buffer, size_t recv_offset, size_t recv_size, int source,
                               int recv_tag, MPI_Comm comm, cl_uint num_events_in_wait_list,
                               const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that sends a rectangular region of `buffer`, such as a face of a 3D array, to
 *  rank `dest` of `comm`.
 *
 *  Counterpart of MPI_Send with a vector or subarray datatype. The region is described as in
 *  clEnqueueReadBufferRect. `origin` and `region` are arrays of three elements: bytes in a row,
 *  rows in a slice, slices. They are read during the call. The first byte of the region is byte
 *  origin[2] * slice_pitch + origin[1] * row_pitch + origin[0] of the buffer. Pitches are in bytes.
 *  A row_pitch of 0 means region[0]; a slice_pitch of 0 means region[1] * row_pitch.
 *
 *  The message consists of the region[0] * region[1] * region[2] bytes of the region, row after
 *  row, slice after slice. Any receive of this group accepts it, into a region of another shape or
 *  into a contiguous range.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_messages, and
 *  @retval CL_INVALID_VALUE `origin` or `region` is NULL; an element of `region` is 0; row_pitch is
 *          neither 0 nor at least region[0]; slice_pitch is neither 0 nor a multiple of row_pitch
 *          of at least region[1] * row_pitch; or the region exceeds the buffer. */
cl_int clEnqueueSendBufferRect(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                               const size_t origin[3], const size_t region[3], size_t row_pitch,
                               size_t slice_pitch, int dest, int tag, MPI_Comm comm,
                               cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                               cl_event *event);

/** Enqueues a command that receives a message of up to region[0] * region[1] * region[2] bytes from
 *  rank `source` of `comm` into a rectangular region of `buffer`.
 *
 *  Counterpart of MPI_Recv with a vector or subarray datatype. The region is described as for
 *  #clEnqueueSendBufferRect, with the same errors; otherwise the command behaves like
 *  #clEnqueueRecvBuffer. It accepts a message of any send of this group. A shorter message fills
 *  the first bytes of the region, row after row, slice after slice. The command accesses no byte
 *  outside the region, so other commands may use those bytes at the same time.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_messages and #clEnqueueSendBufferRect. */
cl_int clEnqueueRecvBufferRect(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                               const size_t origin[3], const size_t region[3], size_t row_pitch,
                               size_t slice_pitch, int source, int tag, MPI_Comm comm,
                               cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                               cl_event *event);

/** Enqueues one command that sends a rectangular region and receives into another one at the same
 *  time, and completes when both are done.
 *
 *  Counterpart of MPI_Sendrecv with vector or subarray datatypes. The regions are described as for
 *  #clEnqueueSendBufferRect, with the same errors; otherwise the command behaves as
 *  #clEnqueueSendrecvBuffer. Both regions may be in one buffer if no byte is in both. They may
 *  interleave, such as two columns of one array.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_messages and #clEnqueueSendBufferRect. */
cl_int clEnqueueSendrecvBufferRect(cl_command_queue command_queue, cl_mem send_buffer,
                                   cl_bool blocking, const size_t send_origin[3],
                                   const size_t send_region[3], size_t send_row_pitch,
                                   size_t send_slice_pitch, int dest, int send_tag,
                                   cl_mem recv_buffer, const size_t recv_origin[3],
                                   const size_t recv_region[3], size_t recv_row_pitch,
                                   size_t recv_slice_pitch, int source, int recv_tag, MPI_Comm comm,
                                   cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                   cl_event *event);
/** @} */

/** @defgroup cldist_mpi_files MPI files
 *  @ingroup cldist_files Transfers between device buffers and files of MPI-IO. The rules of @ref
 *  cldist_files apply, with these additions.
 *
 *  @par Place
 *  As in MPI_File_write_at and MPI_File_read_at, `file_offset` counts etypes of the file's view,
 *  and the bytes pass through its filetype. The file pointers are neither used nor changed. `size`
 *  is in bytes, must be a multiple of the etype's size, and may exceed 2 GiB. Bytes are not
 *  converted, so the view's data representation must be "native". While a command on the file is
 *  pending, do not change the view (MPI_File_set_view) and do not close the file. MPI defines
 *  atomicity and when other processes see the data (MPI_File_set_atomicity, MPI_File_sync).
 *
 *  @par Order
 *  Commands on one file run one after the other, in the order in which they start. An in-order
 *  queue or events determine this order. Commands without wait list on one out-of-order queue start
 *  in the order in which they are enqueued. With MPICH, which runs one file call at a time, the
 *  same applies to the commands on all MPI files of the process.
 *
 *  @par Threads
 *  Thread-safe. For a non-blocking command, a thread of the library makes MPI's file calls; for a
 *  blocking command, the caller makes them. Other threads may make calls on the file at the same
 *  time if MPI allows this. MPI may block them until the command has ended.
 *
 *  @par Failure
 *  The event has one of these codes:
 *  - CL_MPI_ERROR: MPI reported an error, which CL_TRANSFER_MPI_ERROR returns. MPI calls the file's
 *    error handler first, by default MPI_ERRORS_RETURN. The library's thread calls an error handler
 *    that the program has set.
 *  - CL_END_OF_FILE: the file is shorter, according to MPI_File_get_size. CL_TRANSFER_BYTES then
 *    counts the bytes of the whole etypes before the end.
 *
 *  @par Errors
 *  These errors, in addition to those of @ref cldist_files.
 *  @retval CL_MPI_NOT_INITIALIZED as for @ref cldist_messages.
 *  @retval CL_MPI_THREAD_LEVEL_TOO_LOW as for @ref cldist_messages.
 *  @retval CL_INVALID_VALUE `file` is MPI_FILE_NULL, `file_offset` is negative, or `size` is not a
 *          multiple of the etype's size.
 *  @retval CL_INVALID_OPERATION The file was opened with MPI_MODE_SEQUENTIAL, or with
 *          MPI_MODE_RDONLY and the command writes it, or with MPI_MODE_WRONLY and the command reads
 *          it; or the view's data representation is not "native".
 *  @retval CL_MPI_ERROR MPI failed to return the mode or the view of the file.
 *  @{ */

/** Enqueues a command that writes `size` bytes of `buffer`, starting at byte `offset`, to `file` at
 *  `file_offset`.
 *
 *  Counterpart of MPI_File_write_at.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_mpi_files. */
cl_int clEnqueueReadBufferToMPIFile(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                                    size_t offset, size_t size, MPI_File file,
                                    MPI_Offset file_offset, cl_uint num_events_in_wait_list,
                                    const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reads `size` bytes of `file` at `file_offset` into `buffer`, starting at
 *  byte `offset`.
 *
 *  Counterpart of MPI_File_read_at.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_mpi_files. */
cl_int clEnqueueWriteBufferFromMPIFile(cl_command_queue command_queue, cl_mem buffer,
                                       cl_bool blocking, size_t offset, size_t size, MPI_File file,
                                       MPI_Offset file_offset, cl_uint num_events_in_wait_list,
                                       const cl_event *event_wait_list, cl_event *event);

/** Enqueues a collective command in which each process writes `size` bytes of its `buffer` to
 *  `file` at its `file_offset`.
 *
 *  Counterpart of MPI_File_write_at_all. Every process that opened the file enqueues the command,
 *  with its own range, which may be empty (`size` 0; the buffer must be valid nevertheless). The
 *  command ends in a process when its part is done. MPI decides whether it also waits for the other
 *  processes.
 *
 *  In all processes, the collective commands on a file must start in the same order, and so must
 *  MPI's own collective calls on it. With MPICH this also applies to collective commands on
 *  different files that several processes share. To ensure it, enqueue the commands in the same
 *  order in one in-order queue, or without wait list in one out-of-order queue, or let each wait
 *  for the previous command's event. Make MPI's collective calls only when the event of the
 *  previous command is complete.
 *
 *  A command that fails before its turn (wait list, earlier command of an in-order queue, memory)
 *  still takes part, without bytes: it fails in this process only, and the others complete. Its
 *  event may fail before the command has taken part. It has taken part when
 *  clGetTransferInfo(CL_TRANSFER_STAGES) contains CL_STAGE_FILE. Only then may this process close
 *  the file or make MPI's collective calls on it. Commands keep their order in any case. A call
 *  that returns an error does not take part, unless it is blocking and returns
 *  CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST or the status of a failed transfer. If it does not
 *  take part, the other processes wait until the call is repeated.
 *
 *  If the device has its own memory, the command needs page-locked host memory for the whole range.
 *  Open MPI 4.1 does not report all errors of the system, such as a full disk, in collective
 *  writes.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_mpi_files. */
cl_int clEnqueueReadBufferToMPIFileAll(cl_command_queue command_queue, cl_mem buffer,
                                       cl_bool blocking, size_t offset, size_t size, MPI_File file,
                                       MPI_Offset file_offset, cl_uint num_events_in_wait_list,
                                       const cl_event *event_wait_list, cl_event *event);

/** Enqueues a collective command in which each process reads `size` bytes of `file` at its
 *  `file_offset` into its `buffer`.
 *
 *  Counterpart of MPI_File_read_at_all; otherwise it behaves as #clEnqueueReadBufferToMPIFileAll.
 *  If the file ends early for some processes, only their events have CL_END_OF_FILE. The bytes of
 *  their ranges beyond the end may have changed.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_mpi_files. */
cl_int clEnqueueWriteBufferFromMPIFileAll(cl_command_queue command_queue, cl_mem buffer,
                                          cl_bool blocking, size_t offset, size_t size,
                                          MPI_File file, MPI_Offset file_offset,
                                          cl_uint num_events_in_wait_list,
                                          const cl_event *event_wait_list, cl_event *event);
/** @} */

/** @defgroup cldist_collectives Collectives
 *  Counterparts of MPI's collective operations on device buffers, blocking or non-blocking.
 *
 *  @par Arguments
 *  The arguments are those of MPI, with a buffer and an offset in place of each address. Offsets
 *  are in bytes. Counts and displacements are in elements of the datatype; they are of type size_t
 *  and may exceed INT_MAX. Arrays are read during the call. Arguments that are significant only at
 *  the root in MPI are ignored in other processes. A datatype is predefined, or derived from
 *  predefined ones without gaps. Bytes are not converted. Reductions accept predefined datatypes
 *  and operators (no operators of MPI_Op_create). Padding bytes of MPI_DOUBLE_INT and similar types
 *  may change.
 *
 *  @par In-place operation
 *  If send range and receive range are the same bytes of the same buffer, the operation is in
 *  place, like MPI_IN_PLACE:
 *  - Reduce (at the root), Allreduce, Reduce_scatter, Alltoall(v): both ranges begin at the same
 *    offset; counts and displacements of an Alltoallv are equal for both directions.
 *  - Gather(v) at the root, Allgather(v): the send range is the process's own part of the receive
 *    range.
 *  - Scatter(v) at the root: the receive range is the root's own part of the send range.
 *
 *  Each process may decide independently whether its operation is in place. If it is not, no byte
 *  may be both sent and received. For Gatherv, Scatterv, Allgatherv and Alltoallv, this rule
 *  applies to each part separately: parts may be in the gaps between the parts of the other range.
 *
 *  @par Order
 *  All processes of `comm` must make these calls in the same order. This order includes the
 *  program's own collective calls on `comm`, blocking and non-blocking, and its constructors of
 *  communicators, files and windows. Commands never match those calls, because their data travels
 *  on an internal communicator. The first command on `comm` makes one non-blocking collective MPI
 *  call on `comm`, which runs no attribute callback. A command starts like any other command. It
 *  takes part when the commands that were enqueued earlier on `comm`, in any queue, have taken
 *  part. Deadlock: a command must not wait for a command that is enqueued later on the same
 *  communicator.
 *
 *  @par Event
 *  The event completes when all processes have taken part and this process's part is done. The send
 *  range may then be modified. A blocking call returns at that moment. Blocking calls match
 *  non-blocking ones.
 *
 *  @par Failure
 *  A command fails in all processes, with CL_PEER_TRANSFER_FAILED, if one process failed before its
 *  part: by its wait list, an earlier command of its in-order queue, or a device that could not be
 *  read. The failing process takes part nevertheless, so that no process waits forever. The
 *  contents of the receive ranges are then undefined. If a device fails to store the result, the
 *  command fails in that process only. If MPI rejects an operator for a datatype (MPI_BAND for
 *  MPI_FLOAT), the command fails with CL_MPI_ERROR.
 *  @par
 *  With `CLDIST_PATH=device`, kernels carry out collectives between NVIDIA GPUs of one host if all
 *  processes can and errors of the communicator are fatal (MPI_ERRORS_ARE_FATAL, the default).
 *  Results then have the same bits in all processes and runs. A failure ends the job with a report.
 *  @par
 *  The event may fail before the process has taken part. It has taken part when
 *  clGetTransferInfo(CL_TRANSFER_STAGES) contains CL_STAGE_MESSAGE, or the path is "device" and the
 *  event is complete. A call that returns an error
 *  does not take part, unless it is blocking and returns
 *  CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST or the status of a failed command. If it does not
 *  take part, the other processes wait until the call is repeated.
 *  @par
 *  If the processes' calls differ in kind, root, size, datatype, operator or order, the result is
 *  undefined, as in MPI. A message of an unexpected size makes the command fail with
 *  CL_COLLECTIVE_MISMATCH. With the setting CLDIST_CHECK=on, processes compare their calls before
 *  data moves, and a command whose calls differ fails with CL_COLLECTIVE_MISMATCH in all processes.
 *  If a kernel may carry out the collective (CLDIST_PATH=device), processes always compare hashes
 *  of their calls, and the sizes of all parts of a Gatherv, Scatterv, Allgatherv or Alltoallv. A
 *  difference ends the job.
 *
 *  @par Host memory
 *  Commands match only commands. A process cannot take part with an MPI call on host memory.
 *
 *  @par Lifetime and memory
 *  The library retains queue, buffers and events until the command ends. `comm` must not be freed
 *  before the command has taken part. If the host cannot access a range directly, the command needs
 *  page-locked host memory of the range's size. Bcast, Reduce and Allreduce need only blocks of 4
 *  MiB.
 *
 *  @par Threads
 *  Thread-safe. Threads that enqueue commands on one communicator must agree on an order, as in
 *  MPI.
 *
 *  @par Errors
 *  Checked in this order. If the call returns one of them, the process does not take part.
 *  @retval CL_MPI_NOT_INITIALIZED see #CL_MPI_NOT_INITIALIZED.
 *  @retval CL_MPI_THREAD_LEVEL_TOO_LOW see #CL_MPI_THREAD_LEVEL_TOO_LOW.
 *  @retval CL_INVALID_COMMUNICATOR see #CL_INVALID_COMMUNICATOR; also if `comm` is an
 *          inter-communicator.
 *  @retval CL_INVALID_RANK `root` is not a rank of the communicator.
 *  @retval CL_INVALID_MPI_DATATYPE see #CL_INVALID_MPI_DATATYPE.
 *  @retval CL_INVALID_MPI_OP see #CL_INVALID_MPI_OP.
 *  @retval CL_INVALID_VALUE A significant array is NULL, a size exceeds the address space, or the
 *          process's own part has different sizes in the send range and in the receive range.
 *
 *  Then the call checks for the errors of @ref cldist_messages that concern queue, buffers and wait
 *  list. Ranges that overlap other than in place are CL_INVALID_VALUE. Last are:
 *  @retval CL_MPI_ERROR MPI failed to exchange numbers on the communicator.
 *  @retval CL_OUT_OF_RESOURCES MPI has too few tags for so many communicators with collective
 *          commands.
 *  @{ */

/** Enqueues a command that completes when all processes of `comm` have started it.
 *
 *  Counterpart of MPI_Barrier.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueBarrierMPI(cl_command_queue command_queue, cl_bool blocking, MPI_Comm comm,
                           cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                           cl_event *event);

/** Enqueues a command that copies `count` elements from the buffer of rank `root` to the buffers of
 *  all other ranks.
 *
 *  Counterpart of MPI_Bcast.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueBcastBufferMPI(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                               size_t offset, size_t count, MPI_Datatype datatype, int root,
                               MPI_Comm comm, cl_uint num_events_in_wait_list,
                               const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reduces the elements of all processes element-wise; rank `root` receives
 *  the result.
 *
 *  Counterpart of MPI_Reduce. `recv_buffer` and `recv_offset` are significant only at the root.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueReduceBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                cl_bool blocking, size_t send_offset, cl_mem recv_buffer,
                                size_t recv_offset, size_t count, MPI_Datatype datatype, MPI_Op op,
                                int root, MPI_Comm comm, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reduces the elements of all processes element-wise; every process
 *  receives the result.
 *
 *  Counterpart of MPI_Allreduce.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueAllreduceBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                   cl_bool blocking, size_t send_offset, cl_mem recv_buffer,
                                   size_t recv_offset, size_t count, MPI_Datatype datatype,
                                   MPI_Op op, MPI_Comm comm, cl_uint num_events_in_wait_list,
                                   const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reduces element-wise; rank i receives recv_counts[i] elements of the
 *  result.
 *
 *  Counterpart of MPI_Reduce_scatter. The parts of the result are in the order of the ranks. All
 *  ranks pass the same counts.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueReduceScatterBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                       cl_bool blocking, size_t send_offset, cl_mem recv_buffer,
                                       size_t recv_offset, const size_t *recv_counts,
                                       MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                       cl_uint num_events_in_wait_list,
                                       const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that gathers parts of equal size from all processes at rank `root`, in the
 *  order of the ranks.
 *
 *  Counterpart of MPI_Gather. The arguments that begin with recv_ are significant only at the root.
 *  `recv_count` is the number of elements from one process.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueGatherBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                cl_bool blocking, size_t send_offset, size_t send_count,
                                MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                size_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
                                cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                cl_event *event);

/** Enqueues a command that gathers a different number of elements from each process at rank `root`.
 *
 *  Counterpart of MPI_Gatherv. The part of rank i has recv_counts[i] elements. It is stored
 *  recv_displacements[i] elements after `recv_offset`. The arguments that begin with recv_ are
 *  significant only at the root.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueGathervBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                 cl_bool blocking, size_t send_offset, size_t send_count,
                                 MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                 const size_t *recv_counts, const size_t *recv_displacements,
                                 MPI_Datatype recv_type, int root, MPI_Comm comm,
                                 cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                 cl_event *event);

/** Enqueues a command that gathers parts of equal size from all processes at every process, in the
 *  order of the ranks.
 *
 *  Counterpart of MPI_Allgather. `recv_count` is the number of elements from one process.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueAllgatherBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                   cl_bool blocking, size_t send_offset, size_t send_count,
                                   MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                   size_t recv_count, MPI_Datatype recv_type, MPI_Comm comm,
                                   cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                   cl_event *event);

/** Enqueues a command that gathers a different number of elements from each process at every
 *  process.
 *
 *  Counterpart of MPI_Allgatherv. The part of rank i has recv_counts[i] elements. It is stored
 *  recv_displacements[i] elements after `recv_offset`.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueAllgathervBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                    cl_bool blocking, size_t send_offset, size_t send_count,
                                    MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                    const size_t *recv_counts, const size_t *recv_displacements,
                                    MPI_Datatype recv_type, MPI_Comm comm,
                                    cl_uint num_events_in_wait_list,
                                    const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that scatters the data of rank `root` to all processes, in equal parts, in
 *  the order of the ranks.
 *
 *  Counterpart of MPI_Scatter. The arguments that begin with send_ are significant only at the
 *  root. `send_count` is the number of elements for one process.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueScatterBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                 cl_bool blocking, size_t send_offset, size_t send_count,
                                 MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                 size_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
                                 cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                 cl_event *event);

/** Enqueues a command that scatters the data of rank `root` to all processes, with a different
 *  number of elements for each.
 *
 *  Counterpart of MPI_Scatterv. The part for rank i has send_counts[i] elements. It begins
 *  send_displacements[i] elements after `send_offset`. The arguments that begin with send_ are
 *  significant only at the root.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueScattervBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                  cl_bool blocking, size_t send_offset, const size_t *send_counts,
                                  const size_t *send_displacements, MPI_Datatype send_type,
                                  cl_mem recv_buffer, size_t recv_offset, size_t recv_count,
                                  MPI_Datatype recv_type, int root, MPI_Comm comm,
                                  cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                  cl_event *event);

/** Enqueues a command that sends a part of equal size from each process to each process.
 *
 *  Counterpart of MPI_Alltoall. `send_count` and `recv_count` are for one process. In-place
 *  operation needs additional host memory of the size of the range.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueAlltoallBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                  cl_bool blocking, size_t send_offset, size_t send_count,
                                  MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                  size_t recv_count, MPI_Datatype recv_type, MPI_Comm comm,
                                  cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                  cl_event *event);

/** Enqueues a command that sends a part from each process to each process, each with its own size
 *  and displacement.
 *
 *  Counterpart of MPI_Alltoallv. The part for rank i has send_counts[i] elements and begins
 *  send_displacements[i] elements after `send_offset`; recv_counts and recv_displacements describe
 *  the parts that are received. In-place operation needs additional host memory of the size of the
 *  range.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_collectives. */
cl_int clEnqueueAlltoallvBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                   cl_bool blocking, size_t send_offset, const size_t *send_counts,
                                   const size_t *send_displacements, MPI_Datatype send_type,
                                   cl_mem recv_buffer, size_t recv_offset,
                                   const size_t *recv_counts, const size_t *recv_displacements,
                                   MPI_Datatype recv_type, MPI_Comm comm,
                                   cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                   cl_event *event);
/** @} */

/** @defgroup cldist_requests MPI requests and events
 *  Conversion between MPI requests and OpenCL events.
 *  @{ */

/** Creates an event that completes when the operation of `*request` completes, so that OpenCL
 *  commands can wait for it.
 *
 *  From clDataTransfer, section 4. The request may be a non-blocking send or receive of host
 *  memory, a non-blocking collective or file operation, or a started persistent request.
 *
 *  The library takes over the request and replaces `*request` with a new request that completes
 *  with the operation. MPI_Wait, MPI_Test and their variants accept the new request, together with
 *  any others, and return the MPI_Status (with the count) and the error of the operation. The
 *  program must wait for, test or free the new request, like any request. Copies of the old handle
 *  must not be used until the new request or the event shows that the operation has ended.
 *  MPI_Cancel on the new request cancels the operation; the old request must not have been
 *  cancelled. MPI_Request_free on the new request does not affect the event.
 *
 *  MPI_REQUEST_NULL and an inactive persistent request complete at once, with an empty status, as
 *  in MPI_Wait. A persistent request becomes inactive when the operation has ended. Keep a copy of
 *  the persistent request's handle to start it again or to free it. Make a new call after each
 *  start, with a copy of the handle. Open MPI frees a persistent request that failed.
 *
 *  The event is a user event of `context`, which a thread of the library sets. If the operation
 *  fails, the event ends with CL_MPI_ERROR; if it is cancelled, with CL_TRANSFER_CANCELLED.
 *  #clGetTransferInfo returns CL_TRANSFER_STATUS, CL_TRANSFER_MPI_ERROR and
 *  CL_TRANSFER_ERROR_MESSAGE. For a receive it also returns CL_TRANSFER_BYTES, CL_TRANSFER_SOURCE
 *  and CL_TRANSFER_TAG; for a file operation, CL_TRANSFER_BYTES. For other operations these three
 *  values are meaningless. The caller releases the event.
 *
 *  A thread of the library reports errors to the handler that a failing MPI_Test of the old request
 *  would call. The new request belongs to no communicator. When the program waits for it, MPI
 *  reports the error again, to the handler of MPI_COMM_WORLD. To continue after a failure, set
 *  MPI_ERRORS_RETURN there as well.
 *
 *  The memory of the operation belongs to the caller and must exist until the operation has ended.
 *  Thread-safe, but no other thread may use `*request` during the call. Not collective.
 *
 *  @return the event, and CL_SUCCESS in `*errcode_ret` unless `errcode_ret` is NULL. On failure the
 *          result is NULL, the request is unchanged, and `*errcode_ret` is:
 *  @retval CL_INVALID_CONTEXT `context` is not valid.
 *  @retval CL_INVALID_VALUE `request` is NULL.
 *  @retval CL_MPI_NOT_INITIALIZED see #CL_MPI_NOT_INITIALIZED.
 *  @retval CL_MPI_THREAD_LEVEL_TOO_LOW see #CL_MPI_THREAD_LEVEL_TOO_LOW.
 *  @retval CL_MPI_ERROR MPI_Grequest_start failed.
 *  @retval CL_OUT_OF_RESOURCES The platform failed to create the event.
 *  @retval CL_OUT_OF_HOST_MEMORY Host memory could not be allocated. */
cl_event clCreateEventFromMPIRequest(cl_context context, MPI_Request *request, cl_int *errcode_ret);

/** Creates an MPI request that completes when `event` completes, so that one MPI_Waitall waits for
 *  kernels, transfers and messages.
 *
 *  From clDataTransfer, section 4. `event` may belong to any command, or be a user event, of any
 *  context. The status of the request is empty, as for MPI_REQUEST_NULL; use #clGetTransferInfo for
 *  details of a transfer. If the event fails, the request fails with an MPI error code of a
 *  separate class, whose text (MPI_Error_string) contains the event's status. MPI reports the error
 *  to the handler of MPI_COMM_WORLD, which by default ends the job. MPI_Cancel has no effect. The
 *  program must wait for, test or free the request, like any request.
 *
 *  The event's queue is flushed. The library retains the event until it has ended. Thread-safe. Not
 *  collective.
 *
 *  @retval CL_SUCCESS `*request` is the new request.
 *  @retval CL_INVALID_EVENT `event` is not valid.
 *  @retval CL_INVALID_VALUE `request` is NULL.
 *  @retval CL_MPI_NOT_INITIALIZED see #CL_MPI_NOT_INITIALIZED.
 *  @retval CL_MPI_THREAD_LEVEL_TOO_LOW see #CL_MPI_THREAD_LEVEL_TOO_LOW.
 *  @retval CL_MPI_ERROR MPI_Grequest_start failed.
 *  @retval CL_OUT_OF_RESOURCES The platform failed to retain the event.
 *  @retval CL_OUT_OF_HOST_MEMORY Host memory could not be allocated. */
cl_int clCreateMPIRequestFromEvent(cl_event event, MPI_Request *request);
/** @} */

/** @defgroup cldist_mpi_cl_mem MPI calls with MPI_CL_MEM
 *  MPI calls that exchange host memory with commands of another process.
 *  @{ */

/** The datatype #MPI_CL_MEM as a variable. Use the macro. */
extern MPI_Datatype cldist_mpi_cl_mem;

/** An MPI datatype of one byte for messages whose peer is an OpenCL device.
 *
 *  From clDataTransfer, section 4. An MPI call with this datatype exchanges messages between host
 *  memory and a command of @ref cldist_messages or another such call, in the commands' format.
 *  Counts are in bytes. These calls accept it, and so do their large-count variants (MPI_Send_c,
 *  …), if the MPI library provides them:
 *  - MPI_Send, MPI_Ssend, MPI_Isend, MPI_Issend, MPI_Recv, MPI_Irecv, MPI_Mrecv, MPI_Imrecv;
 *  - MPI_Sendrecv, on one side or both;
 *  - MPI_Get_count, MPI_Get_elements, MPI_Get_elements_x;
 *  - MPI_Type_size and other queries of a datatype.
 *
 *  All other calls reject it with MPI_ERR_TYPE: other sends (MPI_Bsend, MPI_Rsend), persistent and
 *  partitioned operations (MPI_Send_init, MPI_Psend_init), MPI_Sendrecv_replace, MPI_Isendrecv, all
 *  collective, one-sided and file operations, and MPI_Pack. Calls that include a datatype in
 *  another one, commit it or free it also reject it.
 *
 *  The macro is the name of a variable. The variable is set when the library is initialised
 *  (MPI_Init, #clDistInit). Before that and after MPI_Finalize it is MPI_DATATYPE_NULL, and calls
 *  with it return MPI_ERR_TYPE and log a line. It cannot be used in a static initialiser.
 *
 *  @par Meaning
 *  Order, wildcards, MPI_PROC_NULL, MPI_Ssend, inter-communicators and threads are as in MPI. In
 *  the order of messages, a call, blocking or not, is after the commands that have started (their
 *  CL_TRANSFER_STATUS is CL_RUNNING or CL_COMPLETE) and before the commands that start later. It
 *  does not wait for commands that have not started. A command that was flushed, even on an idle
 *  queue, may not have started yet. To place a call after a command, wait for the command's event
 *  first, or use two commands. The order of calls and plain messages is defined only once the call
 *  or request is complete.
 *  @par
 *  The calling thread does the work of a blocking call. A thread of the library does the work of a
 *  request, whether the program calls MPI meanwhile or not. The program may call MPI_Comm_free
 *  before requests on the communicator complete. A thread of the library then frees the
 *  communicator, and deletes its attributes, when the last request completes. The program must not
 *  call MPI_Comm_disconnect before they complete.
 *
 *  @par Requests
 *  Requests are generalised requests. MPI_Wait, MPI_Test and their variants accept them together
 *  with others. MPI_Cancel cancels a receive that has not matched a message; it does not affect
 *  sends. After MPI_Request_free the operation continues. MPI_Start and MPI_Request_get_status
 *  behave as for any request that is not persistent.
 *
 *  @par Status
 *  The status contains MPI_SOURCE and MPI_TAG. Its count of MPI_CL_MEM or MPI_BYTE is the number of
 *  bytes received. MPI_Test_cancelled works.
 *
 *  @par Probing
 *  MPI_Probe, MPI_Iprobe, MPI_Mprobe and MPI_Improbe find these messages. MPI_Get_count with
 *  MPI_CL_MEM returns the payload size of each of the last 64 messages found in the process, until
 *  a call with another datatype receives the message. It returns MPI_UNDEFINED for earlier
 *  messages, and for plain messages that are too short to have a header. With another datatype,
 *  MPI_Get_count returns the number of bytes that MPI transfers, which differs from the payload.
 *  Querying the size of a large message with MPI_CL_MEM receives its header: from then on only
 *  commands and calls with MPI_CL_MEM can receive the message, and an MPI_Ssend of it may complete.
 *  A probe does not find a message that matches a pending receive of this library. The count in a
 *  probe's status contains a mark of this library. MPI_Get_count, MPI_Get_elements,
 *  MPI_Get_elements_x and MPI_Status_c2f remove it; their PMPI_ variants would show it.
 *
 *  @par Partly converted programs
 *  If MPI_Recv, MPI_Sendrecv or MPI_Mrecv of bytes, int, unsigned, float or double receives the
 *  message of a command, the library logs this. It cannot log it for MPI_Irecv, MPI_Imrecv and
 *  persistent receives, for other datatypes, or if the receive is shorter than the payload plus 64
 *  bytes and the error handler is the default one (MPI then ends the job with MPI_ERR_TRUNCATE).
 *  The receiving process also reports a large message of this kind after CLDIST_STALL_SECONDS.
 *
 *  @par Errors
 *  Errors are logged, reported to the error handler of the communicator (of MPI_COMM_WORLD if the
 *  communicator is not valid, and for MPI_Mrecv and MPI_Imrecv of messages that no command has
 *  sent), and returned:
 *  - MPI_ERR_COMM: the communicator is MPI_COMM_NULL or was freed, or as for
 *    CL_INVALID_COMMUNICATOR.
 *  - MPI_ERR_COUNT: the count is negative.
 *  - MPI_ERR_BUFFER: the address is NULL and the count is not 0.
 *  - MPI_ERR_RANK: as for CL_INVALID_RANK.
 *  - MPI_ERR_TAG: as for CL_INVALID_TAG.
 *  - MPI_ERR_TRUNCATE: as for CL_MESSAGE_TRUNCATED; the memory is unchanged. Exception: with
 *    cldist_wire=plain, the memory after MPI_Mrecv and MPI_Imrecv is as MPI leaves it.
 *  - MPI_ERR_TYPE: as for CL_MESSAGE_NOT_RECOGNIZED.
 *  - MPI_ERR_NO_MEM: memory could not be allocated.
 *  - A separate error class with a text: as for CL_PEER_TRANSFER_FAILED.
 *  - MPI_ERR_OTHER: any other error.
 *
 *  The call that completes a request returns its error and reports it to the handler of
 *  MPI_COMM_WORLD, because generalised requests have no communicator. If the program waits for
 *  several requests together, MPICH returns MPI_ERR_OTHER instead.
 *
 *  For a Fortran program, get the handle with MPI_Type_c2f(MPI_CL_MEM) in a C function. */
#define MPI_CL_MEM cldist_mpi_cl_mem
/** @} */

#ifdef __cplusplus
}
#endif

#endif
