"""What became of commands."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

import pyopencl as cl

from ._core import Error, Handle, Size, check, files_library

_STAGES = ("wait", "match", "device", "message", "file")


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of a transfer. Times are in ns of CLOCK_MONOTONIC, as time.monotonic_ns() returns them."""

    name: str  #: "wait", "match", "device", "message" or "file"
    blocks: int
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class TransferInfo:
    """The parameters and the result of a command, as clGetTransferInfo returns them."""

    status: int  #: CL_QUEUED 3, CL_SUBMITTED 2, CL_RUNNING 1, CL_COMPLETE 0, or the error
    bytes: int  #: transferred so far; of a sendrecv: received
    source: int  #: rank of the sender, or MPI.PROC_NULL
    destination: int  #: rank of the receiver, or MPI.PROC_NULL
    tag: int
    path: str  #: a name of CLDIST_PATH; "" until it is chosen
    block_size: int  #: bytes
    depth: int  #: blocks in flight at the same time
    mpi_error: int
    error_message: str  #: the cause of the failure; "" if nothing failed
    errno: int
    direct_io: bool  #: the file access bypassed the page cache
    stages: tuple[Stage, ...]


class _CStage(ctypes.Structure):
    _fields_ = [("stage", ctypes.c_uint32), ("blocks", ctypes.c_uint32), ("start", ctypes.c_uint64),
                ("end", ctypes.c_uint64)]


def _value(event: cl.Event, name: int, kind: Any) -> Any:
    value = kind()
    check("clGetTransferInfo", files_library().clGetTransferInfo(Handle(event.int_ptr), ctypes.c_uint32(name),
                                                                 Size(ctypes.sizeof(value)), ctypes.byref(value), None))
    return value.value


def _text(event: cl.Event, name: int) -> str:
    size = Size()
    ask = files_library().clGetTransferInfo
    check("clGetTransferInfo", ask(Handle(event.int_ptr), ctypes.c_uint32(name), Size(0), None, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value + 1024)
    check("clGetTransferInfo", ask(Handle(event.int_ptr), ctypes.c_uint32(name), Size(len(text)), text, None))
    return text.value.decode(errors="replace")


def _stages(event: cl.Event) -> tuple[Stage, ...]:
    found = (_CStage * len(_STAGES))()
    size = Size()
    check("clGetTransferInfo", files_library().clGetTransferInfo(
        Handle(event.int_ptr), ctypes.c_uint32(0x13AA), Size(ctypes.sizeof(found)), found, ctypes.byref(size)))
    return tuple(Stage(_STAGES[s.stage], s.blocks, s.start, s.end) for s in found[:size.value // ctypes.sizeof(_CStage)])


def transfer_info(event: cl.Event) -> TransferInfo:
    """The parameters and the result of the command of `event`, while it runs and afterwards."""
    i, n = ctypes.c_int, Size
    return TransferInfo(
        status=_value(event, 0x13A0, i), bytes=_value(event, 0x13A1, n), source=_value(event, 0x13A2, i),
        destination=_value(event, 0x13A3, i), tag=_value(event, 0x13A4, i), path=_text(event, 0x13A5),
        block_size=_value(event, 0x13A6, n), depth=_value(event, 0x13A7, ctypes.c_uint32), mpi_error=_value(event, 0x13A8, i),
        error_message=_text(event, 0x13A9), errno=_value(event, 0x13AB, i),
        direct_io=bool(_value(event, 0x13AC, ctypes.c_uint32)), stages=_stages(event))


def wait(*events: cl.Event) -> None:
    """Waits for commands. Raises an Error with name and cause if a transfer failed; pyopencl knows only the code."""
    for event in events:
        try:
            event.wait()
        except cl.Error as error:
            try:
                info = transfer_info(event)
            except Error:
                raise error from None
            raise Error("the transfer", info.status, info.error_message) from error


def trace_event(event: cl.Event, name: str) -> None:
    """Adds the command of `event`, such as a kernel, to the trace of CLDIST_TRACE. Its queue needs profiling."""
    check("clTraceEvent", files_library().clTraceEvent(Handle(event.int_ptr), name.encode()))
