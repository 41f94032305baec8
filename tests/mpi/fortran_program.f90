! Plain MPI from Fortran, in a program linked with the library: a ping-pong.
program fortran_program
    implicit none
    include 'mpif.h'
    integer :: ierror, rank, i, value, count
    integer :: status(MPI_STATUS_SIZE)
    call MPI_Init(ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    value = 0
    do i = 1, 100
        if (rank == 0) then
            call MPI_Send(value, 1, MPI_INTEGER, 1, 7, MPI_COMM_WORLD, ierror)
            call MPI_Recv(value, 1, MPI_INTEGER, 1, 7, MPI_COMM_WORLD, status, ierror)
        else if (rank == 1) then
            call MPI_Probe(0, 7, MPI_COMM_WORLD, status, ierror)
            call MPI_Recv(value, 1, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, status, ierror)
            call MPI_Get_count(status, MPI_INTEGER, count, ierror)
            if (count /= 1) call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
            value = value + 1
            call MPI_Send(value, 1, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, ierror)
        end if
    end do
    if (rank == 0 .and. value /= 100) call MPI_Abort(MPI_COMM_WORLD, 2, ierror)
    call MPI_Finalize(ierror)
end program
