! Commands in a program whose main program is written in Fortran; then MPI_CL_MEM in Fortran's own calls.
! WITH_MPIF_H, WITH_MPI or WITH_MPI_F08 chooses the binding.
program fortran_start
#if defined(WITH_MPI_F08)
    use mpi_f08
#elif defined(WITH_MPI)
    use mpi
#endif
    implicit none
#if defined(WITH_MPIF_H)
    include 'mpif.h'
#endif
    integer, external :: exchange_in_c, cl_mem
    integer :: ierror, level, rank, ranks, mine(4), received(4)
#if defined(WITH_MPI_F08)
    type(MPI_Datatype) :: datatype

    call MPI_Init_thread(MPI_THREAD_FUNNELED, level, ierror)
    if (exchange_in_c(MPI_COMM_WORLD%MPI_VAL) /= 0) stop 1
    datatype%MPI_VAL = cl_mem()
#else
    integer :: datatype

    call MPI_Init(ierror)
    if (exchange_in_c(MPI_COMM_WORLD) /= 0) stop 1
    datatype = cl_mem()
#endif
    call MPI_Query_thread(level, ierror)
    if (level /= MPI_THREAD_MULTIPLE) stop 2
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
    mine = rank
    received = -1
    call MPI_Sendrecv(mine, 16, datatype, modulo(rank + 1, ranks), 4, received, 16, datatype, modulo(rank - 1, ranks), 4, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    if (ierror /= MPI_SUCCESS .or. any(received /= modulo(rank - 1, ranks))) stop 3
    call MPI_Finalize(ierror)
end program
