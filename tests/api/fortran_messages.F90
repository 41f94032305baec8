! Messages, a reduction, a request and errors through the module `cldist`, with the handles of mpi_f08, or with those of mpi
! if WITH_MPI is defined.
module opencl
    use, intrinsic :: iso_c_binding
    implicit none
    integer(c_int), parameter :: CL_TRUE = 1, CL_FALSE = 0, CL_SUCCESS = 0
    integer(c_int64_t), parameter :: CL_DEVICE_TYPE_ALL = int(z'FFFFFFFF', c_int64_t), CL_MEM_READ_WRITE = 1
    interface
        function clCreateContext(properties, count, devices, notify, user_data, error) &
            bind(c, name="clCreateContext")
            import
            type(c_ptr), value :: properties, notify, user_data
            integer(c_int), value :: count
            integer(c_intptr_t), intent(in) :: devices(*)
            integer(c_int), intent(out) :: error
            integer(c_intptr_t) :: clCreateContext
        end function
        function clCreateCommandQueue(context, device, properties, error) &
            bind(c, name="clCreateCommandQueue")
            import
            integer(c_intptr_t), value :: context, device
            integer(c_int64_t), value :: properties
            integer(c_int), intent(out) :: error
            integer(c_intptr_t) :: clCreateCommandQueue
        end function
        function clCreateBuffer(context, flags, size, host, error) &
            bind(c, name="clCreateBuffer")
            import
            integer(c_intptr_t), value :: context
            integer(c_int64_t), value :: flags
            integer(c_size_t), value :: size
            type(c_ptr), value :: host
            integer(c_int), intent(out) :: error
            integer(c_intptr_t) :: clCreateBuffer
        end function
        function clEnqueueWriteBuffer(queue, buffer, blocking, offset, size, data, count, list, event) &
            bind(c, name="clEnqueueWriteBuffer")
            import
            integer(c_intptr_t), value :: queue, buffer
            integer(c_int), value :: blocking, count
            integer(c_size_t), value :: offset, size
            type(c_ptr), value :: data, list, event
            integer(c_int) :: clEnqueueWriteBuffer
        end function
        function clEnqueueReadBuffer(queue, buffer, blocking, offset, size, data, count, list, event) &
            bind(c, name="clEnqueueReadBuffer")
            import
            integer(c_intptr_t), value :: queue, buffer
            integer(c_int), value :: blocking, count
            integer(c_size_t), value :: offset, size
            type(c_ptr), value :: data
            integer(c_intptr_t), intent(in), optional :: list(*)
            type(c_ptr), value :: event
            integer(c_int) :: clEnqueueReadBuffer
        end function
    end interface
end module

program fortran_messages
    use, intrinsic :: iso_c_binding
    use opencl
    use cldist
#ifdef WITH_MPI
    use mpi
#else
    use mpi_f08
#endif
    implicit none
    integer, parameter :: n = 1000
    integer(c_size_t), parameter :: bytes = 4 * n, nothing = 0
    integer :: rank, ranks, other, ierror
    integer(c_int) :: error
    integer(c_intptr_t) :: device, context, queue, buffer, sums, received, summed, from_request
    real(c_float), target :: values(n), sent(n)
    integer(c_size_t), target :: moved
    character(:), allocatable :: cause
#ifdef WITH_MPI
    integer :: comm, request
    integer :: file
#else
    type(MPI_Comm) :: comm
    type(MPI_Request) :: request
    type(MPI_File) :: file
#endif

    call MPI_Init(ierror)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
    call MPI_Comm_rank(comm, rank, ierror)
    call MPI_Comm_size(comm, ranks, ierror)
    other = ieor(rank, 1)
    call expect("clDistInit", clDistInit(comm), CL_SUCCESS)
    call expect("clDistLocalDevice", clDistLocalDevice(comm, 0_c_intptr_t, CL_DEVICE_TYPE_ALL, device), CL_SUCCESS)
    context = clCreateContext(c_null_ptr, 1, [device], c_null_ptr, c_null_ptr, error)
    call expect("clCreateContext", error, CL_SUCCESS)
    queue = clCreateCommandQueue(context, device, 0_c_int64_t, error)
    buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 2 * bytes, c_null_ptr, error)
    sums = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, c_null_ptr, error)
    values = rank + 1
    error = clEnqueueWriteBuffer(queue, buffer, CL_TRUE, nothing, bytes, c_loc(values), 0, c_null_ptr, c_null_ptr)

    ! Sends the buffer's first part to the second part of the other process's buffer, and adds up the second
    ! parts of both processes in a third part.
    call expect("send and receive", clEnqueueSendrecvBuffer(queue, buffer, CL_FALSE, nothing, bytes, other, 7, buffer, bytes, &
        bytes, other, 7, comm, 0, event=received), CL_SUCCESS)
    call expect("all-reduce", clEnqueueAllreduceBufferMPI(queue, buffer, CL_FALSE, bytes, sums, nothing, &
        int(n, c_size_t), MPI_REAL, MPI_SUM, comm, 1, [received], summed), CL_SUCCESS)
    call expect("read", clEnqueueReadBuffer(queue, buffer, CL_TRUE, bytes, bytes, c_loc(values), 1, [received], &
        c_null_ptr), CL_SUCCESS)
    if (any(values /= other + 1)) call fail("the message is wrong")
    call expect("read of the sum", clEnqueueReadBuffer(queue, sums, CL_TRUE, nothing, bytes, c_loc(values), 1, [summed], &
        c_null_ptr), CL_SUCCESS)
    if (any(values /= ranks * (ranks + 1) / 2)) call fail("the sum is wrong")
    call expect("clGetTransferInfo", clGetTransferInfo(received, CL_TRANSFER_BYTES, c_sizeof(moved), c_loc(moved)), CL_SUCCESS)
    if (moved /= bytes) call fail("the size is wrong")

    call expect("a request of an event", clCreateMPIRequestFromEvent(summed, request), CL_SUCCESS)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    sent = 4
    call MPI_Irecv(values, n, MPI_REAL, other, 8, comm, request, ierror)
    from_request = clCreateEventFromMPIRequest(context, request, error)
    call expect("an event of a request", error, CL_SUCCESS)
    call MPI_Send(sent, n, MPI_REAL, other, 8, comm, ierror)
    call expect("read behind it", clEnqueueReadBuffer(queue, buffer, CL_TRUE, nothing, nothing + 4, c_loc(moved), 1, &
        [from_request], c_null_ptr), CL_SUCCESS)
    if (any(values /= 4)) call fail("the message of the request is wrong")
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)

    ! A file, at a different offset for each process.
    call MPI_File_open(comm, "fortran-messages.tmp", MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, &
        MPI_INFO_NULL, file, ierror)
    call expect("write", clEnqueueReadBufferToMPIFileAll(queue, buffer, CL_TRUE, nothing, bytes, file, rank * bytes, 0), &
        CL_SUCCESS)
    call MPI_File_sync(file, ierror)
    call MPI_Barrier(comm, ierror)
    call MPI_File_sync(file, ierror)
    call MPI_File_read_at_all(file, other * int(bytes, MPI_OFFSET_KIND), values, n, MPI_REAL, MPI_STATUS_IGNORE, ierror)
    if (any(values /= other + 1)) call fail("the file is wrong")
    call MPI_File_close(file, ierror)

    ! A plain MPI call whose peer is a command.
    if (rank == 0) then
        values = 5
        call MPI_Send(values, int(bytes), mpi_cl_mem_type(), 1, 9, comm, ierror)
    else if (rank == 1) then
        call expect("receive from MPI", clEnqueueRecvBuffer(queue, buffer, CL_TRUE, nothing, bytes, 0, 9, comm, 0), CL_SUCCESS)
        call expect("read of it", clEnqueueReadBuffer(queue, buffer, CL_TRUE, nothing, bytes, c_loc(values), 0, &
            event=c_null_ptr), CL_SUCCESS)
        if (any(values /= 5)) call fail("the message of MPI_Send is wrong")
    end if

    error = clEnqueueSendBuffer(queue, buffer, CL_TRUE, nothing, bytes, ranks, 7, comm, 0)
    call expect("a wrong rank", error, CL_INVALID_RANK)
    if (clDistErrorName(error) /= "CL_INVALID_RANK") call fail("the name of the error is wrong")
    cause = clDistLastErrorMessage()
    if (index(cause, "rank") == 0) call fail("the cause is " // cause)
    call MPI_Finalize(ierror)

contains
    subroutine fail(what)
        character(*), intent(in) :: what
        print '(a,i0,2a)', "FAILED: rank ", rank, ": ", what
        call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
    end subroutine
    subroutine expect(what, code, wanted)
        character(*), intent(in) :: what
        integer(c_int), intent(in) :: code, wanted
        if (code /= wanted) call fail(what // " returned " // clDistErrorName(code) // ": " // clDistLastErrorMessage())
    end subroutine
#ifdef WITH_MPI
    integer function mpi_cl_mem_type()
        use mpi_f08, only: MPI_Datatype
        type(MPI_Datatype) :: datatype
        datatype = MPI_CL_MEM()
        mpi_cl_mem_type = datatype%mpi_val
    end function
#else
    type(MPI_Datatype) function mpi_cl_mem_type()
        mpi_cl_mem_type = MPI_CL_MEM()
    end function
#endif
end program
