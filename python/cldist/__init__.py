"""Messages between MPI processes, collectives and file accesses as OpenCL commands, for pyopencl and mpi4py.

Each function enqueues a command on a pyopencl queue. It takes `wait_for` and returns a pyopencl event, so commands,
kernels and copies wait for each other on the device, and the host thread never waits. With `blocking=True` it returns
None when the command is complete. Errors are exceptions of class `Error`; `wait` raises them for events that failed.

Data are pyopencl Arrays, Buffers, or parts of Buffers (`Range`, `Rect`). What a command uses is kept alive until its
event has ended, or a later command is enqueued after that. Order, matching and failures are those of the C functions;
see the reference of CL/cl_ext_dist.h.
"""

from ._collectives import allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter, scatter
from ._core import Error, error_name
from ._data import Range, Rect
from ._files import (Stream, hdf5_lock, read_dataset, read_file, read_mpi_file, read_stream, write_dataset, write_file,
                     write_mpi_file, write_stream)
from ._info import Stage, TransferInfo, trace_event, transfer_info, wait
from ._messages import (HostRequest, event_from_request, exportable_buffer, host_irecv, host_isend, host_recv, host_send,
                        init, local_device, recv, request_from_event, send, sendrecv, set_wire)

__all__ = [
    "Error", "HostRequest", "Range", "Rect", "Stage", "Stream", "TransferInfo", "allgather", "allreduce", "alltoall",
    "barrier", "bcast", "error_name", "event_from_request", "exportable_buffer", "gather", "hdf5_lock", "host_irecv",
    "host_isend", "host_recv", "host_send", "init", "local_device", "read_dataset", "read_file", "read_mpi_file",
    "read_stream", "recv", "reduce", "reduce_scatter", "request_from_event", "scatter", "send", "sendrecv", "set_wire",
    "trace_event", "transfer_info", "wait", "write_dataset", "write_file", "write_mpi_file", "write_stream",
]
__version__ = "0.1.0"
