"""cldist for pyopencl and mpi4py: messages between MPI processes as OpenCL commands.

The functions are those of CL/cl_ext_dist.h, where order, lifetime and errors are described. Call init() first, on all
processes. Queues, buffers and events are pyopencl's, communicators mpi4py's; ranges are bytes. The library is
$CLDIST_LIBRARY, or the libcldist.so.0 that the system's loader finds.

A call with blocking=True returns None, and raises an Error if the transfer fails. Other calls return the event.
"""

import ctypes
import os

import pyopencl as cl
from mpi4py import MPI

__all__ = ["Error", "init", "local_device", "send", "recv", "sendrecv", "transfer_info", "wait"]

# After mpi4py, so that the MPI library is there, initialised, and the one that mpi4py uses.
_library = ctypes.CDLL(os.environ.get("CLDIST_LIBRARY", "libcldist.so.0"))

# MPI_Comm is a pointer in Open MPI and an int in MPICH.
_Comm = ctypes.c_void_p if MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_void_p) else ctypes.c_int
_Handle = ctypes.c_void_p
_Size = ctypes.c_size_t
_EVENTS = [ctypes.c_uint32, ctypes.POINTER(_Handle), ctypes.POINTER(_Handle)]
_RANGE = [_Size, _Size]
_PEER = [ctypes.c_int, ctypes.c_int]

_ARGUMENTS = {
    "clDistInit": [_Comm],
    "clDistLocalDevice": [_Comm, _Handle, ctypes.c_uint64, ctypes.POINTER(_Handle)],
    "clEnqueueSendBuffer": [_Handle, _Handle, ctypes.c_uint32, *_RANGE, *_PEER, _Comm, *_EVENTS],
    "clEnqueueRecvBuffer": [_Handle, _Handle, ctypes.c_uint32, *_RANGE, *_PEER, _Comm, *_EVENTS],
    "clEnqueueSendrecvBuffer": [_Handle, _Handle, ctypes.c_uint32, *_RANGE, *_PEER, _Handle, *_RANGE, *_PEER, _Comm,
                                *_EVENTS],
    "clGetTransferInfo": [_Handle, ctypes.c_uint32, _Size, ctypes.c_void_p, ctypes.POINTER(_Size)],
}
for _name, _types in _ARGUMENTS.items():
    getattr(_library, _name).argtypes = _types
    getattr(_library, _name).restype = ctypes.c_int32

_CODES = {
    -1200: "CL_MPI_NOT_INITIALIZED",
    -1201: "CL_MPI_THREAD_LEVEL_TOO_LOW",
    -1202: "CL_INVALID_COMMUNICATOR",
    -1203: "CL_INVALID_RANK",
    -1204: "CL_INVALID_TAG",
    -1205: "CL_MESSAGE_TRUNCATED",
    -1206: "CL_MESSAGE_NOT_RECOGNIZED",
    -1207: "CL_PEER_TRANSFER_FAILED",
    -1208: "CL_MPI_ERROR",
    -1209: "CL_TRANSFER_ABANDONED",
}


class Error(Exception):
    """What a call or a transfer ended with: `code`, in words where the library tells more than the code."""

    def __init__(self, where, code, cause=""):
        name = _CODES.get(code) or "CL_" + cl.status_code.to_string(code, "CODE_%d")
        super().__init__(f"{where}: {name} ({code})" + (f": {cause}" if cause else ""))
        self.code = code


def _call(name, *arguments):
    code = getattr(_library, name)(*arguments)
    if code != 0:
        raise Error(name, code)


def _comm(comm):
    return _Comm.from_address(MPI._addressof(comm))


def init(comm=MPI.COMM_WORLD):
    """clDistInit: collective, and needed here, since mpi4py and not the library initialises MPI."""
    _call("clDistInit", _comm(comm))


def local_device(comm=MPI.COMM_WORLD, device_type=cl.device_type.ALL, platform=None):
    """clDistLocalDevice: one of this host's devices for each of its processes. Collective."""
    device = _Handle()
    _call("clDistLocalDevice", _comm(comm), platform.int_ptr if platform else None, device_type, ctypes.byref(device))
    return cl.Device.from_int_ptr(device.value)


def _range(buffer, offset, size):
    return offset, buffer.size - offset if size is None else size


def _enqueue(name, queue, buffer, blocking, *arguments, comm, wait_for):
    events = list(wait_for or [])
    handles = (_Handle * len(events))(*(event.int_ptr for event in events)) if events else None
    event = _Handle()
    # A failed event ends the job on platforms that do not survive it. A blocking call without event returns the error.
    _call(name, queue.int_ptr, buffer.int_ptr, blocking, *arguments, _comm(comm), len(events), handles,
          None if blocking else ctypes.byref(event))
    return None if blocking else cl.Event.from_int_ptr(event.value, retain=False)


def send(queue, buffer, dest, tag=0, *, offset=0, size=None, comm=MPI.COMM_WORLD, blocking=False, wait_for=None):
    """clEnqueueSendBuffer; returns the event, or None if blocking."""
    return _enqueue("clEnqueueSendBuffer", queue, buffer, blocking, *_range(buffer, offset, size), dest, tag,
                    comm=comm, wait_for=wait_for)


def recv(queue, buffer, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, *, offset=0, size=None, comm=MPI.COMM_WORLD,
         blocking=False, wait_for=None):
    """clEnqueueRecvBuffer; returns the event, or None if blocking."""
    return _enqueue("clEnqueueRecvBuffer", queue, buffer, blocking, *_range(buffer, offset, size), source,
                    tag, comm=comm, wait_for=wait_for)


def sendrecv(queue, send_buffer, dest, recv_buffer, source, *, send_tag=0, recv_tag=MPI.ANY_TAG, send_offset=0,
             send_size=None, recv_offset=0, recv_size=None, comm=MPI.COMM_WORLD, blocking=False, wait_for=None):
    """clEnqueueSendrecvBuffer; returns the event, or None if blocking."""
    return _enqueue("clEnqueueSendrecvBuffer", queue, send_buffer, blocking,
                    *_range(send_buffer, send_offset, send_size), dest, send_tag, recv_buffer.int_ptr,
                    *_range(recv_buffer, recv_offset, recv_size), source, recv_tag,
                    comm=comm, wait_for=wait_for)


_PARAMETERS = {
    "status": (0x13A0, ctypes.c_int32),
    "bytes": (0x13A1, _Size),
    "source": (0x13A2, ctypes.c_int),
    "destination": (0x13A3, ctypes.c_int),
    "tag": (0x13A4, ctypes.c_int),
    "path": (0x13A5, str),
    "block_size": (0x13A6, _Size),
    "depth": (0x13A7, ctypes.c_uint32),
    "mpi_error": (0x13A8, ctypes.c_int),
    "error_message": (0x13A9, str),
}


def transfer_info(event, name):
    """clGetTransferInfo: what CL_TRANSFER_<name> is, the name in small letters."""
    parameter, kind = _PARAMETERS[name]
    if kind is not str:
        value = kind()
        _call("clGetTransferInfo", event.int_ptr, parameter, ctypes.sizeof(value), ctypes.byref(value), None)
        return value.value
    size = _Size()
    _call("clGetTransferInfo", event.int_ptr, parameter, 0, None, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    _call("clGetTransferInfo", event.int_ptr, parameter, size, text, None)
    return text.value.decode()


def wait(*events):
    """Waits for transfers. Raises an Error with the cause if one failed."""
    for event in events:
        try:
            event.wait()
        except cl.Error as error:
            raise Error("the transfer", transfer_info(event, "status"), transfer_info(event, "error_message")) from error
