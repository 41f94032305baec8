"""The library, its calls, their errors, and what commands keep alive."""

from __future__ import annotations

import atexit
import collections
import contextlib
import ctypes
import operator
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterable, Optional, Sequence

import pyopencl as cl

Handle, Uint = ctypes.c_void_p, ctypes.c_uint32


class _Exact:
    """A C integer. Raises OverflowError for values outside its range, which ctypes would wrap."""

    def __init__(self, value: Any = 0) -> None:
        super().__init__(operator.index(value))
        if self.value != value:  # type: ignore[attr-defined]
            raise OverflowError(f"{value} does not fit into {ctypes.sizeof(self)} bytes as a C integer of its parameter")


class Int(_Exact, ctypes.c_int):
    """Ranks, tags, descriptors."""


class Size(_Exact, ctypes.c_size_t):
    """Sizes, counts and offsets in memory."""


class FileOffset(_Exact, ctypes.c_int64):
    """off_t and MPI_Offset."""


def size_array(values: Iterable[int]) -> Any:
    """An array of size_t."""
    exact = [Size(value) for value in values]
    return (Size * len(exact))(*exact)


_libraries: dict[str, ctypes.CDLL] = {}


def _candidates(name: str) -> Iterable[str]:
    chosen = os.environ.get("CLDIST_LIBRARY")
    if chosen:
        folder = Path(chosen) if os.path.isdir(chosen) else Path(chosen).parent
        yield str(folder / name)
    yield name  # LD_LIBRARY_PATH and the system's folders
    yield str(Path(sys.prefix, "lib", name))
    try:
        asked = subprocess.run(["pkg-config", "--variable=libdir", "cldist"], capture_output=True, text=True, check=False)
        if asked.stdout.strip():
            yield str(Path(asked.stdout.strip(), name))
    except OSError:
        pass


def load(name: str) -> ctypes.CDLL:
    """The library `name` ("libcldist.so.0"), loaded once. Raises ImportError with the reasons."""
    if name not in _libraries:
        reasons = []
        for candidate in _candidates(name):
            try:
                _libraries[name] = ctypes.CDLL(candidate)
                break
            except OSError as error:
                reasons.append(str(error))
        else:
            raise ImportError(f"cldist finds no {name}; install cldist, or set LD_LIBRARY_PATH or CLDIST_LIBRARY to its "
                              f"folder ({'; '.join(reasons)})")
        for function in ("clDistErrorName", "clDistLastErrorMessage"):
            try:
                getattr(_libraries[name], function).restype = ctypes.c_char_p
            except AttributeError:
                pass
    return _libraries[name]


def files_library() -> ctypes.CDLL:
    """The commands for files, transfer information and error names. Needs no MPI."""
    return load("libcldist-file.so.0")


def messages_library() -> ctypes.CDLL:
    """The commands that need MPI. mpi4py comes first, so that its MPI library is initialised."""
    mpi()
    return load("libcldist.so.0")


def mpi() -> Any:
    """The module mpi4py.MPI."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ImportError("messages, collectives and MPI files need mpi4py, built with the MPI library of cldist") from error
    return MPI


def mpi_handle(thing: Any) -> Any:
    """The C handle of an object of mpi4py: a pointer or an int, by MPI library."""
    kind = Handle if mpi()._sizeof(thing) == ctypes.sizeof(Handle) else Int
    return kind.from_address(mpi()._addressof(thing))


def mpi_address(thing: Any) -> Any:
    """The address of the C handle, or of the C status, of an object of mpi4py."""
    return Handle(mpi()._addressof(thing))


class Error(RuntimeError):
    """A call or a transfer failed.

    Attributes:
        code: the error code of OpenCL or of cldist, below 0.
        name: its name, such as "CL_INVALID_RANK".
        cause: a description of the failure; "" if there is none.
    """

    def __init__(self, where: str, code: int, cause: str = "") -> None:
        self.code = code
        self.name = error_name(code)
        self.cause = cause
        super().__init__(f"{where}: {self.name} ({code})" + (f": {cause}" if cause else ""))


def error_name(code: int) -> str:
    """The name of a code of OpenCL or of cldist: "CL_SUCCESS", "CL_INVALID_RANK"; "unknown error code" otherwise."""
    return files_library().clDistErrorName(Int(code)).decode()


def check(where: str, code: int) -> None:
    """Raises an Error if `code`, the result of the call `where`, is not CL_SUCCESS."""
    if code != 0:
        raise Error(where, code, files_library().clDistLastErrorMessage().decode(errors="replace"))


def _has_ended(event: cl.Event) -> bool:
    return event.command_execution_status <= 0


class _InFlight:
    """Objects that a command uses, until its event has ended: pooled memory, files, communicators, host arrays."""

    def __init__(self) -> None:
        self._entries: collections.deque[tuple[cl.Event, tuple, bool]] = collections.deque()
        self._lock = threading.Lock()
        self._process = os.getpid()
        atexit.register(self.end)

    def keep(self, event: cl.Event, objects: Sequence[Any], waits_at_exit: bool) -> None:
        done = []  # released without the lock
        with self._lock:
            for _ in range(2):  # looks at two old events for each new one
                if self._entries:
                    entry = self._entries.popleft()
                    (done if _has_ended(entry[0]) else self._entries).append(entry)
            self._entries.append((event, tuple(objects), waits_at_exit))

    def end(self) -> None:
        """The interpreter ends. Threads and callbacks of Python run only until this function returns.

        Waits up to CLDIST_STALL_SECONDS for commands that may wait for them. The C library then waits for the other
        commands, and reports those that never end. What such commands use, and what a parent process uses, is not freed.
        """
        patience = 30.0
        with contextlib.suppress(KeyError, ValueError):
            patience = float(os.environ["CLDIST_STALL_SECONDS"])
        until = time.monotonic() + patience if patience > 0 else float("inf")
        for entry in list(self._entries):
            event, _, waits = entry
            pause = 0.0001
            while waits and os.getpid() == self._process and not _has_ended(event) and time.monotonic() < until:
                time.sleep(pause)
                pause = min(2 * pause, 0.01)
            if os.getpid() != self._process or not _has_ended(event):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(entry))

    def __len__(self) -> int:
        return len(self._entries)


in_flight = _InFlight()


def event_list(wait_for: Optional[Iterable[cl.Event]]) -> list:
    """The arguments `num_events_in_wait_list` and `event_wait_list`."""
    events = list(wait_for or [])
    return [Uint(len(events)), (Handle * len(events))(*(event.int_ptr for event in events)) if events else None]


def enqueue(library: ctypes.CDLL, name: str, arguments: Sequence[Any], blocking: bool,
            wait_for: Optional[Iterable[cl.Event]], keep: Sequence[Any],
            waits_at_exit: bool = False) -> Optional[cl.Event]:
    """Makes the call `name` with `arguments` and the wait list. Returns the event; None if `blocking`."""
    # A failed event ends the job on platforms that do not survive it. A blocking call without event returns the error.
    event = Handle()
    check(name, getattr(library, name)(*arguments, *event_list(wait_for), None if blocking else ctypes.byref(event)))
    if blocking:
        return None
    result = cl.Event.from_int_ptr(event.value, retain=False)
    in_flight.keep(result, keep, waits_at_exit)
    return result
