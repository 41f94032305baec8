/** @file
 *  File accesses as OpenCL commands, transfer information and error codes, without MPI.
 *
 *  This header and libcldist-file (pkg-config module cldist-file) are for programs that do not use
 *  MPI. The header does not include mpi.h, and the library does not load an MPI library.
 *  CL/cl_ext_dist.h includes this header, and libcldist exports the same functions and uses the
 *  same code. A program that is linked with libcldist needs no libcldist-file.
 *
 *      cc program.c $(pkg-config --cflags --libs cldist-file)
 *
 *  The rules of CL/cl_ext_dist.h for commands, callbacks and processes that fork also apply here.
 *  The header is valid C99 and C++. */
#ifndef CL_EXT_FILE_H
#define CL_EXT_FILE_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup cldist_version Version
 *  The version of this header.
 *  @{ */
#define CLDIST_VERSION_MAJOR 0 /**< Major version. */
#define CLDIST_VERSION_MINOR 1 /**< Minor version. */
#define CLDIST_VERSION_PATCH 0 /**< Patch level. */
/** @} */

/** @defgroup cldist_errors Error codes
 *  Error codes that calls return and that events have as their status, in addition to OpenCL's
 *  codes.
 *
 *  Some platforms replace the status of a failed event with another negative number.
 *  clGetTransferInfo(CL_TRANSFER_STATUS) always returns the original code.
 *
 *  Khronos assigns error codes of extensions downwards from -1000; the lowest today is -1142. The
 *  codes of this library begin at -1200.
 *  @{ */

/** MPI is not initialised, or MPI_Finalize has begun. */
#define CL_MPI_NOT_INITIALIZED -1200
/** MPI runs at a thread level below MPI_THREAD_MULTIPLE. */
#define CL_MPI_THREAD_LEVEL_TOO_LOW -1201
/** The communicator is MPI_COMM_NULL or was freed, or it has a process outside MPI_COMM_WORLD and
 *  #clDistInit was not called with it. */
#define CL_INVALID_COMMUNICATOR -1202
/** The rank is not a rank of the communicator. A send also accepts MPI_PROC_NULL; a receive also
 *  accepts MPI_PROC_NULL and MPI_ANY_SOURCE. */
#define CL_INVALID_RANK -1203
/** The tag is negative or exceeds MPI_TAG_UB. A receive also accepts MPI_ANY_TAG. */
#define CL_INVALID_TAG -1204
/** The message was longer than the receive. The message was received and discarded; the buffer is
 *  unchanged. */
#define CL_MESSAGE_TRUNCATED -1205
/** The receive matched a message that no cldist command sent (a plain MPI_Send), on a communicator
 *  without cldist_wire=plain. The message was received and discarded. */
#define CL_MESSAGE_NOT_RECOGNIZED -1206
/** The wait list or the device of the peer, or of a process of the collective, failed. */
#define CL_PEER_TRANSFER_FAILED -1207
/** MPI reported an error. CL_TRANSFER_MPI_ERROR returns the MPI error code. */
#define CL_MPI_ERROR -1208
/** MPI was finalised, or the program ended, before the command completed. */
#define CL_TRANSFER_ABANDONED -1209
/** MPI_Cancel ended the operation. No message was sent or received. */
#define CL_TRANSFER_CANCELLED -1210
/** The operating system failed to read or write the file. CL_TRANSFER_ERRNO returns errno. */
#define CL_FILE_ERROR -1211
/** The file ended before the requested number of bytes was read. */
#define CL_END_OF_FILE -1212
/** The MPI datatype is MPI_DATATYPE_NULL, is empty or has gaps. Reductions accept predefined
 *  datatypes only. */
#define CL_INVALID_MPI_DATATYPE -1213
/** The operator of a reduction is not a predefined MPI operator. */
#define CL_INVALID_MPI_OP -1214
/** The processes' collective commands on a communicator differ in call, root, size, datatype,
 *  operator or order. */
#define CL_COLLECTIVE_MISMATCH -1215

/** Returns the name of a code of OpenCL or of this library: "CL_SUCCESS", "CL_INVALID_RANK".
 *
 *  The result is never NULL. It is "unknown error code" for any other number. The text is static
 *  and must not be freed. Thread-safe. Not collective. Works without MPI. */
const char *clDistErrorName(cl_int code);

/** Returns the cause of the last failed call of this library in the calling thread, as in the log:
 *  which value was wrong and what was expected.
 *
 *  The result is never NULL. It is "" if no call failed. It stays valid until the thread's next
 *  call of this library. Use #clGetTransferInfo with CL_TRANSFER_ERROR_MESSAGE for a command that
 *  failed later. It does not cover the calls of libcldist-collectives. Not collective. Works
 * without MPI. */
const char *clDistLastErrorMessage(void);
/** @} */

/** @defgroup cldist_files Files
 *  Transfers between device buffers and streams or file descriptors.
 *
 *  @par Names
 *  Names refer to the buffer, as in clDataTransfer: ReadBufferToFile reads the buffer and writes
 *  the file; WriteBufferFromFile reads the file and writes the buffer.
 *
 *  @par Order
 *  A command starts when the events of its wait list are complete and, on an in-order queue, the
 *  earlier commands are complete. It does not access the file earlier. On an out-of-order queue no
 *  other command waits for it. Each command's description states its order relative to other
 *  commands on the same file.
 *
 *  @par Blocking, event, lifetime
 *  As for @ref cldist_messages. Threads of the library access the file for non-blocking commands.
 *  The file must stay open until the command has ended. Kernels and messages continue meanwhile,
 *  and large transfers overlap file accesses with device copies.
 *
 *  @par MPI
 *  Only the commands for MPI_File need MPI. The other commands work before MPI_Init, after
 *  MPI_Finalize and without MPI. When the program exits, it waits until its commands have ended. If
 *  nothing progresses for CLDIST_STALL_SECONDS, it lists them instead.
 *
 *  @par Failure
 *  A command that fails has transferred the bytes before the failure, from the first on and without
 *  a gap. CL_TRANSFER_BYTES returns their number. Beyond them, neither the file nor the buffer is
 *  changed. Exception: if the system cannot read bytes in the middle of a file, later bytes of the
 *  buffer may have changed. The event then has one of these codes:
 *  - CL_END_OF_FILE: the file ended early.
 *  - CL_FILE_ERROR: the system reported an error, such as a full disk, a file that was opened for
 *    the other direction, a closed descriptor, or a pipe without a reader (SIGPIPE and SIGXFSZ are
 *    not raised). CL_TRANSFER_ERRNO returns errno.
 *
 *  A blocking call returns the code and sets errno. A successful call leaves errno unchanged.
 *
 *  @par Threads
 *  Thread-safe. Not collective, except the commands whose names end in All.
 *
 *  @par Errors
 *  Checked in this order.
 *  @retval CL_INVALID_COMMAND_QUEUE as for @ref cldist_messages. For this and the next six codes, a
 *          buffer that is written to a file counts as a buffer that is sent.
 *  @retval CL_INVALID_MEM_OBJECT as for @ref cldist_messages.
 *  @retval CL_INVALID_CONTEXT as for @ref cldist_messages.
 *  @retval CL_INVALID_VALUE The range exceeds the buffer.
 *  @retval CL_INVALID_EVENT_WAIT_LIST as for @ref cldist_messages.
 *  @retval CL_MISALIGNED_SUB_BUFFER_OFFSET as for @ref cldist_messages.
 *  @retval CL_INVALID_OPERATION as for @ref cldist_messages.
 *  @retval CL_INVALID_VALUE `fp` is NULL, or the descriptor or the file offset is negative.
 *  @retval CL_OUT_OF_RESOURCES as for clEnqueueReadBuffer.
 *  @retval CL_OUT_OF_HOST_MEMORY as for clEnqueueReadBuffer.
 *  @retval CL_MEM_OBJECT_ALLOCATION_FAILURE as for clEnqueueReadBuffer.
 *  @retval CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST `blocking` is CL_TRUE and the wait list
 *          failed.
 *  @{ */

/** Enqueues a command that writes `size` bytes of `buffer`, starting at byte `offset`, to the
 *  stream `fp`.
 *
 *  From clDataTransfer, section 4. The stream's position, buffering and indicators are as if fwrite
 *  of `size` bytes had been called when the command ran. Bytes may therefore still be in the
 *  stream's buffer when the command has ended. Pipes, FIFOs and sockets are supported.
 *
 *  Commands on one stream run one after the other, in the order in which they start. An in-order
 *  queue or events determine this order. Commands without wait list on one out-of-order queue start
 *  in the order in which they are enqueued. A running command holds the stream's lock (flockfile),
 *  so calls of other threads on the stream wait until it has ended.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_files. */
cl_int clEnqueueReadBufferToStdioFile(cl_command_queue command_queue, cl_mem buffer,
                                      cl_bool blocking, size_t offset, size_t size, FILE *fp,
                                      cl_uint num_events_in_wait_list,
                                      const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reads `size` bytes from the stream `fp` into `buffer`, starting at byte
 *  `offset`.
 *
 *  From clDataTransfer, section 4. It behaves as if fread of `size` bytes had been called when the
 *  command ran. If the stream ends early, the bytes that were read are in the buffer, and feof(fp)
 *  is true. The order is as for #clEnqueueReadBufferToStdioFile.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_files. */
cl_int clEnqueueWriteBufferFromStdioFile(cl_command_queue command_queue, cl_mem buffer,
                                         cl_bool blocking, size_t offset, size_t size, FILE *fp,
                                         cl_uint num_events_in_wait_list,
                                         const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that writes `size` bytes of `buffer`, starting at byte `offset`, to the file
 *  of descriptor `fd`, starting at byte `file_offset`.
 *
 *  Counterpart of pwrite: the file position is neither used nor changed, and a file without
 *  positions (a pipe) fails with ESPIPE. If the descriptor was opened with O_APPEND, the bytes are
 *  appended to the file whatever `file_offset` is, as Linux's pwrite does. Commands on one file run
 *  concurrently, in any order, unless queues or events order them.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_files. */
cl_int clEnqueueReadBufferToFile(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                                 size_t offset, size_t size, int fd, off_t file_offset,
                                 cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                 cl_event *event);

/** Enqueues a command that reads `size` bytes of the file of descriptor `fd`, starting at byte
 *  `file_offset`, into `buffer`, starting at byte `offset`.
 *
 *  Counterpart of pread; otherwise it behaves as #clEnqueueReadBufferToFile. Holes read as zeros.
 *  Several threads share a large read.
 *
 *  @retval CL_SUCCESS The command is enqueued; with `blocking` CL_TRUE, it is complete. Errors: see
 *          @ref cldist_files. */
cl_int clEnqueueWriteBufferFromFile(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                                    size_t offset, size_t size, int fd, off_t file_offset,
                                    cl_uint num_events_in_wait_list,
                                    const cl_event *event_wait_list, cl_event *event);
/** @} */

/** @defgroup cldist_info Transfer information
 *  Queries of transfers and their stages, and kernels in traces.
 *  @{ */

/** The type of the query names of #clGetTransferInfo. */
typedef cl_uint cl_transfer_info;

/** cl_int: CL_QUEUED, CL_SUBMITTED, CL_RUNNING, CL_COMPLETE or the error. */
#define CL_TRANSFER_STATUS 0x13A0
/** size_t: bytes transferred so far; for a Sendrecv, bytes received. */
#define CL_TRANSFER_BYTES 0x13A1
/** int: rank of the sender, or the requested one until a message matches; MPI_PROC_NULL if nothing
 *  is received. */
#define CL_TRANSFER_SOURCE 0x13A2
/** int: rank of the receiver; MPI_PROC_NULL if nothing is sent. */
#define CL_TRANSFER_DESTINATION 0x13A3
/** int: tag of the received message; for a send, tag of the sent message. */
#define CL_TRANSFER_TAG 0x13A4
/** char[]: a name of CLDIST_PATH, such as "mapped"; "" until it is chosen. */
#define CL_TRANSFER_PATH 0x13A5
/** size_t: bytes per block of the message; 0 until it is chosen. */
#define CL_TRANSFER_BLOCK_SIZE 0x13A6
/** cl_uint: number of blocks in flight at the same time; 0 until it is chosen. */
#define CL_TRANSFER_DEPTH 0x13A7
/** int: MPI error code if the status is CL_MPI_ERROR, otherwise MPI_SUCCESS. */
#define CL_TRANSFER_MPI_ERROR 0x13A8
/** char[]: description of the failure; "" if nothing failed. */
#define CL_TRANSFER_ERROR_MESSAGE 0x13A9
/** Another name of CL_TRANSFER_ERROR_MESSAGE. */
#define CL_DIST_ERROR_STRING CL_TRANSFER_ERROR_MESSAGE
/** cl_transfer_stage[]: the stages that took place, in the order of CL_STAGE_*. */
#define CL_TRANSFER_STAGES 0x13AA
/** int: errno if the status is CL_FILE_ERROR (EIO if it was 0), otherwise 0. */
#define CL_TRANSFER_ERRNO 0x13AB
/** cl_bool: whether the file access bypassed the system's page cache. */
#define CL_TRANSFER_DIRECT_IO 0x13AC

/** From the call until the wait list and the queue allow the command to start. */
#define CL_STAGE_WAIT 0
/** A receive waits for its message. */
#define CL_STAGE_MATCH 1
/** Device copies, on the library's or the command's queue. */
#define CL_STAGE_DEVICE 2
/** MPI transfers bytes. */
#define CL_STAGE_MESSAGE 3
/** The file is read or written. */
#define CL_STAGE_FILE 4

/** A stage of a transfer. Stages of different blocks overlap: `start` is the start of the first
 *  block, `end` the end of the last. Times are in nanoseconds of the host's CLOCK_MONOTONIC. */
typedef struct cl_transfer_stage {
    cl_uint stage;  /**< CL_STAGE_* */
    cl_uint blocks; /**< Number of blocks in this stage. */
    cl_ulong start; /**< Start of the first block. */
    cl_ulong end;   /**< End of the last block. */
} cl_transfer_stage;

/** Returns the parameters and the result of the command of `event`.
 *
 *  The call works while the command runs and afterwards, as long as the caller holds `event`. Of
 *  more than 65536 held events, it forgets the oldest that have ended. In a callback, the end of
 *  another command may be missing although that command's event is complete.
 *  Thread-safe. Not collective.
 *
 *  @retval CL_SUCCESS The value was returned.
 *  @retval CL_INVALID_EVENT No command of this library created `event`.
 *  @retval CL_INVALID_VALUE `param_name` is not one of the above, or `param_value` is not NULL and
 *          `param_value_size` is too small. */
cl_int clGetTransferInfo(cl_event event, cl_transfer_info param_name, size_t param_value_size,
                         void *param_value, size_t *param_value_size_ret);

/** Adds the command of `event` to the trace of CLDIST_TRACE under `name`. It may be any OpenCL
 *  command.
 *
 *  The trace then shows kernels and transfers together. Without a trace, the call does nothing.
 *  `name` is copied. It is UTF-8; invalid bytes are shown as U+FFFD. Thread-safe. Not collective.
 *
 *  In a program that is linked with libcldist and does not call this function, the trace shows the
 *  kernels in queues with CL_QUEUE_PROFILING_ENABLE under their names.
 *
 *  @retval CL_SUCCESS The command will be shown, or there is no trace.
 *  @retval CL_INVALID_EVENT `event` is not valid.
 *  @retval CL_INVALID_VALUE `name` is NULL.
 *  @retval CL_PROFILING_INFO_NOT_AVAILABLE A trace is written, and the event's queue lacks
 *          CL_QUEUE_PROFILING_ENABLE. */
cl_int clTraceEvent(cl_event event, const char *name);
/** @} */

#ifdef __cplusplus
}
#endif

#endif
