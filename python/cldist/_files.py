"""Files: descriptors, streams, MPI files and HDF5 datasets. Only MPI files need mpi4py."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from typing import Any, Iterator, Optional, Union

import pyopencl as cl

from ._core import FileOffset, Handle, Int, Size, Uint, check, enqueue, files_library, load, messages_library, mpi_handle
from ._data import Data, span
from ._messages import Events

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fopen.restype = _libc.fdopen.restype = Handle


class _Descriptor:
    """The descriptor of a file. That of a file object is duplicated, so that the program may close the file object while
    a command is in flight."""

    duplicate = -1

    def __init__(self, file: Any) -> None:
        if isinstance(file, int):
            self.number = file
        else:
            self.number = self.duplicate = os.dup(file.fileno())

    def __del__(self) -> None:
        if self.duplicate >= 0:
            os.close(self.duplicate)


def _file_command(name: str, library: Any, queue: cl.CommandQueue, data: Data, blocking: bool, rest: list,
                  wait_for: Events, keep: Any) -> Optional[cl.Event]:
    buffer, offset, size = span(data).arguments()
    return enqueue(library, name, [Handle(queue.int_ptr), buffer, Uint(blocking), offset, size, *rest], blocking, wait_for,
                   [data, keep], waits_at_exit=True)


def write_file(queue: cl.CommandQueue, data: Data, file: Any, file_offset: int = 0, *, blocking: bool = False,
               wait_for: Events = None) -> Optional[cl.Event]:
    """Enqueues a command that writes `data` to `file` from byte `file_offset` on.

    Args:
        data: a contiguous Array, a Buffer or a Range.
        file: an open file of Python, or a descriptor. Its position is neither used nor changed, and Python's own buffer is
            not flushed. A file of Python may be closed as soon as this function returns. A descriptor must stay open until
            the command has ended. If this process holds fcntl locks on the file (`fcntl.lockf`), pass the descriptor: for a
            file of Python, cldist closes a duplicate of its descriptor, which releases these locks.

    Returns:
        The event; the bytes are written when it is complete. None if `blocking`.
    """
    own = _Descriptor(file)
    return _file_command("clEnqueueReadBufferToFile", files_library(), queue, data, blocking,
                         [Int(own.number), FileOffset(file_offset)], wait_for, own)


def read_file(queue: cl.CommandQueue, data: Data, file: Any, file_offset: int = 0, *, blocking: bool = False,
              wait_for: Events = None) -> Optional[cl.Event]:
    """Enqueues a command that reads `file` from byte `file_offset` on into `data`, until `data` is full.

    If the file ends early, the command fails with CL_END_OF_FILE. Otherwise like `write_file`.
    """
    own = _Descriptor(file)
    return _file_command("clEnqueueWriteBufferFromFile", files_library(), queue, data, blocking,
                         [Int(own.number), FileOffset(file_offset)], wait_for, own)


class Stream:
    """A C stream (FILE *) for pipes and sequential access: `Stream("out.bin", "wb")`, or of a descriptor.

    Commands on a stream run one after the other. Wait for the last one before you close the stream. A stream that the
    program drops is closed after its last command.
    """

    pointer = None

    def __init__(self, file: Union[str, os.PathLike, int], mode: str = "rb") -> None:
        if isinstance(file, int):
            own = os.dup(file)
            self.pointer = _libc.fdopen(Int(own), mode.encode())
            if not self.pointer:
                os.close(own)
        else:
            name = os.fsencode(file)
            if b"\0" in name:
                raise ValueError("the name of a file contains a zero byte")
            self.pointer = _libc.fopen(name, mode.encode())
        if not self.pointer:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(file))

    def __del__(self) -> None:
        # At the end of the interpreter, commands may be in flight. The C library then writes what is buffered.
        if not sys.is_finalizing():
            self.close()

    def close(self) -> None:
        """Writes what is buffered, and closes the stream."""
        pointer, self.pointer = self.pointer, None
        if pointer and _libc.fclose(Handle(pointer)) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def write_stream(queue: cl.CommandQueue, data: Data, stream: Stream, *, blocking: bool = False,
                 wait_for: Events = None) -> Optional[cl.Event]:
    """Enqueues a command that writes `data` to `stream` at its position, as fwrite would when the command runs."""
    return _file_command("clEnqueueReadBufferToStdioFile", files_library(), queue, data, blocking, [Handle(stream.pointer)],
                         wait_for, stream)


def read_stream(queue: cl.CommandQueue, data: Data, stream: Stream, *, blocking: bool = False,
                wait_for: Events = None) -> Optional[cl.Event]:
    """Enqueues a command that fills `data` from `stream` at its position, as fread would when the command runs."""
    return _file_command("clEnqueueWriteBufferFromStdioFile", files_library(), queue, data, blocking,
                         [Handle(stream.pointer)], wait_for, stream)


def write_mpi_file(queue: cl.CommandQueue, data: Data, file: Any, file_offset: int = 0, *, collective: bool = False,
                   blocking: bool = False, wait_for: Events = None) -> Optional[cl.Event]:
    """Enqueues a command that writes `data` to a File of mpi4py, `file_offset` etypes of its view from the start.

    `collective`: all processes that opened the file make the call, each with its own range, as in Write_at_all. Wait for
    the event before you close the file.
    """
    name = "clEnqueueReadBufferToMPIFile" + ("All" if collective else "")
    return _file_command(name, messages_library(), queue, data, blocking,
                         [mpi_handle(file), FileOffset(file_offset)], wait_for, file)


def read_mpi_file(queue: cl.CommandQueue, data: Data, file: Any, file_offset: int = 0, *, collective: bool = False,
                  blocking: bool = False, wait_for: Events = None) -> Optional[cl.Event]:
    """Enqueues a command that reads a File of mpi4py into `data`; otherwise like `write_mpi_file`."""
    name = "clEnqueueWriteBufferFromMPIFile" + ("All" if collective else "")
    return _file_command(name, messages_library(), queue, data, blocking,
                         [mpi_handle(file), FileOffset(file_offset)], wait_for, file)


# ---- HDF5 ------------------------------------------------------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def _hdf5_library() -> ctypes.CDLL:
    """libcldist-hdf5 with the HDF5 library of h5py, which its symbols need."""
    import h5py  # noqa: F401  (loads its HDF5 library)

    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "libhdf5" in line}
    for path in sorted(path for path in paths if "_hl" not in os.path.basename(path)):
        ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    files_library()
    return load("libcldist-hdf5.so.0")


def _reopened(dataset: Any) -> Any:
    """The identifier of the dataset in a file that only the command has open, or else `dataset.id`.

    h5py's File.close() closes all identifiers that were opened through the same file identifier, whoever holds them.
    """
    import h5py

    if dataset.file.driver != "mpio":  # closing such a file is collective
        with contextlib.suppress(Exception):  # there may be no path to the dataset, or a path to another object
            own = h5py.h5o.open(dataset.file.id.reopen(), h5py.h5i.get_name(dataset.id))
            if own == dataset.id:
                return own
    return dataset.id


def _dataset_command(name: str, queue: cl.CommandQueue, data: Data, dataset: Any, selection: Any, transfer: Any,
                     blocking: bool, wait_for: Events) -> Optional[cl.Event]:
    import h5py
    from h5py._hl import selections

    library = _hdf5_library()
    part = span(data)
    own = memory_type = space = None
    with hdf5_lock():
        try:
            own = _reopened(dataset)
            memory_type = h5py.h5t.py_create(part.dtype)
            space = selections.select(dataset.shape, selection if isinstance(selection, tuple) else (selection,), dataset).id
            elements = space.get_select_npoints()
            if elements * part.dtype.itemsize != part.size:
                raise ValueError(f"the selection has {elements} elements, the data {part.size / part.dtype.itemsize:g}")
            identifiers = [ctypes.c_int64(identifier) for identifier in
                           (own.id, memory_type.id, space.id, transfer.id if transfer is not None else 0)]
            arguments = [Handle(queue.int_ptr), Handle(part.buffer.int_ptr), Uint(blocking), Size(part.offset), *identifiers]
            return enqueue(library, name, arguments, blocking, wait_for, [data], waits_at_exit=True)
        finally:
            own = memory_type = space = None  # closes them under the lock, also if an exception keeps this frame


def write_dataset(queue: cl.CommandQueue, data: Data, dataset: Any, selection: Any = (), *, transfer: Any = None,
                  blocking: bool = False, wait_for: Events = None) -> Optional[cl.Event]:
    """Enqueues a command that writes `data` to the selected elements of an h5py dataset, in C order.

    Args:
        data: a contiguous Array, or a Range with a dtype. HDF5 converts from its dtype to that of the dataset.
        dataset: an h5py.Dataset of a file that is open for writing.
        selection: what h5py accepts between brackets: slices, Ellipsis, lists. () selects all.
        transfer: a dataset transfer property list of h5py (h5py.h5p), for collective transfers.

    Dataset and file may be closed when the function has returned. Exception: if the file was opened with the driver mpio,
    or the dataset has no name in it, close the file only after the command has ended. While a command is pending, use h5py
    only under `hdf5_lock()`, also to close files.
    """
    return _dataset_command("clEnqueueReadBufferToHDF5Dataset", queue, data, dataset, selection, transfer, blocking, wait_for)


def read_dataset(queue: cl.CommandQueue, data: Data, dataset: Any, selection: Any = (), *, transfer: Any = None,
                 blocking: bool = False, wait_for: Events = None) -> Optional[cl.Event]:
    """Enqueues a command that reads the selected elements of an h5py dataset into `data`; otherwise like `write_dataset`."""
    return _dataset_command("clEnqueueWriteBufferFromHDF5Dataset", queue, data, dataset, selection, transfer, blocking,
                            wait_for)


@contextlib.contextmanager
def hdf5_lock() -> Iterator[None]:
    """Locks HDF5 against pending commands, while the program uses h5py itself."""
    library = _hdf5_library()
    check("clDistLockHDF5", library.clDistLockHDF5())
    try:
        yield
    finally:
        check("clDistUnlockHDF5", library.clDistUnlockHDF5())
