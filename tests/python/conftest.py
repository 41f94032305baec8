"""Fixtures of the tests of the Python package. Each process of a job runs pytest."""

import os

import pyopencl as cl
import pytest

failed = False


def pytest_runtest_logreport(report):
    global failed
    failed = failed or report.failed


def pytest_unconfigure(config):
    """Ends the job if a test has failed in this process, so that the other processes do not wait for it."""
    if failed and ("OMPI_COMM_WORLD_SIZE" in os.environ or "PMI_SIZE" in os.environ):
        from mpi4py import MPI

        MPI.COMM_WORLD.Abort(1)


@pytest.fixture(scope="session")
def context():
    return cl.Context([cl.get_platforms()[0].get_devices()[0]])


@pytest.fixture(params=["in-order", "out-of-order"])
def queue(request, context):
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    return cl.CommandQueue(context, properties=out_of_order if request.param == "out-of-order" else 0)
