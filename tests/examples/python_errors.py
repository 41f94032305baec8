"""Errors reach Python as exceptions with the cause. Run on two processes.

With the argument "blocking" only a blocking call fails, and failed events may end the job.
"""

import os
import sys

if "blocking" in sys.argv:
    os.environ["CLDIST_ON_ERROR"] = "auto"

import pyopencl as cl
from mpi4py import MPI

import cldist


def expect_error(code, words, action):
    try:
        action()
    except cldist.Error as error:
        if error.code == code and all(word in str(error) for word in words):
            return
        sys.exit(f"expected code {code} and {words}, got: {error}")
    sys.exit(f"expected code {code}, got no error")


def expect(found, wanted):
    if found != wanted:
        sys.exit(f"found {found!r}, not {wanted!r}")


comm = MPI.COMM_WORLD
context = cl.Context([cldist.local_device()])  # this call needs no initialisation
queue = cl.CommandQueue(context)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 2000)
# neither does this call
expect_error(-1203, ["clEnqueueSendBuffer", "CL_INVALID_RANK"], lambda: cldist.send(queue, buffer, comm.size))
expect_error(-1202, ["clDistInit", "CL_INVALID_COMMUNICATOR"], lambda: cldist.init(MPI.COMM_NULL))
cldist.init()
cldist.init()

expect_error(-1203, ["clEnqueueSendBuffer", "CL_INVALID_RANK"], lambda: cldist.send(queue, buffer, comm.size))
expect_error(-1204, ["clEnqueueRecvBuffer", "CL_INVALID_TAG"], lambda: cldist.recv(queue, buffer, 0, tag=-77))
expect_error(-30, ["clEnqueueSendBuffer", "CL_INVALID_VALUE"], lambda: cldist.send(queue, buffer, 0, size=2001))
expect_error(-30, ["clEnqueueSendrecvBuffer", "CL_INVALID_VALUE"], lambda: cldist.sendrecv(queue, buffer, 0, buffer, 0))
expect_error(-1, ["clDistLocalDevice", "CL_DEVICE_NOT_FOUND"],
             lambda: cldist.local_device(comm, cl.device_type.CUSTOM))

# Without an event the job continues after a failure, even on platforms that do not survive failed
# events.
if comm.rank == 0:
    expect(cldist.send(queue, buffer, 1, tag=4, blocking=True), None)
else:
    expect_error(-1205, ["clEnqueueRecvBuffer", "CL_MESSAGE_TRUNCATED"],
                 lambda: cldist.recv(queue, buffer, 0, tag=4, size=1000, blocking=True))
if "blocking" in sys.argv:
    sys.exit()

if comm.rank == 0:
    cldist.wait(cldist.send(queue, buffer, 1, tag=5))
    cldist.wait(cldist.send(queue, buffer, 1, tag=6, offset=1000))
else:
    too_long = cldist.recv(queue, buffer, 0, tag=5, size=1000)
    expect_error(-1205, ["CL_MESSAGE_TRUNCATED", "2000", "1000"], lambda: cldist.wait(too_long))
    received = cldist.recv(queue, buffer)
    cldist.wait(received)
    for name, value in {"status": 0, "bytes": 1000, "source": 0, "destination": MPI.PROC_NULL, "tag": 6,
                        "mpi_error": 0, "error_message": ""}.items():
        expect(cldist.transfer_info(received, name), value)
    expect(cldist.transfer_info(received, "path") != "", True)
