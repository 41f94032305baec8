"""Messages between processes, MPI requests, and the choice of a device."""

from __future__ import annotations

import ctypes
from typing import Any, Iterable, Optional

import numpy as np
import pyopencl as cl

from ._core import (Handle, Int, Size, Uint, check, enqueue, in_flight, messages_library, mpi, mpi_address, mpi_handle)
from ._data import Data, rect_arguments, rect_of, span

Events = Optional[Iterable[cl.Event]]
ANY = None  # a source or a tag: MPI.ANY_SOURCE, MPI.ANY_TAG


def _comm(comm: Any) -> Any:
    return mpi().COMM_WORLD if comm is None else comm


def init(comm: Any = None) -> None:
    """Initialises the library for `comm` (default MPI.COMM_WORLD). Collective; the first call over COMM_WORLD.

    mpi4py has initialised MPI before the library was loaded, so programs should call this first. A communicator with
    processes outside COMM_WORLD needs its own call.
    """
    check("clDistInit", messages_library().clDistInit(mpi_handle(_comm(comm))))


def local_device(comm: Any = None, device_type: int = cl.device_type.ALL,
                 platform: Optional[cl.Platform] = None) -> cl.Device:
    """An OpenCL device for this process, so that the processes of one host share its devices evenly. Collective."""
    device = Handle()
    check("clDistLocalDevice", messages_library().clDistLocalDevice(
        mpi_handle(_comm(comm)), Handle(platform.int_ptr if platform else None), ctypes.c_uint64(device_type),
        ctypes.byref(device)))
    return cl.Device.from_int_ptr(device.value)


def exportable_buffer(context: cl.Context, size: int, flags: int = cl.mem_flags.READ_WRITE,
                      device: Optional[cl.Device] = None) -> cl.Buffer:
    """A buffer of `size` bytes that the other processes of the host can read, for faster messages from it.

    The memory belongs to `device`, by default the first device of the context.
    """
    error = Int()
    function = messages_library().clCreateBufferExportable
    function.restype = Handle
    made = function(Handle(context.int_ptr), Handle((device or context.devices[0]).int_ptr), ctypes.c_uint64(flags),
                    Size(size), ctypes.byref(error))
    check("clCreateBufferExportable", error.value)
    return cl.Buffer.from_int_ptr(made, retain=False)


def set_wire(comm: Any, wire: str) -> None:
    """Selects the format of messages on `comm`: "plain" for plain MPI messages, or "cldist".

    With "plain", unmodified MPI calls of the other processes exchange messages with commands. All processes of `comm`
    that use commands on it call this.
    """
    info = mpi().Info.Create()
    try:
        info.Set("cldist_wire", wire)
        _mpi_check(messages_library().MPI_Comm_set_info(mpi_handle(comm), mpi_handle(info)))
    finally:
        info.Free()


def send(queue: cl.CommandQueue, data: Data, dest: int, tag: int = 0, *, comm: Any = None, blocking: bool = False,
         wait_for: Events = None) -> Optional[cl.Event]:
    """Enqueues a command that sends `data` to rank `dest` of `comm`.

    Args:
        queue: the command waits for the earlier commands of an in-order queue.
        data: a pyopencl Buffer, a Range of one, a Rect of one, or a pyopencl Array: contiguous, or a slice with strides
            such as `field[1:-1, 0]`, whose elements are packed.
        comm: a communicator of mpi4py; default MPI.COMM_WORLD.
        wait_for: events of pyopencl that must be complete first.

    Returns:
        The event; the data may be modified when it is complete. None if `blocking`.
    """
    strided = rect_arguments(data)
    name = "clEnqueueSendBufferRect" if strided else "clEnqueueSendBuffer"
    buffer, *place = strided or span(data).arguments()
    return enqueue(messages_library(), name, [Handle(queue.int_ptr), buffer, Uint(blocking), *place, Int(dest), Int(tag),
                                              mpi_handle(_comm(comm))], blocking, wait_for, [data, comm])


def recv(queue: cl.CommandQueue, data: Data, source: Optional[int] = ANY, tag: Optional[int] = ANY, *, comm: Any = None,
         blocking: bool = False, wait_for: Events = None) -> Optional[cl.Event]:
    """Enqueues a command that receives a message from rank `source` of `comm` into `data`.

    `source` and `tag` None accept any. A shorter message leaves the rest of `data` unchanged; a longer one fails with
    CL_MESSAGE_TRUNCATED. `transfer_info` returns the sender, the tag and the number of bytes. Otherwise like `send`.
    """
    strided = rect_arguments(data)
    name = "clEnqueueRecvBufferRect" if strided else "clEnqueueRecvBuffer"
    buffer, *place = strided or span(data).arguments()
    return enqueue(messages_library(), name, [Handle(queue.int_ptr), buffer, Uint(blocking), *place, _source(source),
                                              _tag(tag), mpi_handle(_comm(comm))], blocking, wait_for, [data, comm])


def sendrecv(queue: cl.CommandQueue, send_data: Data, dest: int, recv_data: Data, source: Optional[int] = ANY, *,
             send_tag: int = 0, recv_tag: Optional[int] = ANY, comm: Any = None, blocking: bool = False,
             wait_for: Events = None) -> Optional[cl.Event]:
    """Enqueues one command that sends `send_data` to `dest` and receives `recv_data` from `source` at the same time.

    Both may be parts of one buffer without a common byte, such as two columns of an array. Otherwise like `send` and
    `recv`.
    """
    strided = rect_arguments(send_data) is not None or rect_arguments(recv_data) is not None
    name = "clEnqueueSendrecvBufferRect" if strided else "clEnqueueSendrecvBuffer"
    out, into = ((rect_of(send_data), rect_of(recv_data)) if strided
                 else (span(send_data).arguments(), span(recv_data).arguments()))
    arguments = [Handle(queue.int_ptr), out[0], Uint(blocking), *out[1:], Int(dest), Int(send_tag), *into, _source(source),
                 _tag(recv_tag), mpi_handle(_comm(comm))]
    return enqueue(messages_library(), name, arguments, blocking, wait_for, [send_data, recv_data, comm])


def _source(source: Optional[int]) -> Int:
    return Int(mpi().ANY_SOURCE if source is None else source)


def _tag(tag: Optional[int]) -> Int:
    return Int(mpi().ANY_TAG if tag is None else tag)


def event_from_request(context: cl.Context, request: Any) -> cl.Event:
    """An event of `context` that completes when `request`, a request of mpi4py, completes.

    Commands can wait for it. `request` still has to be waited for. Its memory is kept alive until the event has ended.
    """
    error = Int()
    function = messages_library().clCreateEventFromMPIRequest
    function.restype = Handle
    made = function(Handle(context.int_ptr), mpi_address(request), ctypes.byref(error))
    check("clCreateEventFromMPIRequest", error.value)
    event = cl.Event.from_int_ptr(made, retain=False)
    in_flight.keep(event, [request], False)
    return event


def request_from_event(event: cl.Event) -> Any:
    """A request of mpi4py that completes when `event` completes, for MPI.Request.Waitall and the like."""
    request = mpi().Request()
    check("clCreateMPIRequestFromEvent",
          messages_library().clCreateMPIRequestFromEvent(Handle(event.int_ptr), mpi_address(request)))
    return request


# ---- Host memory whose peer is a device: MPI calls with MPI_CL_MEM ------------------------------------------------------

def _mpi_check(code: int) -> None:
    if code != 0:
        raise mpi().Exception(code)


def _host(array: Any, writes: bool) -> tuple[np.ndarray, list]:
    memory = np.asarray(array)
    if not memory.flags.c_contiguous or (writes and (memory is not array or not memory.flags.writeable)):
        raise ValueError("a contiguous numpy array is needed" + (", which can be written" if writes else ""))
    if memory.nbytes > 2**31 - 1:
        raise ValueError("MPI counts at most 2 GiB - 1 in one call")
    datatype = (Handle if mpi()._sizeof(mpi().BYTE) == ctypes.sizeof(Handle) else Int).in_dll(messages_library(),
                                                                                              "cldist_mpi_cl_mem")
    return memory, [Handle(memory.ctypes.data), Int(memory.nbytes), datatype]


def host_send(array: Any, dest: int, tag: int = 0, *, comm: Any = None) -> None:
    """MPI_Send of a numpy array with MPI_CL_MEM: a device of rank `dest` receives it with `recv`."""
    _, place = _host(array, False)
    _mpi_check(messages_library().MPI_Send(*place, Int(dest), Int(tag), mpi_handle(_comm(comm))))


def host_recv(array: np.ndarray, source: Optional[int] = ANY, tag: Optional[int] = ANY, *, comm: Any = None) -> Any:
    """MPI_Recv into a numpy array with MPI_CL_MEM: a device of rank `source` sends it with `send`.

    Returns mpi4py's status.
    """
    status = mpi().Status()
    _, place = _host(array, True)
    _mpi_check(messages_library().MPI_Recv(*place, _source(source), _tag(tag), mpi_handle(_comm(comm)),
                                           mpi_address(status)))
    return status


def host_isend(array: Any, dest: int, tag: int = 0, *, comm: Any = None) -> "HostRequest":
    """As `host_send`, without waiting. The request keeps the array alive."""
    memory, place = _host(array, False)
    request = HostRequest(memory)
    _mpi_check(messages_library().MPI_Isend(*place, Int(dest), Int(tag), mpi_handle(_comm(comm)),
                                            mpi_address(request.request)))
    return request


def host_irecv(array: np.ndarray, source: Optional[int] = ANY, tag: Optional[int] = ANY, *,
               comm: Any = None) -> "HostRequest":
    """As `host_recv`, without waiting. The request keeps the array alive."""
    memory, place = _host(array, True)
    request = HostRequest(memory)
    _mpi_check(messages_library().MPI_Irecv(*place, _source(source), _tag(tag), mpi_handle(_comm(comm)),
                                            mpi_address(request.request)))
    return request


class HostRequest:
    """A pending message of host memory: `request` is a request of mpi4py. Wait for it before you drop this object."""

    def __init__(self, memory: np.ndarray) -> None:
        self.request = mpi().Request()
        self.memory = memory

    def wait(self) -> Any:
        """Waits for the end; returns mpi4py's status."""
        status = mpi().Status()
        self.request.Wait(status)
        return status
