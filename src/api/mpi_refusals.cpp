/// MPI calls that refuse MPI_CL_MEM. MPI refuses an uncommitted datatype in most calls, but not in
/// all, and not as part of another datatype.

#include <algorithm>
#include <initializer_list>

#include <CL/cl_ext_dist.h>
#include <fmt/format.h>

#include "base/log.hpp"
#include "base/status.hpp"

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
#define CLDIST_REFUSING(call, parameters, arguments, where, handle, ...)      \
    int CLDIST_CALL(call) parameters {                                        \
        if (refuses_any(__VA_ARGS__))                                         \
            return refuse_##where(CLDIST_NAME_OF(CLDIST_CALL(call)), handle); \
        return CLDIST_MPI_CALL(call) arguments;                               \
    }

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
