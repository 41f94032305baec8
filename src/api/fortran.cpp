/// Conversions of MPI handles for the Fortran module `cldist` (tools/fortran_module.py). In some
/// MPI libraries MPI_Comm_f2c and the like are macros, which Fortran can't call.

#include <CL/cl_ext_dist.h>

extern "C" {

MPI_Comm cldist_comm_from_fortran(MPI_Fint comm) { return MPI_Comm_f2c(comm); }
MPI_Datatype cldist_type_from_fortran(MPI_Fint type) { return MPI_Type_f2c(type); }
MPI_Op cldist_op_from_fortran(MPI_Fint op) { return MPI_Op_f2c(op); }
MPI_File cldist_file_from_fortran(MPI_Fint file) { return MPI_File_f2c(file); }
MPI_Request cldist_request_from_fortran(MPI_Fint request) { return MPI_Request_f2c(request); }
MPI_Fint cldist_request_to_fortran(MPI_Request request) { return MPI_Request_c2f(request); }
MPI_Fint cldist_mpi_cl_mem_to_fortran(void) { return MPI_Type_c2f(MPI_CL_MEM); }

}  // extern "C"
