/// MPI calls that refuse MPI_CL_MEM. MPI refuses an uncommitted datatype in most calls, but not in
/// all, and not as part of another datatype.

#include <algorithm>

#include <CL/cl_ext_dist.h>

#include "base/log.hpp"

using namespace cldist;

namespace {

// Before the library is ready, MPI_CL_MEM is MPI_DATATYPE_NULL. Programs may pass MPI_DATATYPE_NULL
// if the datatype does not matter.
bool refuses(MPI_Datatype datatype) {
    return datatype == MPI_CL_MEM && datatype != MPI_DATATYPE_NULL;
}

template <typename... Datatypes>
bool refuses_any(Datatypes... datatypes) {
    return (refuses(datatypes) || ...);
}

[[gnu::cold]] int refuse(const char *call) {
    log_warning(
        "{}: this call does not accept MPI_CL_MEM, which cannot be committed, freed or part of "
        "another datatype; CL/cl_ext_dist.h lists the calls that accept it",
        call);
    return MPI_ERR_TYPE;
}

// Each function calls the error handler that MPI would call.
[[gnu::cold]] int refuse_at_comm(const char *call, MPI_Comm comm) {
    const int code = refuse(call);
    PMPI_Comm_call_errhandler(comm, code);
    return code;
}
[[gnu::cold]] int refuse_at_window(const char *call, MPI_Win window) {
    const int code = refuse(call);
    PMPI_Win_call_errhandler(window, code);
    return code;
}
[[gnu::cold]] int refuse_at_file(const char *call, MPI_File file) {
    const int code = refuse(call);
    PMPI_File_call_errhandler(file, code);
    return code;
}

}  // namespace

#define CLDIST_NAME_OF_(name) #name
#define CLDIST_NAME_OF(name) CLDIST_NAME_OF_(name)
// Defines a call. `where` and `handle` are the object whose error handler is called. The datatypes
// follow.
#define CLDIST_REFUSING(call, parameters, arguments, where, handle, ...)      \
    int CLDIST_CALL(call) parameters {                                        \
        if (refuses_any(__VA_ARGS__))                                         \
            return refuse_##where(CLDIST_NAME_OF(CLDIST_CALL(call)), handle); \
        return CLDIST_MPI_CALL(call) arguments;                               \
    }

// The same with one more parameter.
#define CLDIST_LIST(...) __VA_ARGS__
#define CLDIST_WITH_STATUS(call, parameters, arguments, ...)             \
    CLDIST_REFUSING(call, (CLDIST_LIST parameters, MPI_Status * status), \
                    (CLDIST_LIST arguments, status), __VA_ARGS__)
#define CLDIST_WITH_REQUEST(call, parameters, arguments, ...)              \
    CLDIST_REFUSING(call, (CLDIST_LIST parameters, MPI_Request * request), \
                    (CLDIST_LIST arguments, request), __VA_ARGS__)
#ifdef CLDIST_MPI_4_CALLS
#define CLDIST_PERSISTENT(call, parameters, arguments, ...)            \
    CLDIST_WITH_REQUEST(call, (CLDIST_LIST parameters, MPI_Info info), \
                        (CLDIST_LIST arguments, info), __VA_ARGS__)
#else
#define CLDIST_PERSISTENT(call, parameters, arguments, ...)
#endif

// The forms of an operation.
#define CLDIST_COLLECTIVE(call, nonblocking, parameters, arguments, ...)                      \
    CLDIST_REFUSING(MPI_##call, parameters, arguments, at_comm, comm, __VA_ARGS__)            \
    CLDIST_WITH_REQUEST(MPI_##nonblocking, parameters, arguments, at_comm, comm, __VA_ARGS__) \
    CLDIST_PERSISTENT(MPI_##call##_init, parameters, arguments, at_comm, comm, __VA_ARGS__)
#define CLDIST_ONE_SIDED(call, requesting, parameters, arguments, ...)              \
    CLDIST_REFUSING(MPI_##call, parameters, arguments, at_window, win, __VA_ARGS__) \
    CLDIST_WITH_REQUEST(MPI_##requesting, parameters, arguments, at_window, win, __VA_ARGS__)

// Calls with the same parameters. `form` is one of the macros above.
#define CLDIST_SEND(form, call)                                                          \
    form(MPI_##call,                                                                     \
         (const void *buf, CLDIST_COUNT count, MPI_Datatype datatype, int dest, int tag, \
          MPI_Comm comm),                                                                \
         (buf, count, datatype, dest, tag, comm), at_comm, comm, datatype)
#define CLDIST_EQUAL_PARTS(call, nonblocking)                                               \
    CLDIST_COLLECTIVE(                                                                      \
        call, nonblocking,                                                                  \
        (const void *sendbuf, CLDIST_COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, \
         CLDIST_COUNT recvcount, MPI_Datatype recvtype, MPI_Comm comm),                     \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm), sendtype, recvtype)
#define CLDIST_ALLGATHERV(call, nonblocking)                                                       \
    CLDIST_COLLECTIVE(call, nonblocking,                                                           \
                      (const void *sendbuf, CLDIST_COUNT sendcount, MPI_Datatype sendtype,         \
                       void *recvbuf, const CLDIST_COUNT recvcounts[],                             \
                       const CLDIST_DISPLACEMENT displs[], MPI_Datatype recvtype, MPI_Comm comm),  \
                      (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm), \
                      sendtype, recvtype)
#define CLDIST_ALLTOALLV(call, nonblocking)                                                     \
    CLDIST_COLLECTIVE(                                                                          \
        call, nonblocking,                                                                      \
        (const void *sendbuf, const CLDIST_COUNT sendcounts[],                                  \
         const CLDIST_DISPLACEMENT sdispls[], MPI_Datatype sendtype, void *recvbuf,             \
         const CLDIST_COUNT recvcounts[], const CLDIST_DISPLACEMENT rdispls[],                  \
         MPI_Datatype recvtype, MPI_Comm comm),                                                 \
        (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm), \
        sendtype, recvtype)
#define CLDIST_REDUCTION(call, nonblocking)                                    \
    CLDIST_COLLECTIVE(call, nonblocking,                                       \
                      (const void *sendbuf, void *recvbuf, CLDIST_COUNT count, \
                       MPI_Datatype datatype, MPI_Op op, MPI_Comm comm),       \
                      (sendbuf, recvbuf, count, datatype, op, comm), datatype)
#define CLDIST_FILE_AT(form, call, memory)                                                         \
    form(                                                                                          \
        MPI_File_##call,                                                                           \
        (MPI_File fh, MPI_Offset offset, memory * buf, CLDIST_COUNT count, MPI_Datatype datatype), \
        (fh, offset, buf, count, datatype), at_file, fh, datatype)
#define CLDIST_FILE(form, call, memory)                                                           \
    form(MPI_File_##call, (MPI_File fh, memory * buf, CLDIST_COUNT count, MPI_Datatype datatype), \
         (fh, buf, count, datatype), at_file, fh, datatype)

extern "C" {

#define CLDIST_COUNT int
#define CLDIST_DISPLACEMENT int
#define CLDIST_EXTENT MPI_Aint
#define CLDIST_CALL(name) name
#define CLDIST_MPI_CALL(name) P##name
#include "api/mpi_refusals.inc"

#ifdef CLDIST_MPI_4_CALLS
CLDIST_REFUSING(MPI_Psend_init,
                (const void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest,
                 int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request),
                (buf, partitions, count, datatype, dest, tag, comm, info, request), at_comm, comm,
                datatype)
CLDIST_REFUSING(MPI_Precv_init,
                (void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest,
                 int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request),
                (buf, partitions, count, datatype, dest, tag, comm, info, request), at_comm, comm,
                datatype)
#endif
CLDIST_REFUSING(MPI_Fetch_and_op,
                (const void *origin_addr, void *result_addr, MPI_Datatype datatype, int target_rank,
                 MPI_Aint target_disp, MPI_Op op, MPI_Win win),
                (origin_addr, result_addr, datatype, target_rank, target_disp, op, win), at_window,
                win, datatype)
CLDIST_REFUSING(MPI_Compare_and_swap,
                (const void *origin_addr, const void *compare_addr, void *result_addr,
                 MPI_Datatype datatype, int target_rank, MPI_Aint target_disp, MPI_Win win),
                (origin_addr, compare_addr, result_addr, datatype, target_rank, target_disp, win),
                at_window, win, datatype)
CLDIST_REFUSING(MPI_File_set_view,
                (MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype,
                 const char *datarep, MPI_Info info),
                (fh, disp, etype, filetype, datarep, info), at_file, fh, etype, filetype)
CLDIST_REFUSING(MPI_Type_dup, (MPI_Datatype oldtype, MPI_Datatype *newtype), (oldtype, newtype),
                at_comm, MPI_COMM_WORLD, oldtype)
CLDIST_REFUSING(MPI_Type_commit, (MPI_Datatype * datatype), (datatype), at_comm, MPI_COMM_WORLD,
                *datatype)
CLDIST_REFUSING(MPI_Type_free, (MPI_Datatype * datatype), (datatype), at_comm, MPI_COMM_WORLD,
                *datatype)

#ifdef CLDIST_MPI_LARGE_COUNTS
#undef CLDIST_COUNT
#undef CLDIST_DISPLACEMENT
#undef CLDIST_EXTENT
#undef CLDIST_CALL
#undef CLDIST_MPI_CALL
#define CLDIST_COUNT MPI_Count
#define CLDIST_DISPLACEMENT MPI_Aint
#define CLDIST_EXTENT MPI_Count
#define CLDIST_CALL(name) name##_c
#define CLDIST_MPI_CALL(name) P##name##_c
#include "api/mpi_refusals.inc"
#endif

}  // extern "C"
