"""Collectives of device data."""

from __future__ import annotations

import itertools
from typing import Any, Optional, Sequence

import pyopencl as cl

from ._core import Handle, Int, Size, Uint, enqueue, messages_library, mpi, mpi_handle, size_array
from ._data import Data, Span, span
from ._messages import Events, _comm

Counts = Optional[Sequence[int]]


def _run(name: str, queue: cl.CommandQueue, head: Sequence[Any], rest: Sequence[Any], comm: Any, blocking: bool,
         wait_for: Events, keep: Sequence[Any]) -> Optional[cl.Event]:
    arguments = [Handle(queue.int_ptr), *head, Uint(blocking), *rest, mpi_handle(comm)]
    return enqueue(messages_library(), name, arguments, blocking, wait_for, [*keep, comm])


def _counts(name: str, counts: Counts, displacements: Counts, size: int) -> tuple[Any, Any, list[int], list[int]]:
    counts = list(counts or [])
    displacements = list(itertools.accumulate(counts[:-1], initial=0)) if displacements is None else list(displacements)
    if len(counts) != size or len(displacements) != size:
        raise ValueError(f"{name} has {len(counts)} counts and {len(displacements)} displacements for {size} processes")
    return size_array(counts), size_array(displacements), counts, displacements


def _equal(part: Span, size: int) -> int:
    count = part.elements()
    if count % size:
        raise ValueError(f"{count} elements cannot be divided into {size} equal parts")
    return count // size


def _operator(op: Any) -> Any:
    return mpi_handle(mpi().SUM if op is None else op)


def _same_elements(source: Span, target: Span, sent: int, received: int) -> None:
    """Raises ValueError unless both spans have the dtype of the other, and the wanted numbers of elements."""
    if source.dtype != target.dtype or source.elements() != sent or target.elements() < received:
        raise ValueError(f"the sent data has {source.elements()} elements of {source.dtype}, and the received data "
                         f"{target.elements()} of {target.dtype}; expected {sent} and {received} elements of one dtype")


def barrier(queue: cl.CommandQueue, *, comm: Any = None, blocking: bool = False, wait_for: Events = None) -> Optional[cl.Event]:
    """Enqueues a command that completes when all processes of `comm` have started it.

    All functions of this module: all processes of `comm` (default MPI.COMM_WORLD) make the same calls in the same order.
    Data are pyopencl Arrays, contiguous, or Ranges of Buffers with a dtype. Counts and displacements are in elements of
    the dtype. The event completes when all processes have taken part and this process's part is done; None if `blocking`.
    """
    return _run("clEnqueueBarrierMPI", queue, [], [], _comm(comm), blocking, wait_for, [])


def bcast(queue: cl.CommandQueue, data: Data, root: int = 0, *, comm: Any = None, blocking: bool = False,
          wait_for: Events = None) -> Optional[cl.Event]:
    """Copies the data of rank `root` to the data of all other ranks."""
    part = span(data)
    return _run("clEnqueueBcastBufferMPI", queue, [Handle(part.buffer.int_ptr)],
                [Size(part.offset), Size(part.elements()), mpi_handle(part.datatype()), Int(root)], _comm(comm), blocking,
                wait_for, [data])


def reduce(queue: cl.CommandQueue, send_data: Optional[Data], recv_data: Optional[Data], op: Any = None, root: int = 0, *,
           comm: Any = None, blocking: bool = False, wait_for: Events = None) -> Optional[cl.Event]:
    """Reduces element-wise with `op` (default MPI.SUM); rank `root` gets the result in `recv_data`.

    `recv_data` may be None elsewhere. `send_data` None at the root: in place in `recv_data`.
    """
    source = span(send_data if send_data is not None else recv_data)
    target = source if recv_data is None else span(recv_data)
    _same_elements(source, target, source.elements(), source.elements())
    return _run("clEnqueueReduceBufferMPI", queue, [Handle(source.buffer.int_ptr)],
                [Size(source.offset), Handle(target.buffer.int_ptr), Size(target.offset), Size(source.elements()),
                 mpi_handle(source.datatype()), _operator(op), Int(root)], _comm(comm), blocking, wait_for,
                [send_data, recv_data])


def allreduce(queue: cl.CommandQueue, send_data: Optional[Data], recv_data: Data, op: Any = None, *, comm: Any = None,
              blocking: bool = False, wait_for: Events = None) -> Optional[cl.Event]:
    """Reduces element-wise with `op` (default MPI.SUM); all ranks get the result in `recv_data`.

    `send_data` None: in place in `recv_data`.
    """
    target = span(recv_data)
    source = target if send_data is None else span(send_data)
    _same_elements(source, target, target.elements(), target.elements())
    return _run("clEnqueueAllreduceBufferMPI", queue, [Handle(source.buffer.int_ptr)],
                [Size(source.offset), Handle(target.buffer.int_ptr), Size(target.offset), Size(target.elements()),
                 mpi_handle(target.datatype()), _operator(op)], _comm(comm), blocking, wait_for,
                [send_data, recv_data])


def reduce_scatter(queue: cl.CommandQueue, send_data: Optional[Data], recv_data: Data, op: Any = None,
                   counts: Counts = None, *, comm: Any = None, blocking: bool = False,
                   wait_for: Events = None) -> Optional[cl.Event]:
    """Reduces element-wise with `op` (default MPI.SUM); rank i gets counts[i] elements of the result in `recv_data`.

    Without `counts`, the parts are equal. `send_data` None: in place; `recv_data` then has the elements of all parts.
    """
    comm = _comm(comm)
    target = span(recv_data)
    source = target if send_data is None else span(send_data)
    if counts is None:
        counts = [_equal(source, comm.size)] * comm.size
    c_counts, _, counts, _ = _counts("reduce_scatter", counts, None, comm.size)
    _same_elements(source, target, sum(counts), counts[comm.rank])
    return _run("clEnqueueReduceScatterBufferMPI", queue, [Handle(source.buffer.int_ptr)],
                [Size(source.offset), Handle(target.buffer.int_ptr), Size(target.offset), c_counts,
                 mpi_handle(target.datatype()), _operator(op)], comm, blocking, wait_for,
                [send_data, recv_data])


def gather(queue: cl.CommandQueue, send_data: Optional[Data], recv_data: Optional[Data], root: int = 0,
           counts: Counts = None, displacements: Counts = None, *, comm: Any = None, blocking: bool = False,
           wait_for: Events = None) -> Optional[cl.Event]:
    """Collects the `send_data` of all ranks in `recv_data` of rank `root`, in the order of the ranks.

    With `counts` (all ranks) the part of rank i has counts[i] elements, `displacements[i]` elements from the start; by
    default the parts follow one another. `recv_data` may be None elsewhere. `send_data` None at the root: in place.
    """
    comm = _comm(comm)
    return _gather("Gather", queue, send_data, recv_data, root, counts, displacements, comm, blocking, wait_for)


def allgather(queue: cl.CommandQueue, send_data: Optional[Data], recv_data: Data, counts: Counts = None,
              displacements: Counts = None, *, comm: Any = None, blocking: bool = False,
              wait_for: Events = None) -> Optional[cl.Event]:
    """As `gather`, but all ranks get the result. `send_data` None: in place."""
    return _gather("Allgather", queue, send_data, recv_data, None, counts, displacements, _comm(comm), blocking, wait_for)


def _gather(kind: str, queue: cl.CommandQueue, send_data: Optional[Data], recv_data: Optional[Data], root: Optional[int],
            counts: Counts, displacements: Counts, comm: Any, blocking: bool, wait_for: Events) -> Optional[cl.Event]:
    receives = root is None or comm.rank == root
    target = span(recv_data) if receives and recv_data is not None else None
    if counts is None:
        part = _equal(target, comm.size) if target else 0
        sizes, first, number = [Size(part)], comm.rank * part, part
    else:
        c_counts, c_displacements, counts, displacements = _counts(kind.lower(), counts, displacements, comm.size)
        sizes, first, number = [c_counts, c_displacements], displacements[comm.rank], counts[comm.rank]
    source = span(send_data) if send_data is not None else target.part(first, number)
    target = target or source
    name = f"clEnqueue{kind}{'v' if counts is not None else ''}BufferMPI"
    rest = [Size(source.offset), Size(source.elements()), mpi_handle(source.datatype()), Handle(target.buffer.int_ptr),
            Size(target.offset), *sizes, mpi_handle(target.datatype())] + ([] if root is None else [Int(root)])
    return _run(name, queue, [Handle(source.buffer.int_ptr)], rest, comm, blocking, wait_for, [send_data, recv_data])


def scatter(queue: cl.CommandQueue, send_data: Optional[Data], recv_data: Optional[Data], root: int = 0,
            counts: Counts = None, displacements: Counts = None, *, comm: Any = None, blocking: bool = False,
            wait_for: Events = None) -> Optional[cl.Event]:
    """Distributes `send_data` of rank `root`: rank i gets part i in `recv_data`.

    `counts` and `displacements` (all ranks) describe the parts as for `gather`. `send_data` may be None elsewhere.
    `recv_data` None at the root: its part stays where it is.
    """
    comm = _comm(comm)
    source = span(send_data) if comm.rank == root and send_data is not None else None
    if counts is None:
        part = _equal(source, comm.size) if source else 0
        sizes, first, number = [Size(part)], comm.rank * part, part
    else:
        c_counts, c_displacements, counts, displacements = _counts("scatter", counts, displacements, comm.size)
        sizes, first, number = [c_counts, c_displacements], displacements[comm.rank], counts[comm.rank]
    target = span(recv_data) if recv_data is not None else source.part(first, number)
    source = source or target
    name = f"clEnqueueScatter{'v' if counts is not None else ''}BufferMPI"
    return _run(name, queue, [Handle(source.buffer.int_ptr)],
                [Size(source.offset), *sizes, mpi_handle(source.datatype()), Handle(target.buffer.int_ptr),
                 Size(target.offset), Size(target.elements()), mpi_handle(target.datatype()), Int(root)], comm, blocking,
                wait_for, [send_data, recv_data])


def alltoall(queue: cl.CommandQueue, send_data: Optional[Data], recv_data: Data, send_counts: Counts = None,
             recv_counts: Counts = None, send_displacements: Counts = None, recv_displacements: Counts = None, *,
             comm: Any = None, blocking: bool = False, wait_for: Events = None) -> Optional[cl.Event]:
    """Sends part i of `send_data` to rank i, and receives part j of `recv_data` from rank j.

    Without counts, the parts are equal. With counts, part i of each direction has counts[i] elements, displacements[i]
    elements from the start; by default the parts follow one another. `send_data` None: in place in `recv_data`.
    """
    comm = _comm(comm)
    target = span(recv_data)
    source = target if send_data is None else span(send_data)
    if (send_counts is None) != (recv_counts is None):
        raise ValueError("alltoall needs the counts of both directions, or of none")
    if send_counts is None:
        name, out, into = "clEnqueueAlltoallBufferMPI", [Size(_equal(source, comm.size))], [Size(_equal(target, comm.size))]
    else:
        name = "clEnqueueAlltoallvBufferMPI"
        out = _counts("alltoall", send_counts, send_displacements, comm.size)[:2]
        into = _counts("alltoall", recv_counts, recv_displacements, comm.size)[:2]
    return _run(name, queue, [Handle(source.buffer.int_ptr)],
                [Size(source.offset), *out, mpi_handle(source.datatype()), Handle(target.buffer.int_ptr),
                 Size(target.offset), *into, mpi_handle(target.datatype())], comm, blocking, wait_for,
                [send_data, recv_data])
