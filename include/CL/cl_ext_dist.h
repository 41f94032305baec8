/// cldist: messages between MPI processes, and files, as OpenCL commands.
///
/// Every command of this header is enqueued on an ordinary OpenCL command queue, takes an ordinary wait list and gives
/// an ordinary event. The semantics follow clDataTransfer (Takizawa et al., "clMPI" 2013, "clDataTransfer" 2015); the
/// matching of messages follows the MPI standard, section 3.
///
/// Sizes and offsets are bytes and may pass 4 GiB. Ranks are those of the communicator given (of its remote group for
/// an inter-communicator). Usable from C99 and C++.
#ifndef CL_EXT_DIST_H
#define CL_EXT_DIST_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include <CL/cl.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CLDIST_VERSION_MAJOR 0
#define CLDIST_VERSION_MINOR 1
#define CLDIST_VERSION_PATCH 0

/* ---- Errors ------------------------------------------------------------------------------------------------------
 * Returned by calls and found as the status of events, next to OpenCL's own codes. Some platforms replace the status of
 * a failed event by another negative number; clGetTransferInfo(CL_TRANSFER_STATUS) always tells the original. */

/** MPI is not initialised or already finalised, or the library was not told of it (see clDistInit). */
#define CL_MPI_NOT_INITIALIZED -1200
/** MPI runs at a thread level below MPI_THREAD_MULTIPLE. */
#define CL_MPI_THREAD_LEVEL_TOO_LOW -1201
/** The communicator is MPI_COMM_NULL or was freed, or a process of it is outside of MPI_COMM_WORLD and clDistInit was
 *  not called with the communicator. */
#define CL_INVALID_COMMUNICATOR -1202
/** The rank is not one of the communicator, nor MPI_PROC_NULL, nor (receiving) MPI_ANY_SOURCE. */
#define CL_INVALID_RANK -1203
/** The tag is negative or above MPI_TAG_UB, and not (receiving) MPI_ANY_TAG. */
#define CL_INVALID_TAG -1204
/** The message was longer than the receive. It was taken off the wire; the buffer is unchanged. */
#define CL_MESSAGE_TRUNCATED -1205
/** A message that no cldist command sent (a plain MPI_Send) met this receive, on a communicator without
 *  cldist_wire=plain. It was taken off the wire. */
#define CL_MESSAGE_NOT_RECOGNIZED -1206
/** The far end, or a process of a collective, could not do its part: its wait list or its device failed. */
#define CL_PEER_TRANSFER_FAILED -1207
/** MPI reported an error; CL_TRANSFER_MPI_ERROR has it. */
#define CL_MPI_ERROR -1208
/** MPI was finalised, or the program ended, before the command was done. */
#define CL_TRANSFER_ABANDONED -1209
/** MPI_Cancel ended the operation: no message was sent or received. */
#define CL_TRANSFER_CANCELLED -1210
/** The system refused to read or write the file; CL_TRANSFER_ERRNO has its errno. */
#define CL_FILE_ERROR -1211
/** The file ended before as many bytes were read as asked for. */
#define CL_END_OF_FILE -1212
/** The MPI datatype is MPI_DATATYPE_NULL, is empty, has gaps, or (in reductions) is not one of MPI's own. */
#define CL_INVALID_MPI_DATATYPE -1213
/** The operator of a reduction is not one of MPI's own. */
#define CL_INVALID_MPI_OP -1214

/* ---- Initialisation ----------------------------------------------------------------------------------------------
 * A process forked from one that has used the library has none of its threads: there all calls of this header return
 * CL_INVALID_OPERATION. It may do all else that such processes may, and end as it likes. */

/* A program linked with the library has nothing to initialise. MPI_Init and MPI_Init_thread raise the thread level to
 * MPI_THREAD_MULTIPLE, whatever `required` says: the library makes MPI calls from a thread of its own. `provided` tells the
 * level that MPI gave, as ever. If that is lower, the program runs, and commands return CL_MPI_THREAD_LEVEL_TOO_LOW. */

/** Makes the library ready, as MPI_Init and MPI_Init_thread do in a program linked with it. Needed only where another
 *  party called them first (a language binding, for example), and for each communicator with processes from outside of
 *  MPI_COMM_WORLD (MPI_Comm_accept, MPI_Comm_spawn) that commands shall use.
 *
 *  Collective over `comm`; the first call in a process must be collective over MPI_COMM_WORLD. Not to be called from
 *  two threads at once. Calling again with the same communicator does nothing.
 *  Returns CL_SUCCESS;
 *  CL_MPI_NOT_INITIALIZED if MPI is not initialised, or already finalised;
 *  CL_MPI_THREAD_LEVEL_TOO_LOW if MPI_Query_thread gives less than MPI_THREAD_MULTIPLE;
 *  CL_INVALID_COMMUNICATOR if `comm` is MPI_COMM_NULL or was freed;
 *  CL_MPI_ERROR if MPI could not duplicate the communicator. */
cl_int clDistInit(MPI_Comm comm);

/** Picks the OpenCL device that the calling process should use, so that the processes of `comm` on one host share the
 *  devices of that host evenly, and writes it to `device`.
 *
 *  The choice is among the devices of `type` of `platform`, or, if `platform` is NULL, of the first platform that has a
 *  device of that type. In the order of their ranks in `comm`, each process takes the device of its own list that the
 *  fewest before it took, of several the first: round robin where all see the same devices. Processes may see different
 *  ones (CUDA_VISIBLE_DEVICES, for example): devices are compared by their UUID or bus address where the platform tells
 *  one, else by vendor, name and order. If processes must share a device, a warning on the log of the lowest of them
 *  names their ranks.
 *
 *  Collective over `comm`, an intra-communicator. Platform and type may differ between processes. An error of one process
 *  does not hold up the others, CL_MPI_NOT_INITIALIZED and CL_INVALID_COMMUNICATOR excepted; a process with an error takes
 *  no device. Needs MPI initialised, at any thread level, but not clDistInit. Thread-safe as MPI_Comm_split_type is. The
 *  device needs no release.
 *  Returns CL_SUCCESS, or, in the order of the checks (`device` is then unchanged):
 *  CL_MPI_NOT_INITIALIZED  if MPI is not initialised, or already finalised;
 *  CL_INVALID_COMMUNICATOR if `comm` is MPI_COMM_NULL, was freed, or is an inter-communicator;
 *  CL_INVALID_PLATFORM     if `platform` is neither NULL nor one of clGetPlatformIDs;
 *  CL_INVALID_DEVICE_TYPE  if `type` is neither CL_DEVICE_TYPE_ALL nor a combination of the other types;
 *  CL_INVALID_VALUE        if `device` is NULL;
 *  CL_DEVICE_NOT_FOUND     if there is no device of that type;
 *  CL_MPI_ERROR            if MPI failed;
 *  CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY as for clGetDeviceIDs. */
cl_int clDistLocalDevice(MPI_Comm comm, cl_platform_id platform, cl_device_type type, cl_device_id *device);

/** Makes a buffer whose memory other processes of the host can read, so that a message from it to a device of theirs is one
 *  copy (path "direct"; from other buffers it is two). For what is sent often and is large: the memory is taken in pieces
 *  of 2 MiB on NVIDIA GPUs, where the receivers keep it for up to 15 seconds after the last message.
 *
 *  `device` is one of the context's, to whose memory the buffer belongs. Where its platform has no such memory the buffer
 *  is an ordinary one. It is used, and released, like any other. Needs no MPI. Thread-safe. Not collective.
 *  Returns the buffer; `errcode_ret`, if it is not NULL, is CL_SUCCESS then. Otherwise NULL, and it is
 *  CL_INVALID_CONTEXT     if `context` is not valid;
 *  CL_INVALID_DEVICE      if `device` is not one of the context's;
 *  CL_INVALID_VALUE       if `flags` has CL_MEM_USE_HOST_PTR, CL_MEM_ALLOC_HOST_PTR or CL_MEM_COPY_HOST_PTR, or as for
 *                         clCreateBuffer;
 *  CL_INVALID_BUFFER_SIZE, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY as for
 *  clCreateBuffer. */
cl_mem clCreateBufferExportable(cl_context context, cl_device_id device, cl_mem_flags flags, size_t size,
                                cl_int *errcode_ret);

/* ---- Messages ----------------------------------------------------------------------------------------------------
 * Common to all commands for messages:
 *
 * Order. The command starts when the events of the wait list are complete and, on an in-order queue, the commands
 * before it. On an out-of-order queue nothing else waits for it. Messages between two processes with equal tag and
 * communicator arrive in the order in which their commands start: the order of an in-order queue, or of enqueueing for
 * commands without wait list on one out-of-order queue. Receives take messages by MPI's rules, in the order in which they
 * start: of the messages from one process, the oldest that has not been received goes to the first receive that accepts it,
 * whether that names a tag or has MPI_ANY_TAG. A receive with MPI_ANY_SOURCE or MPI_ANY_TAG that starts first therefore comes
 * before a narrower one. Messages from different processes have no order. Receives of the program's own (MPI_Recv with
 * another datatype than MPI_CL_MEM) are not in this order: where both accept a message, either may get it.
 *
 * Blocking. With `blocking` CL_TRUE the call returns when the command is complete, and does its work on the calling
 * thread. Two processes that both send first with blocking calls are as unsafe as with MPI_Send.
 *
 * Event. `event` may be NULL. Otherwise it gets a command's event, with queue, context, profiling information (where
 * the queue has it) and callbacks. On failure its status is negative, and commands that wait for it fail as OpenCL
 * says; clGetTransferInfo tells the cause. If `event` is written, the caller releases it.
 *
 * Lifetime. The library retains queue, buffer and events until the command ends. `comm` must not be freed before that.
 *
 * Plain messages. A message is for a command at the other end, unless the communicator has the info key "cldist_wire"
 * with the value "plain", given by MPI_Comm_set_info, MPI_Comm_dup_with_info or MPI_Comm_idup_with_info, in all processes
 * that use commands on it. Then each message is one MPI message of `size` bytes and nothing else: it can be received by
 * any MPI call with any datatypes of that size, and a command receives what any MPI call sent. The value "cldist" takes
 * that back; any other is reported in the log and ignored. The choice holds for commands enqueued afterwards; it is not
 * to be made while another thread enqueues commands on the communicator. MPI_Comm_dup and MPI_Comm_idup copy it; after
 * the calls with info it is what the info says, "cldist" if it says nothing; other new communicators begin without.
 *
 * Failure. A send whose wait list fails tells the receiver, whose receive ends with CL_PEER_TRANSFER_FAILED. A receive
 * whose wait list fails takes its message off the wire and drops it, so that later receives get what is theirs. A plain
 * send that fails before its message left can't tell: it sends nothing and warns in the log; the receiver waits on, or
 * takes the next message that matches.
 *
 * Threads. Thread-safe. Not collective. Two threads may enqueue commands of this header on one queue, in-order too. In the
 * queue a command is two of the platform's: what another thread enqueues on an in-order queue by OpenCL's own calls during
 * the call may come between these, and is then in no order with the transfer. Threads that need one share a lock.
 *
 * Errors, in the order of the checks (nothing is sent if there is one):
 * CL_INVALID_COMMAND_QUEUE    if the queue is not a valid host command queue;
 * CL_INVALID_MEM_OBJECT       if a buffer is not a valid buffer object;
 * CL_INVALID_CONTEXT          if queue, buffer and events of the wait list are not of one context;
 * CL_INVALID_VALUE            if offset + size passes the end of the buffer, or if the two ranges of a Sendrecv overlap,
 *                             or if a region is not a valid one (see clEnqueueSendBufferRect);
 * CL_INVALID_EVENT_WAIT_LIST  if the wait list is NULL and num_events is not 0, or the other way round, or if an event
 *                             in it is not valid;
 * CL_MISALIGNED_SUB_BUFFER_OFFSET if a buffer is a sub-buffer not aligned for the queue's device;
 * CL_INVALID_OPERATION        if the buffer was made with CL_MEM_HOST_NO_ACCESS, or with CL_MEM_HOST_WRITE_ONLY and is
 *                             to be sent, or with CL_MEM_HOST_READ_ONLY and is to be received into;
 * CL_MPI_NOT_INITIALIZED, CL_MPI_THREAD_LEVEL_TOO_LOW, CL_INVALID_COMMUNICATOR, CL_INVALID_RANK, CL_INVALID_TAG as
 *                             above;
 * CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY, CL_MEM_OBJECT_ALLOCATION_FAILURE as for clEnqueueReadBuffer.
 * A blocking call returns the status of a failed transfer too, and CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST if its wait list
 * fails, before the call or during it. In both cases the far end is treated as under Failure. */

/** Enqueues a command that sends `size` bytes of `buffer`, from byte `offset`, to rank `dest` of `comm`.
 *
 *  Counterpart of MPI_Send (clDataTransfer, section 4). The buffer may be changed again once the event is CL_COMPLETE;
 *  the receiver may not have it yet. `size` 0 sends an empty message. To MPI_PROC_NULL it does nothing. */
cl_int clEnqueueSendBuffer(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                           int dest, int tag, MPI_Comm comm, cl_uint num_events_in_wait_list,
                           const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that receives a message of up to `size` bytes from rank `source` of `comm` into `buffer`, from
 *  byte `offset` on.
 *
 *  Counterpart of MPI_Recv (clDataTransfer, section 4). `source` may be MPI_ANY_SOURCE, `tag` MPI_ANY_TAG; who sent, and
 *  how much, is told by clGetTransferInfo. A shorter message leaves the rest of the buffer unchanged; a longer one ends
 *  the command with CL_MESSAGE_TRUNCATED. From MPI_PROC_NULL it receives nothing and leaves the buffer unchanged. */
cl_int clEnqueueRecvBuffer(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                           int source, int tag, MPI_Comm comm, cl_uint num_events_in_wait_list,
                           const cl_event *event_wait_list, cl_event *event);

/** Enqueues one command that sends and receives at the same time, and ends when both are done.
 *
 *  Counterpart of MPI_Sendrecv (clDataTransfer, section 4). The two ranges may lie in one buffer if they don't overlap.
 *  If both parts fail, the status is that of the first. clGetTransferInfo describes the receive. */
cl_int clEnqueueSendrecvBuffer(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking, size_t send_offset,
                               size_t send_size, int dest, int send_tag, cl_mem recv_buffer, size_t recv_offset,
                               size_t recv_size, int source, int recv_tag, MPI_Comm comm,
                               cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that sends a rectangular region of `buffer`, such as a face of a 3D array, to rank `dest` of
 *  `comm`.
 *
 *  Counterpart of MPI_Send with a vector or subarray datatype; the region is described as in clEnqueueReadBufferRect
 *  (OpenCL specification, section 5.2.2). `origin` and `region` are arrays of 3: bytes in a row, rows in a slice,
 *  slices. They are read during the call. The region's first byte is the buffer's byte
 *  origin[2] * slice_pitch + origin[1] * row_pitch + origin[0]. Pitches are bytes; a row_pitch of 0 stands for region[0],
 *  a slice_pitch of 0 for region[1] * row_pitch.
 *
 *  The message is the region's region[0] * region[1] * region[2] bytes, row after row, slice after slice: one that any
 *  command of this section receives, be it a region of another shape or a contiguous range.
 *
 *  Besides the errors above: CL_INVALID_VALUE if `origin` or `region` is NULL, if region[0], region[1] or region[2] is 0,
 *  if row_pitch is neither 0 nor at least region[0], if slice_pitch is neither 0 nor a multiple of row_pitch of at least
 *  region[1] * row_pitch, or if the region passes the end of the buffer. */
cl_int clEnqueueSendBufferRect(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, const size_t origin[3],
                               const size_t region[3], size_t row_pitch, size_t slice_pitch, int dest, int tag,
                               MPI_Comm comm, cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                               cl_event *event);

/** Enqueues a command that receives a message of up to region[0] * region[1] * region[2] bytes from rank `source` of
 *  `comm` into a rectangular region of `buffer`.
 *
 *  Counterpart of MPI_Recv with a vector or subarray datatype; the region and its errors are as for
 *  clEnqueueSendBufferRect, the rest as for clEnqueueRecvBuffer. The message may be one of any command of this section. A
 *  shorter one fills the first bytes of the region, row after row, slice after slice. No byte of the buffer outside of
 *  the region is read or written: other commands may use them at the same time. */
cl_int clEnqueueRecvBufferRect(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, const size_t origin[3],
                               const size_t region[3], size_t row_pitch, size_t slice_pitch, int source, int tag,
                               MPI_Comm comm, cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                               cl_event *event);

/* ---- Files -------------------------------------------------------------------------------------------------------
 * Common to all commands for files:
 *
 * Names, after clDataTransfer: what *reads* the buffer writes the file, what *writes* the buffer reads the file.
 *
 * Order. The command starts when the events of the wait list are complete and, on an in-order queue, the commands
 * before it, and touches the file only then. On an out-of-order queue nothing else waits for it. What more is said about
 * order stands with the commands.
 *
 * Blocking, Event, Lifetime: as for messages. A non-blocking command's file access is done by threads of the library. The
 * file must stay open until the command has ended. Kernels and messages go on meanwhile, and large transfers overlap the
 * file's accesses with the copies of the device.
 *
 * MPI. Only the commands for MPI_File need it; the others work before MPI_Init, after MPI_Finalize and without it. A
 * program that ends waits until they have ended, or, where nothing moves for CLDIST_STALL_SECONDS, names them.
 *
 * Failure. Bytes are moved from the first on, without a gap, until the failure; CL_TRANSFER_BYTES tells how many, and
 * beyond them neither the file nor the buffer is touched. (Where the system can't read a place in the middle of a file,
 * bytes of the buffer behind it may have changed.) The event ends with
 * CL_END_OF_FILE   if the file ended early;
 * CL_FILE_ERROR    if the system said no: a full disk, a file opened for the other direction, a closed descriptor, a pipe
 *                  that nobody reads (no SIGPIPE or SIGXFSZ is raised). CL_TRANSFER_ERRNO tells errno.
 * A blocking call returns the code, and leaves the system's in errno. A call that succeeds leaves errno as it was.
 *
 * Threads. Thread-safe. Not collective, where not said otherwise.
 *
 * Errors, in the order of the checks: from CL_INVALID_COMMAND_QUEUE to CL_INVALID_OPERATION as for messages (a buffer
 * that writes a file is read, like one that is sent); then
 * CL_INVALID_VALUE if `fp` is NULL, or the descriptor or the file's offset negative;
 * CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY, CL_MEM_OBJECT_ALLOCATION_FAILURE as for clEnqueueReadBuffer;
 * CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST if `blocking` is CL_TRUE and the wait list fails. */

/** Enqueues a command that writes `size` bytes of `buffer`, from byte `offset`, to the stream `fp`.
 *
 *  clDataTransfer, section 4. Position, buffering and indicators of the stream are as if fwrite of `size` bytes had been
 *  called when the command ran: bytes may still be in the stream's buffer when the command has ended. Pipes, FIFOs and
 *  sockets are streams like others.
 *
 *  Commands on one stream run one after the other, in the order in which they start: that of an in-order queue, of their
 *  events, or of enqueueing for commands without wait list on one out-of-order queue. The stream's lock (flockfile) is
 *  held while one runs: other threads' calls come before it or after it. */
cl_int clEnqueueReadBufferToStdioFile(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset,
                                      size_t size, FILE *fp, cl_uint num_events_in_wait_list,
                                      const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reads `size` bytes from the stream `fp` into `buffer`, from byte `offset` on.
 *
 *  clDataTransfer, section 4. As if fread of `size` bytes had been called when the command ran: where the stream ends
 *  early, what was there is in the buffer, and feof(fp) is true. Order as for clEnqueueReadBufferToStdioFile. */
cl_int clEnqueueWriteBufferFromStdioFile(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset,
                                         size_t size, FILE *fp, cl_uint num_events_in_wait_list,
                                         const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that writes `size` bytes of `buffer`, from byte `offset`, to the file of descriptor `fd`, from byte
 *  `file_offset` on.
 *
 *  As pwrite: the file's position is neither used nor changed, and what can't be positioned (a pipe) is an error, ESPIPE.
 *  A descriptor opened with O_APPEND has the bytes written to the end of the file, whatever `file_offset` says, as Linux does.
 *  Commands on one file run at once, in any order, unless queues or events order them. */
cl_int clEnqueueReadBufferToFile(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset,
                                 size_t size, int fd, off_t file_offset, cl_uint num_events_in_wait_list,
                                 const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reads `size` bytes of the file of descriptor `fd`, from byte `file_offset` on, into `buffer`,
 *  from byte `offset` on.
 *
 *  As pread: otherwise as clEnqueueReadBufferToFile. Holes are zeros. Large reads are done by several threads. */
cl_int clEnqueueWriteBufferFromFile(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset,
                                    size_t size, int fd, off_t file_offset, cl_uint num_events_in_wait_list,
                                    const cl_event *event_wait_list, cl_event *event);

/* Common to the commands for MPI_File (MPI standard, chapter 14):
 *
 * Place. As in MPI_File_write_at and MPI_File_read_at `file_offset` counts etypes of the file's view, and the bytes go
 * through its filetype; the file pointers are neither used nor changed. `size` is bytes, a multiple of the etype's size,
 * and may pass 2 GiB. Bytes are moved as they are, so the view's data representation must be "native". The view must not
 * be changed (MPI_File_set_view), nor the file closed, while a command on it is in flight. Atomicity and when others see
 * what was written are as MPI says (MPI_File_set_atomicity, MPI_File_sync).
 *
 * Order. Commands on one file run one after the other, in the order in which they start: that of an in-order queue, of
 * their events, or of enqueueing for commands without wait list on one out-of-order queue. With MPICH, which does one file
 * call at a time, the same holds for the commands on all MPI files of the process.
 *
 * Threads. Thread-safe. MPI's file calls are made by a thread of the library, or by the caller of a blocking command.
 * Other calls on the file at the same time are allowed as far as MPI allows them; MPI may keep them waiting until the
 * command has ended.
 *
 * Failure. The event ends with
 * CL_MPI_ERROR     if MPI said no; CL_TRANSFER_MPI_ERROR has the code. MPI calls the file's error handler first, by default
 *                  MPI_ERRORS_RETURN; another one, set by the program, is called by the library's thread;
 * CL_END_OF_FILE   if the file, as MPI_File_get_size tells it, ends early; CL_TRANSFER_BYTES are then the whole etypes
 *                  before the end.
 *
 * Errors, after those for CL_INVALID_OPERATION and a buffer:
 * CL_MPI_NOT_INITIALIZED, CL_MPI_THREAD_LEVEL_TOO_LOW as for messages;
 * CL_INVALID_VALUE     if `file` is MPI_FILE_NULL, or `file_offset` negative, or `size` no multiple of the etype's size;
 * CL_INVALID_OPERATION if the file was opened with MPI_MODE_SEQUENTIAL, or with MPI_MODE_RDONLY and is to be written, or
 *                      with MPI_MODE_WRONLY and is to be read, or if the view's data representation is not "native";
 * CL_MPI_ERROR         if MPI would not tell mode or view of the file. */

/** Enqueues a command that writes `size` bytes of `buffer`, from byte `offset`, to `file` at `file_offset`.
 *
 *  As MPI_File_write_at. */
cl_int clEnqueueReadBufferToMPIFile(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset,
                                    size_t size, MPI_File file, MPI_Offset file_offset, cl_uint num_events_in_wait_list,
                                    const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reads `size` bytes of `file` at `file_offset` into `buffer`, from byte `offset` on.
 *
 *  As MPI_File_read_at. */
cl_int clEnqueueWriteBufferFromMPIFile(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset,
                                       size_t size, MPI_File file, MPI_Offset file_offset,
                                       cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                       cl_event *event);

/** The same as clEnqueueReadBufferToMPIFile, together with the other processes of the file's group.
 *
 *  As MPI_File_write_at_all. Collective: each process that opened the file enqueues it, each with a range of its own, which
 *  may be empty (`size` 0; the buffer must be a valid one all the same). The command ends in a process when its part is
 *  done; whether it waits for the others before is MPI's affair.
 *
 *  In all processes the collective commands on a file must start in the same order, as must MPI's own collective calls on
 *  it among them; with MPICH also those on different files that several processes have in common. So enqueue them in the
 *  same order, all in one in-order queue, or all without wait list in one out-of-order queue, or have each wait for the
 *  event of the one before; and call MPI's own only when the event of the command before is complete.
 *
 *  A command that fails before its turn (its wait list, an earlier command of its in-order queue, memory) still takes part,
 *  with no bytes: it fails here alone, and the others' end. Its event may fail before that. It has taken part when
 *  clGetTransferInfo(CL_TRANSFER_STAGES) tells of a CL_STAGE_FILE; only then may this process close the file or make MPI's
 *  collective calls on it. Commands keep their order in any case. A call that returns an error does not take part, unless
 *  it is blocking and returns CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST or the status of a failed transfer: the others
 *  wait, for ever if it is not called again.
 *
 *  A transfer that must be staged (a device with memory of its own) takes page-locked host memory for the whole range.
 *  Open MPI 4.1 does not tell all errors of the system, such as a full disk, when it writes collectively: see
 *  docs/decisions/0016-collective-file-commands.md. */
cl_int clEnqueueReadBufferToMPIFileAll(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset,
                                       size_t size, MPI_File file, MPI_Offset file_offset,
                                       cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                       cl_event *event);

/** The same as clEnqueueWriteBufferFromMPIFile, together with the other processes of the file's group.
 *
 *  As MPI_File_read_at_all; otherwise as clEnqueueReadBufferToMPIFileAll. Where the file ends early for some processes, only
 *  their events end with CL_END_OF_FILE; bytes of their ranges behind it may have changed. */
cl_int clEnqueueWriteBufferFromMPIFileAll(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                                          size_t offset, size_t size, MPI_File file, MPI_Offset file_offset,
                                          cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                          cl_event *event);

/* ---- Collectives -------------------------------------------------------------------------------------------------
 * Counterparts of MPI's collective operations, non-blocking or blocking as the other commands are, with buffer and offset in
 * place of each address. Common to all of them:
 *
 * Arguments are MPI's. Offsets are bytes, counts and displacements elements of the datatype; they are size_t and may pass
 * INT_MAX. Arrays are read during the call. Arguments that MPI calls significant at the root alone are ignored elsewhere.
 * A datatype is one of MPI's own, or derived from them without gaps; bytes are moved as they are. Reductions take MPI's own
 * datatypes and operators (not those of MPI_Op_create); between the members of MPI_DOUBLE_INT and the like bytes may change.
 *
 * MPI_IN_PLACE. A process works in place if what it gives lies in the same bytes of the same buffer that MPI_IN_PLACE would
 * have it in: of Reduce (at the root), Allreduce, Reduce_scatter and Alltoall(v) both ranges begin at the same place, and
 * both counts and displacements of an Alltoallv are equal; of Gather(v) at the root and Allgather(v) it gives its own part of
 * what it gets; of Scatter(v) the root gets its own part of what it gives. Ranges may overlap in no other way.
 *
 * Order. The calls count among the collective calls on `comm`: all its processes must make them in the same order,
 * collective calls of the program's own on `comm` among them. So matched, the commands do not meet those calls: they have a
 * communicator of the library's own. A command starts as other commands do, and takes part in its turn: behind the commands
 * that were enqueued before it on `comm`, whatever their queues. Who waits for the event of a command, with a command
 * enqueued before it on `comm`, waits for ever.
 *
 * The event completes when all processes have taken part and this one's part is done. Buffers that are only given may be
 * changed then.
 *
 * Blocking calls return when the command is complete. Those of one communicator match non-blocking ones.
 *
 * Failure. A command fails in all processes, with CL_PEER_TRANSFER_FAILED, if in one of them its wait list failed, an
 * earlier command of its in-order queue, or the device when it was read; it has taken part nevertheless, so that nobody waits
 * for ever. What was to be got is then undefined. If the device fails to take what was got, the command fails in that
 * process alone. If MPI refuses an operator for a datatype (MPI_BAND of MPI_FLOAT), it fails with CL_MPI_ERROR.
 * The event may fail before the process has taken part: it has when clGetTransferInfo(CL_TRANSFER_STAGES) tells of a
 * CL_STAGE_MESSAGE. A call that returns an error does not take part, unless it is blocking and returns
 * CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST or the status of a failed command: the others wait, for ever if it is not
 * called again. If sizes do not match between processes the outcome is undefined, as with MPI.
 *
 * Host memory. A process of `comm` can't take part with an MPI call: commands match commands alone.
 *
 * Lifetime. The library retains queue, buffers and events until the command ends. `comm` must not be freed before the command
 * has taken part. Memory: where a range can't be used in place, page-locked host memory for all of it is needed, but of
 * Bcast, Reduce and Allreduce for blocks of 4 MiB.
 *
 * Threads. Thread-safe; but two threads that enqueue commands on one communicator must agree on an order, as with MPI.
 *
 * Errors, in the order of the checks (the process does not take part if there is one):
 * CL_MPI_NOT_INITIALIZED, CL_MPI_THREAD_LEVEL_TOO_LOW as above;
 * CL_INVALID_COMMUNICATOR     as above, or if `comm` is an inter-communicator;
 * CL_INVALID_RANK             if `root` is not a rank of the communicator;
 * CL_INVALID_MPI_DATATYPE, CL_INVALID_MPI_OP as above;
 * CL_INVALID_VALUE            if an array is NULL that is significant, or if the process's own part has not as many bytes where
 *                             it is given as where it is got;
 * then as for messages; CL_INVALID_VALUE also if ranges overlap but not as in place;
 * CL_MPI_ERROR                if the communicator can't be duplicated. */

/** Enqueues a command that completes when all processes of `comm` have started it.
 *
 *  Counterpart of MPI_Barrier. */
cl_int clEnqueueBarrierMPI(cl_command_queue command_queue, cl_bool blocking, MPI_Comm comm,
                           cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that copies `count` elements of the buffer of rank `root` into those of the others.
 *
 *  Counterpart of MPI_Bcast. */
cl_int clEnqueueBcastBufferMPI(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset,
                               size_t count, MPI_Datatype datatype, int root, MPI_Comm comm,
                               cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that combines the elements of all processes, each with those at the same place, and leaves them with
 *  rank `root`. `recv_buffer` and `recv_offset` are significant there alone.
 *
 *  Counterpart of MPI_Reduce. */
cl_int clEnqueueReduceBufferMPI(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                                size_t send_offset, cl_mem recv_buffer, size_t recv_offset, size_t count,
                                MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm,
                                cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** The same, and leaves them with all processes.
 *
 *  Counterpart of MPI_Allreduce. */
cl_int clEnqueueAllreduceBufferMPI(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                                   size_t send_offset, cl_mem recv_buffer, size_t recv_offset, size_t count,
                                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, cl_uint num_events_in_wait_list,
                                   const cl_event *event_wait_list, cl_event *event);

/** The same, and leaves each process with as many of them as `recv_counts`, which all processes give alike, has for it, in
 *  the order of the ranks.
 *
 *  Counterpart of MPI_Reduce_scatter. */
cl_int clEnqueueReduceScatterBufferMPI(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                                       size_t send_offset, cl_mem recv_buffer, size_t recv_offset,
                                       const size_t *recv_counts, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                       cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                       cl_event *event);

/** Enqueues a command that brings what all processes give, equal numbers of bytes, to rank `root`, in the order of the
 *  ranks. What begins with recv_ is significant there alone; `recv_count` is of one process.
 *
 *  Counterpart of MPI_Gather. */
cl_int clEnqueueGatherBufferMPI(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                                size_t send_offset, size_t send_count, MPI_Datatype send_type, cl_mem recv_buffer,
                                size_t recv_offset, size_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
                                cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** The same with a number of elements for each process, and a place for them from `recv_offset` on.
 *
 *  Counterpart of MPI_Gatherv. */
cl_int clEnqueueGathervBufferMPI(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                                 size_t send_offset, size_t send_count, MPI_Datatype send_type, cl_mem recv_buffer,
                                 size_t recv_offset, const size_t *recv_counts, const size_t *recv_displacements,
                                 MPI_Datatype recv_type, int root, MPI_Comm comm, cl_uint num_events_in_wait_list,
                                 const cl_event *event_wait_list, cl_event *event);

/** As clEnqueueGatherBufferMPI, but all processes get all.
 *
 *  Counterpart of MPI_Allgather. */
cl_int clEnqueueAllgatherBufferMPI(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                                   size_t send_offset, size_t send_count, MPI_Datatype send_type, cl_mem recv_buffer,
                                   size_t recv_offset, size_t recv_count, MPI_Datatype recv_type, MPI_Comm comm,
                                   cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** As clEnqueueGathervBufferMPI, but all processes get all.
 *
 *  Counterpart of MPI_Allgatherv. */
cl_int clEnqueueAllgathervBufferMPI(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                                    size_t send_offset, size_t send_count, MPI_Datatype send_type, cl_mem recv_buffer,
                                    size_t recv_offset, const size_t *recv_counts, const size_t *recv_displacements,
                                    MPI_Datatype recv_type, MPI_Comm comm, cl_uint num_events_in_wait_list,
                                    const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that brings to each process its part, of equal numbers of bytes, of what rank `root` gives, in the
 *  order of the ranks. What begins with send_ is significant there alone; `send_count` is of one process.
 *
 *  Counterpart of MPI_Scatter. */
cl_int clEnqueueScatterBufferMPI(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                                 size_t send_offset, size_t send_count, MPI_Datatype send_type, cl_mem recv_buffer,
                                 size_t recv_offset, size_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
                                 cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** The same with a number of elements for each process, and a place where they are from `send_offset` on.
 *
 *  Counterpart of MPI_Scatterv. */
cl_int clEnqueueScattervBufferMPI(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                                  size_t send_offset, const size_t *send_counts, const size_t *send_displacements,
                                  MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset, size_t recv_count,
                                  MPI_Datatype recv_type, int root, MPI_Comm comm, cl_uint num_events_in_wait_list,
                                  const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that brings a part, of equal numbers of bytes, from each process to each. `send_count` and
 *  `recv_count` are of one process.
 *
 *  Counterpart of MPI_Alltoall. In place it takes as much host memory again. */
cl_int clEnqueueAlltoallBufferMPI(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                                  size_t send_offset, size_t send_count, MPI_Datatype send_type, cl_mem recv_buffer,
                                  size_t recv_offset, size_t recv_count, MPI_Datatype recv_type, MPI_Comm comm,
                                  cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** The same with a number of elements for each process and each direction, and places for them.
 *
 *  Counterpart of MPI_Alltoallv. In place it takes as much host memory again. */
cl_int clEnqueueAlltoallvBufferMPI(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                                   size_t send_offset, const size_t *send_counts, const size_t *send_displacements,
                                   MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                   const size_t *recv_counts, const size_t *recv_displacements, MPI_Datatype recv_type,
                                   MPI_Comm comm, cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                   cl_event *event);

/* ---- MPI requests and events ------------------------------------------------------------------------------------- */

/** Makes an event that is complete when the operation of `*request` is, so that OpenCL commands can wait for it: a
 *  non-blocking send or receive of host memory, a non-blocking collective or file operation, a started persistent one.
 *
 *  clDataTransfer, section 4 (clCreateEventFromMPIRequest). The library takes the request over and leaves another in its
 *  place, which ends with it: MPI_Wait, MPI_Test and their forms for many take it, together with any others, and give the
 *  MPI_Status, count included, and the error of the operation. It must be waited for, tested or freed, like any request.
 *  Copies of the old handle must not be used before that or the event says that the operation has ended. MPI_Cancel on
 *  the new one cancels the operation; the old one must not have been cancelled before. MPI_Request_free on the new one
 *  leaves the event as it is.
 *
 *  MPI_REQUEST_NULL and an inactive persistent request end at once, with an empty status, as in MPI_Wait. A persistent
 *  request is inactive, but there, when the operation has ended: keep a copy of its handle, to start or free it then. Each
 *  start needs a call of its own, with a copy of the handle. Open MPI frees a persistent request that failed.
 *
 *  The event is a user event of `context`, set by a thread of the library. It ends with CL_MPI_ERROR if the operation
 *  failed, with CL_TRANSFER_CANCELLED if it was cancelled. clGetTransferInfo tells CL_TRANSFER_STATUS,
 *  CL_TRANSFER_MPI_ERROR, CL_TRANSFER_ERROR_MESSAGE and, of a receive, CL_TRANSFER_BYTES, CL_TRANSFER_SOURCE and
 *  CL_TRANSFER_TAG; of a file operation, the bytes. Of other operations these three are what MPI left in the status, and
 *  mean nothing. The caller releases the event.
 *
 *  Errors are reported to the handler that MPI takes for a failing MPI_Test of the request, called by a thread of the
 *  library. The request left behind belongs to no communicator: MPI reports its error, once more, to the handler of
 *  MPI_COMM_WORLD when it is waited for. Set MPI_ERRORS_RETURN there as well to go on after a failure.
 *
 *  The memory of the operation is the caller's, as ever, and must stay until it has ended. Thread-safe, but no other thread
 *  may use `*request` meanwhile. Not collective.
 *
 *  `errcode_ret` may be NULL. On failure NULL is returned, the request is unchanged, and *errcode_ret is
 *  CL_INVALID_CONTEXT if `context` is not valid; CL_INVALID_VALUE if `request` is NULL;
 *  CL_MPI_NOT_INITIALIZED or CL_MPI_THREAD_LEVEL_TOO_LOW as above; CL_MPI_ERROR if MPI_Grequest_start failed;
 *  CL_OUT_OF_RESOURCES or CL_OUT_OF_HOST_MEMORY. */
cl_event clCreateEventFromMPIRequest(cl_context context, MPI_Request *request, cl_int *errcode_ret);

/** Makes an MPI request that is complete when `event` is, so that one MPI_Waitall waits for kernels, transfers and
 *  messages together. `event` may be of any command or a user event, of any context.
 *
 *  clDataTransfer, section 4 (clCreateMPIRequestFromEvent). Its status is empty, as that of MPI_REQUEST_NULL: clGetTransferInfo
 *  tells more of a transfer. If the event fails, so does the request: with an MPI error code of a class of its own, whose
 *  text (MPI_Error_string) has the event's status; reported to the handler of MPI_COMM_WORLD, which by default ends the
 *  job. MPI_Cancel has no effect. The request must be waited for, tested or freed, like any.
 *
 *  The event's queue is flushed; the library retains the event until it has ended. Thread-safe. Not collective.
 *
 *  Returns CL_SUCCESS and writes *request; CL_INVALID_EVENT if `event` is not valid; CL_INVALID_VALUE if `request` is
 *  NULL; CL_MPI_NOT_INITIALIZED or CL_MPI_THREAD_LEVEL_TOO_LOW as above; CL_MPI_ERROR if MPI_Grequest_start failed;
 *  CL_OUT_OF_RESOURCES or CL_OUT_OF_HOST_MEMORY. */
cl_int clCreateMPIRequestFromEvent(cl_event event, MPI_Request *request);

/* ---- MPI calls whose far end is a device ----------------------------------------------------------------------------- */

/** A datatype of one byte: "the far end of this message is an OpenCL device". MPI calls with it exchange host memory with
 *  the commands above, or with such calls, in the same pipelined format.
 *
 *  clDataTransfer, section 4 (MPI_CL_MEM). Counts are bytes. These calls take it, with their forms for large counts
 *  (MPI_Send_c, …) where the MPI library has them:
 *    MPI_Send, MPI_Ssend, MPI_Isend, MPI_Issend, MPI_Recv, MPI_Irecv, MPI_Mrecv, MPI_Imrecv;
 *    MPI_Sendrecv, on one side or both;
 *    MPI_Get_count, MPI_Get_elements, MPI_Get_elements_x; MPI_Type_size and others that ask about a type.
 *  All others refuse it with MPI_ERR_TYPE: other sends (MPI_Bsend, MPI_Rsend), persistent and partitioned ones
 *  (MPI_Send_init, MPI_Psend_init), MPI_Sendrecv_replace, MPI_Isendrecv, collective operations of all kinds, one-sided and
 *  file operations, MPI_Pack. So do those that would make it a part of another datatype, commit it (it is not committed) or free it.
 *
 *  It is a variable, made when the library is made ready (MPI_Init, clDistInit) and MPI_DATATYPE_NULL before that and
 *  after MPI_Finalize: no static initialiser can use it. Calls with it are then MPI_ERR_TYPE, with a line in the log.
 *
 *  Meaning. As MPI says, section 3, for order, wildcards, MPI_PROC_NULL, MPI_Ssend, inter-communicators, threads. A call,
 *  blocking or not, comes in the order of messages behind the commands that have started, whose CL_TRANSFER_STATUS is
 *  CL_RUNNING or that are complete, and before those that start later. It does not wait for commands that have not
 *  started; one that was flushed, on an idle queue too, may be such. To have a call behind a command, wait for the command's
 *  event first, or use two commands. Between calls and plain messages order holds only once a call or request is
 *  complete. Blocking calls do their work on the calling thread; requests are done by a thread of the library, whether
 *  MPI is called meanwhile or not.
 *  MPI_Comm_free may come before the requests on the communicator are complete; with the last of them it is freed, and its
 *  attributes are deleted, by a thread of the library. MPI_Comm_disconnect must come after them.
 *
 *  Requests are generalised requests, which MPI_Wait, MPI_Test and their forms for many take together with others.
 *  MPI_Cancel gives up a receive that has not met its message; it leaves sends as they are. After MPI_Request_free the
 *  operation goes on. MPI_Start and MPI_Request_get_status: as for any request that is not persistent.
 *
 *  Status. MPI_SOURCE, MPI_TAG, and as count (of MPI_CL_MEM or MPI_BYTE) the bytes received; MPI_Test_cancelled.
 *
 *  Probing. MPI_Probe, MPI_Iprobe, MPI_Mprobe and MPI_Improbe find these messages; MPI_Get_count with MPI_CL_MEM tells the
 *  payload of one of the last 64 found in the process, as long as no call with another datatype has received it, and
 *  MPI_UNDEFINED of earlier ones and of plain messages too short to be one. With another datatype it tells the bytes that
 *  MPI moves, which are others. Asking so for the size of a large message takes its announcement off the wire: from then on
 *  only commands and calls with MPI_CL_MEM can receive it, and a MPI_Ssend of it may end. A probe does not find what a
 *  pending receive of this library is to get. The count in a probe's status carries a mark of this library's, which
 *  MPI_Get_count, MPI_Get_elements, MPI_Get_elements_x and MPI_Status_c2f leave out; the PMPI_ names would show it.
 *
 *  Half converted programs. MPI_Recv, MPI_Sendrecv and MPI_Mrecv of bytes, int, unsigned, float or double that have received the
 *  message of a command say so in the log. Not so: MPI_Irecv, MPI_Imrecv and persistent receives, whose end this library does
 *  not see; other datatypes, whose values may lie elsewhere; and a receive that is shorter than the payload and 64 bytes, where
 *  the error handler is the default one: MPI ends the job with MPI_ERR_TRUNCATE before the call returns. A large message
 *  is also named by the process that it was sent to after CLDIST_STALL_SECONDS.
 *
 *  Errors go to the error handler of the communicator (of MPI_COMM_WORLD if that is not valid), with a line in the log,
 *  and are returned:
 *  MPI_ERR_COMM      if the communicator is MPI_COMM_NULL or was freed, or as for CL_INVALID_COMMUNICATOR;
 *  MPI_ERR_COUNT     if the count is negative;          MPI_ERR_BUFFER  if the memory is NULL and the count is not 0;
 *  MPI_ERR_RANK      as for CL_INVALID_RANK;            MPI_ERR_TAG     as for CL_INVALID_TAG;
 *  MPI_ERR_TRUNCATE  as for CL_MESSAGE_TRUNCATED: the memory is unchanged (on a communicator with cldist_wire=plain,
 *                    MPI_Mrecv and MPI_Imrecv leave in it what MPI does);
 *  MPI_ERR_TYPE      as for CL_MESSAGE_NOT_RECOGNIZED;  MPI_ERR_NO_MEM  if there is no memory;
 *  an error class of its own, with a text, as for CL_PEER_TRANSFER_FAILED; MPI_ERR_OTHER for everything else.
 *  Errors of requests are told by the call that completes them, to the handler of MPI_COMM_WORLD: generalised requests have
 *  no communicator. Where several are waited for at once MPICH makes MPI_ERR_OTHER of them.
 *
 *  A program in Fortran has its calls go to MPI directly: they don't know this datatype. */
extern MPI_Datatype cldist_mpi_cl_mem;
#define MPI_CL_MEM cldist_mpi_cl_mem

/* ---- What a transfer did ----------------------------------------------------------------------------------------- */

typedef cl_uint cl_transfer_info;

#define CL_TRANSFER_STATUS 0x13A0      /**< cl_int: CL_QUEUED, CL_SUBMITTED, CL_RUNNING, CL_COMPLETE or the error. */
#define CL_TRANSFER_BYTES 0x13A1       /**< size_t: bytes moved so far; of a Sendrecv, received. */
#define CL_TRANSFER_SOURCE 0x13A2      /**< int: rank received from; MPI_PROC_NULL if nothing was received. */
#define CL_TRANSFER_DESTINATION 0x13A3 /**< int: rank sent to; MPI_PROC_NULL if nothing is sent. */
#define CL_TRANSFER_TAG 0x13A4         /**< int: tag received; of a send, the tag sent. */
#define CL_TRANSFER_PATH 0x13A5        /**< char[]: one of those of CLDIST_PATH, such as "mapped"; "" until chosen. */
#define CL_TRANSFER_BLOCK_SIZE 0x13A6  /**< size_t: bytes per block on the wire; 0 until chosen. */
#define CL_TRANSFER_DEPTH 0x13A7       /**< cl_uint: blocks in flight at once; 0 until chosen. */
#define CL_TRANSFER_MPI_ERROR 0x13A8   /**< int: the MPI error code if the status is CL_MPI_ERROR, else MPI_SUCCESS. */
#define CL_TRANSFER_ERROR_MESSAGE 0x13A9 /**< char[]: what failed, in words; "" if nothing did. */
#define CL_TRANSFER_STAGES 0x13AA        /**< cl_transfer_stage[]: those that took place, in the order of CL_STAGE_*. */
#define CL_TRANSFER_ERRNO 0x13AB         /**< int: errno if the status is CL_FILE_ERROR (EIO if it was 0), else 0. */
#define CL_TRANSFER_DIRECT_IO 0x13AC     /**< cl_bool: whether the file was accessed past the system's page cache. */

#define CL_STAGE_WAIT 0    /**< from the call until the wait list and the queue let the command start */
#define CL_STAGE_MATCH 1   /**< a receive waiting for its message */
#define CL_STAGE_DEVICE 2  /**< copies of the library's own queues; else the command's queue copies, before and after */
#define CL_STAGE_MESSAGE 3 /**< MPI moving bytes */
#define CL_STAGE_FILE 4    /**< reading or writing the file */

/** One stage of a transfer. Stages of different blocks overlap; `start` is that of the first block, `end` of the last.
 *  Nanoseconds of the host's CLOCK_MONOTONIC. */
typedef struct cl_transfer_stage {
    cl_uint stage;  /**< CL_STAGE_* */
    cl_uint blocks; /**< how many blocks took part */
    cl_ulong start;
    cl_ulong end;
} cl_transfer_stage;

/** Tells what the command of `event` was asked and what became of it. Works while it runs and, as long as the caller
 *  holds `event`, afterwards. Thread-safe. Not collective.
 *
 *  Returns CL_SUCCESS; CL_INVALID_EVENT if `event` was not made by a command of this library; CL_INVALID_VALUE if
 *  `param_name` is none of the above, or if `param_value_size` is too small and `param_value` is not NULL. */
cl_int clGetTransferInfo(cl_event event, cl_transfer_info param_name, size_t param_value_size, void *param_value,
                         size_t *param_value_size_ret);

/** Shows the command of `event`, any OpenCL command, under `name` in the trace that CLDIST_TRACE asks for, so that
 *  kernels and transfers can be seen together. Does nothing where no trace is written. `name` is copied; it is
 *  UTF-8, and what is not is shown as U+FFFD. Thread-safe. Not collective.
 *
 *  Returns CL_SUCCESS; CL_INVALID_EVENT if `event` is not valid; CL_INVALID_VALUE if `name` is NULL;
 *  CL_PROFILING_INFO_NOT_AVAILABLE if a trace is written and the event's queue has no CL_QUEUE_PROFILING_ENABLE. */
cl_int clTraceEvent(cl_event event, const char *name);

#ifdef __cplusplus
}
#endif

#endif
