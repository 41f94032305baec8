"""Messages, collectives, requests and MPI files of the Python package, in two processes."""

import gc

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from mpi4py import MPI

import cldist

comm = MPI.COMM_WORLD
other = 1 - comm.rank
assert comm.size == 2
cldist.init()


def numbers(queue, shape, start=0, dtype=np.float32):
    return cla.to_device(queue, np.arange(start, start + np.prod(shape), dtype=dtype).reshape(shape))


def test_an_array_arrives_and_the_event_is_one_of_pyopencl(queue):
    array = numbers(queue, 1000, 5 if comm.rank == 0 else 0)
    event = cldist.send(queue, array, 1, tag=3) if comm.rank == 0 else cldist.recv(queue, array)
    assert isinstance(event, cl.Event)
    cldist.wait(event)
    info = cldist.transfer_info(event)
    assert (info.status, info.bytes, info.tag, info.error_message) == (0, 4000, 3, "")
    assert (info.source, info.destination) == ((MPI.PROC_NULL, 1) if comm.rank == 0 else (0, MPI.PROC_NULL))
    assert "message" in [stage.name for stage in info.stages]
    assert np.array_equal(array.get(), np.arange(5, 1005, dtype=np.float32))


def test_a_range_of_a_buffer_arrives_and_a_blocking_call_returns_none(queue, context):
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR,
                       hostbuf=np.full(100, comm.rank, np.uint8))
    part = cldist.Range(buffer, 10, 20)
    done = (cldist.send(queue, part, 1, blocking=True) if comm.rank == 0
            else cldist.recv(queue, part, 0, 0, blocking=True))
    assert done is None
    found = np.empty(100, np.uint8)
    cl.enqueue_copy(queue, found, buffer)
    assert list(np.nonzero(found == 0)[0]) == (list(range(100)) if comm.rank == 0 else list(range(10, 30)))


def test_commands_wait_for_kernels_and_kernels_for_commands(queue, context):
    double = cl.Program(context, "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }").build().twice
    mine, theirs = numbers(queue, 5000, comm.rank), cla.zeros(queue, 5000, np.float32)
    queue.finish()
    computed = double(queue, (5000,), None, mine.data)
    arrived = cldist.sendrecv(queue, mine, other, theirs, other, wait_for=[computed])
    last = double(queue, (5000,), None, theirs.data, wait_for=[arrived])
    last.wait()
    assert np.array_equal(theirs.get(), 4 * np.arange(other, other + 5000, dtype=np.float32))


def test_columns_of_an_array_are_exchanged_and_the_rest_is_unchanged(queue):
    field = numbers(queue, (40, 50), 10000 * comm.rank)
    expected = field.get()
    peers = expected - 10000 * comm.rank + 10000 * other
    expected[1:-1, 49], expected[1:-1, 0] = peers[1:-1, 1], peers[1:-1, 48]
    cldist.wait(cldist.sendrecv(queue, field[1:-1, 1], other, field[1:-1, 49], other, send_tag=1, recv_tag=1),
                cldist.sendrecv(queue, field[1:-1, 48], other, field[1:-1, 0], other, send_tag=2, recv_tag=2))
    assert np.array_equal(field.get(), expected)


@pytest.mark.parametrize("part", [np.s_[1:3, 2:5, 3:9], np.s_[:, :, 4], np.s_[:, 2, :], np.s_[1, :, 1:3], np.s_[2],
                                  np.s_[1:2, 3:4, 5:6]])
def test_a_slice_of_a_3d_array_arrives_in_the_same_slice(queue, part):
    box = numbers(queue, (4, 6, 10), 1000 * comm.rank)
    expected = box.get()
    if comm.rank == 0:
        cldist.wait(cldist.send(queue, box[part], 1))
    else:
        expected[part] -= 1000
        cldist.wait(cldist.recv(queue, box[part], 0))
    assert np.array_equal(box.get(), expected)


def test_a_rect_of_a_buffer_arrives_in_a_contiguous_array(queue):
    field = numbers(queue, (10, 16), dtype=np.int32)
    if comm.rank == 0:
        cldist.wait(cldist.send(queue, cldist.Rect(field.data, (8, 2, 0), (4, 5, 1), row_pitch=64), 1))
    else:
        column = cla.zeros(queue, 5, np.int32)
        cldist.wait(cldist.recv(queue, column, 0))
        assert list(column.get()) == [34, 50, 66, 82, 98]


def test_arrays_that_are_no_regions_are_refused(queue):
    array = numbers(queue, (8, 8, 8, 8))
    with pytest.raises(ValueError, match="not a region"):
        cldist.send(queue, array[::2, ::2, ::2, ::2], other)
    with pytest.raises(ValueError, match="not contiguous"):
        cldist.bcast(queue, array[:, 0])


def test_errors_of_a_call_have_a_name_and_a_cause(queue):
    array = numbers(queue, 10)
    with pytest.raises(cldist.Error, match="CL_INVALID_RANK") as raised:
        cldist.send(queue, array, 2)
    assert (raised.value.code, raised.value.name) == (-1203, "CL_INVALID_RANK")
    assert "destination 2 is not a rank" in raised.value.cause
    with pytest.raises(cldist.Error, match="CL_INVALID_VALUE.*exceed"):
        cldist.send(queue, cldist.Range(array.data, 30, 20), other)
    with pytest.raises(cldist.Error, match="CL_INVALID_COMMUNICATOR"):
        cldist.init(MPI.COMM_NULL)
    assert cldist.error_name(-1205) == "CL_MESSAGE_TRUNCATED"
    assert cldist.error_name(0) == "CL_SUCCESS"


def test_a_failed_blocking_call_raises_its_cause(queue):
    array = numbers(queue, 10)
    if comm.rank == 0:
        cldist.send(queue, array, 1, blocking=True)
    else:
        with pytest.raises(cldist.Error, match="CL_MESSAGE_TRUNCATED.*40.*20"):
            cldist.recv(queue, array[:5], 0, blocking=True)


def test_a_failed_command_raises_its_cause(queue):
    array = numbers(queue, 10)
    if comm.rank == 0:
        cldist.wait(cldist.send(queue, array, 1))
    else:
        with pytest.raises(cldist.Error, match="CL_MESSAGE_TRUNCATED.*40.*20"):
            cldist.wait(cldist.recv(queue, array[:5], 0))


def test_what_is_in_flight_is_kept_alive(queue, context):
    gate = cl.UserEvent(context)
    if comm.rank == 0:
        pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(queue))
        array = cla.Array(queue, 1000, np.float32, allocator=pool)
        array.fill(7)
        queue.finish()
        messages = cl.CommandQueue(context)
        sent = cldist.send(messages, array, 1, wait_for=[gate])
        messages.flush()
        del array
        gc.collect()
        again = cla.Array(queue, 1000, np.float32, allocator=pool)  # would reuse memory that was returned to the pool
        again.fill(8)
        queue.finish()
        gate.set_status(cl.command_execution_status.COMPLETE)
        cldist.wait(sent)
    else:
        gate.set_status(cl.command_execution_status.COMPLETE)
        array = cla.zeros(queue, 1000, np.float32)
        cldist.recv(queue, array, 0, blocking=True)
        assert np.all(array.get() == 7)


def test_collectives_of_equal_parts(queue):
    mine = numbers(queue, 6, 10 * comm.rank, np.int32)
    host = [np.arange(10 * rank, 10 * rank + 6, dtype=np.int32) for rank in range(2)]
    target = cla.zeros(queue, 12, np.int32)
    cldist.wait(cldist.allgather(queue, mine, target))
    assert np.array_equal(target.get(), np.concatenate(host))
    target.fill(0)
    cldist.wait(cldist.gather(queue, mine, target if comm.rank == 1 else None, root=1))
    assert np.array_equal(target.get(), np.concatenate(host) if comm.rank == 1 else np.zeros(12))
    total = cla.zeros(queue, 6, np.int32)
    cldist.wait(cldist.allreduce(queue, mine, total))
    assert np.array_equal(total.get(), host[0] + host[1])
    cldist.wait(cldist.reduce(queue, mine, total if comm.rank == 0 else None, MPI.MAX))
    if comm.rank == 0:
        assert np.array_equal(total.get(), np.maximum(*host))
    part = cla.zeros(queue, 3, np.int32)
    cldist.wait(cldist.reduce_scatter(queue, mine, part))
    assert np.array_equal(part.get(), (host[0] + host[1])[3 * comm.rank:3 * comm.rank + 3])
    cldist.wait(cldist.scatter(queue, mine if comm.rank == 0 else None, part))
    assert np.array_equal(part.get(), host[0][3 * comm.rank:3 * comm.rank + 3])
    swapped = cla.zeros(queue, 6, np.int32)
    cldist.wait(cldist.alltoall(queue, mine, swapped))
    assert np.array_equal(swapped.get(), np.concatenate([h[3 * comm.rank:3 * comm.rank + 3] for h in host]))
    cldist.wait(cldist.bcast(queue, mine, root=1))
    assert np.array_equal(mine.get(), host[1])
    cldist.barrier(queue, blocking=True)


def test_collectives_of_unequal_parts(queue):
    counts = [2, 4]
    mine = numbers(queue, counts[comm.rank], 10 * comm.rank, np.int32)
    both = np.array([0, 1, 10, 11, 12, 13], np.int32)
    target = cla.zeros(queue, 6, np.int32)
    cldist.wait(cldist.allgather(queue, mine, target, counts))
    assert np.array_equal(target.get(), both)
    target.fill(0)
    cldist.wait(cldist.gather(queue, mine, target if comm.rank == 0 else None, 0, counts, [4, 0]))
    if comm.rank == 0:
        assert np.array_equal(target.get(), np.roll(both, -2))
    source = numbers(queue, 6, dtype=np.int32)
    cldist.wait(cldist.scatter(queue, source if comm.rank == 1 else None, mine, 1, counts))
    assert np.array_equal(mine.get(), [[0, 1], [2, 3, 4, 5]][comm.rank])
    part = cla.zeros(queue, counts[comm.rank], np.int32)
    cldist.wait(cldist.reduce_scatter(queue, source, part, counts=counts))
    assert np.array_equal(part.get(), [[0, 2], [4, 6, 8, 10]][comm.rank])
    received = cla.zeros(queue, 3, np.int32)
    cldist.wait(cldist.alltoall(queue, source, received if comm.rank == 0 else target, [1, 2] if comm.rank == 0 else [2, 4],
                                [1, 2] if comm.rank == 0 else [2, 4]))
    if comm.rank == 0:
        assert list(received.get()) == [0, 0, 1]


def test_collectives_in_place(queue):
    total = numbers(queue, 6, comm.rank)
    cldist.wait(cldist.allreduce(queue, None, total))
    assert np.array_equal(total.get(), 2 * np.arange(6) + 1)
    both = cla.zeros(queue, 4, np.int32)
    both[2 * comm.rank:2 * comm.rank + 2].fill(comm.rank + 1)
    queue.finish()
    cldist.wait(cldist.allgather(queue, None, both))
    assert list(both.get()) == [1, 1, 2, 2]


def test_a_wrong_number_of_elements_is_refused(queue):
    array = numbers(queue, 7)
    with pytest.raises(ValueError, match="equal parts"):
        cldist.alltoall(queue, array, array)
    with pytest.raises(ValueError, match="counts"):
        cldist.allgather(queue, array, array, [7])
    with pytest.raises(TypeError, match="no datatype"):
        cldist.bcast(queue, cla.zeros(queue, 4, np.float16))


def test_numbers_that_c_cannot_hold_are_refused(queue):
    array = numbers(queue, 10)
    for call in (lambda: cldist.send(queue, array, 2**32 + other), lambda: cldist.send(queue, array, other, 2**32),
                 lambda: cldist.recv(queue, array, 2**32 + other), lambda: cldist.recv(queue, array, other, -2**32),
                 lambda: cldist.bcast(queue, array, root=2**32), lambda: cldist.host_send(np.zeros(1), other, 2**31),
                 lambda: cldist.send(queue, cldist.Range(array.data, 2**64, 4), other),
                 lambda: cldist.send(queue, cldist.Rect(array.data, (2**64, 0, 0), (4, 2, 1)), other),
                 lambda: cldist.send(queue, cldist.Rect(array.data, (0, 0, 0), (4, 2, 1), 2**64 + 8), other),
                 lambda: cldist.allgather(queue, array, array, counts=[2**64 + 5, 5])):
        with pytest.raises(OverflowError):
            call()
    with pytest.raises(ValueError, match="three elements"):
        cldist.send(queue, cldist.Rect(array.data, (0, 0), (4, 2)), other)


def test_slices_with_odd_strides_are_refused(queue):
    for field in numbers(queue, (4, 9))[:, ::2], numbers(queue, (4, 11))[:, 0:8:2], numbers(queue, (3, 4, 5))[::2, ::2, ::2]:
        with pytest.raises(ValueError, match="stride of the slices"):
            cldist.send(queue, field, other)


def test_elements_in_foreign_byte_order_are_not_reduced(queue):
    foreign = cldist.Range(numbers(queue, 10).data, dtype=np.dtype(np.float32).newbyteorder())
    with pytest.raises(TypeError, match="no datatype for elements of >f4"):
        cldist.allreduce(queue, None, foreign)


def test_reductions_refuse_data_that_does_not_fit(queue):
    six, four = numbers(queue, 6, 0), numbers(queue, 4, 0)
    for call in (lambda: cldist.allreduce(queue, six, four), lambda: cldist.allreduce(queue, four, six),
                 lambda: cldist.reduce(queue, six, four),
                 lambda: cldist.allreduce(queue, six, cla.zeros(queue, 6, np.float64)),
                 lambda: cldist.reduce_scatter(queue, six, four, counts=[6]),
                 lambda: cldist.reduce_scatter(queue, six, four, counts=[6, 6, 6]),
                 lambda: cldist.reduce_scatter(queue, six, four, counts=[5, 2])):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(cldist.Error, match="CL_INVALID_MPI_OP"):
        cldist.allreduce(queue, six, six, MPI.OP_NULL)


def test_communicators_of_mpi4py_are_accepted(queue):
    copy = comm.Dup()
    array = numbers(queue, 10, comm.rank)
    cldist.wait(cldist.sendrecv(queue, array[:5], other, array[5:], other, comm=copy))
    assert np.array_equal(array.get()[5:], np.arange(other, other + 5))
    copy.Free()


def test_plain_messages_are_received_by_mpi4py(queue):
    copy = comm.Dup()
    cldist.set_wire(copy, "plain")
    array = numbers(queue, 10, 3)
    if comm.rank == 0:
        cldist.wait(cldist.send(queue, array, 1, comm=copy))
    else:
        host = np.empty(10, np.float32)
        copy.Recv(host, 0)
        assert np.array_equal(host, np.arange(3, 13))
    copy.Free()


def test_host_memory_is_exchanged_with_a_device(queue):
    array = numbers(queue, 1000, 1)
    if comm.rank == 0:
        cldist.wait(cldist.send(queue, array, 1, tag=5))
        cldist.wait(cldist.recv(queue, array, 1))
        assert np.all(array.get() == 9)
        cldist.wait(cldist.send(queue, array, 1), cldist.recv(queue, array, 1))
        assert np.all(array.get() == 4)
    else:
        host = np.zeros(1000, np.float32)
        status = cldist.host_recv(host, 0)
        assert (status.Get_source(), status.Get_tag()) == (0, 5)
        assert np.array_equal(host, np.arange(1, 1001))
        cldist.host_send(np.full(1000, 9, np.float32), 0)
        requests = [cldist.host_irecv(host, 0), cldist.host_isend(np.full(1000, 4, np.float32), 0)]
        for request in requests:
            request.wait()
        assert np.all(host == 9)


def test_a_kernel_waits_for_a_request_and_a_request_for_an_event(queue, context):
    if comm.rank == 0:
        comm.Send(np.full(10, 6, np.float32), 1)
        event = cl.UserEvent(context)
        request = cldist.request_from_event(event)
        assert not request.Test()
        event.set_status(cl.command_execution_status.COMPLETE)
        request.Wait()
    else:
        host = np.zeros(10, np.float32)
        request = comm.Irecv(host, 0)
        arrived = cldist.event_from_request(context, request)
        array = cla.zeros(queue, 10, np.float32)
        queue.finish()
        cl.enqueue_copy(queue, array.data, host, wait_for=[arrived], is_blocking=True)
        request.Wait()
        assert np.all(array.get() == 6)


def test_buffers_for_other_processes_are_buffers(queue, context):
    buffer = cldist.exportable_buffer(context, 4096)
    assert isinstance(buffer, cl.Buffer) and buffer.size == 4096
    array = cla.Array(queue, 1024, np.float32, data=buffer)
    array.fill(comm.rank)
    queue.finish()
    cldist.wait(cldist.sendrecv(queue, array[:512], other, array[512:], other))
    assert np.all(array.get()[512:] == other)
    with pytest.raises(cldist.Error, match="CL_INVALID_BUFFER_SIZE"):
        cldist.exportable_buffer(context, 0)


def test_each_process_gets_a_device():
    assert isinstance(cldist.local_device(), cl.Device)
    with pytest.raises(cldist.Error, match="CL_DEVICE_NOT_FOUND"):
        cldist.local_device(device_type=cl.device_type.CUSTOM)


@pytest.mark.parametrize("collective", [False, True])
def test_mpi_files_are_written_and_read(queue, tmp_path, collective):
    path = comm.bcast(str(tmp_path / "file"))
    file = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_RDWR)
    array = numbers(queue, 100, 100 * comm.rank)
    cldist.wait(cldist.write_mpi_file(queue, array, file, 400 * comm.rank, collective=collective))
    file.Sync()
    comm.Barrier()
    file.Sync()
    cldist.wait(cldist.read_mpi_file(queue, array, file, 400 * other, collective=collective))
    file.Close()
    assert np.array_equal(array.get(), np.arange(100 * other, 100 * other + 100))
