"""Files and datasets of the Python package, in one process without MPI."""

import contextlib
import fcntl
import gc
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import weakref

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import cldist


def numbers(queue, count, start=0, dtype=np.float32):
    return cla.to_device(queue, np.arange(start, start + count, dtype=dtype))


def test_files_need_neither_mpi4py_nor_libmpi():
    assert "mpi4py" not in sys.modules
    cldist.error_name(0)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        libraries = {line.split("/")[-1].strip() for line in maps if "cldist" in line and "/" in line}
    assert any(name.startswith("libcldist-file.so") for name in libraries)
    assert not any(name.startswith("libcldist.so") for name in libraries)


def test_an_array_is_written_and_read_at_an_offset_of_a_file(queue, tmp_path):
    array = numbers(queue, 100000, 3)
    with open(tmp_path / "file", "wb") as file:
        event = cldist.write_file(queue, array, file, 100)
    cldist.wait(event)  # Python has already closed the file
    assert cldist.transfer_info(event).bytes == 400000
    assert np.array_equal(np.fromfile(tmp_path / "file", np.float32, offset=100), array.get())
    copy = cla.zeros(queue, 99999, np.float32)
    with open(tmp_path / "file", "rb") as file:
        cldist.wait(cldist.read_file(queue, copy, file.fileno(), 104))
    assert np.array_equal(copy.get(), np.arange(4, 100003, dtype=np.float32))


def test_commands_on_a_descriptor_keep_the_locks_of_the_process(queue, tmp_path):
    locks = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    array = numbers(queue, 1000)
    with open(tmp_path / "file", "w+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        cldist.write_file(queue, array, file.fileno(), blocking=True)
        cldist.read_file(queue, array, file.fileno(), blocking=True)
        other = subprocess.run([sys.executable, "-c", locks, tmp_path / "file"], capture_output=True, text=True, check=False)
    assert "BlockingIOError" in other.stderr


def test_a_file_that_ends_early_raises_its_cause(queue, tmp_path):
    (tmp_path / "file").write_bytes(b"1234")
    array = numbers(queue, 10)
    with open(tmp_path / "file", "rb") as file:
        with pytest.raises(cldist.Error, match="CL_END_OF_FILE") as raised:
            cldist.read_file(queue, array, file, blocking=True)
        assert raised.value.cause
        event = cldist.read_file(queue, array, file)
        with pytest.raises(cldist.Error, match="CL_END_OF_FILE"):
            cldist.wait(event)
        assert cldist.transfer_info(event).bytes == 4
    with open(tmp_path / "file", "rb") as file, pytest.raises(cldist.Error, match="CL_FILE_ERROR"):
        cldist.write_file(queue, array, file, blocking=True)


def test_streams_are_pipes_or_files(queue, tmp_path):
    array = numbers(queue, 10000)
    with cldist.Stream(tmp_path / "file", "wb") as stream:
        cldist.wait(cldist.write_stream(queue, array[:4000], stream), cldist.write_stream(queue, array[4000:], stream))
    assert np.array_equal(np.fromfile(tmp_path / "file", np.float32), array.get())
    reading, writing = os.pipe()
    writer = threading.Thread(target=lambda: os.write(writing, b"\1" * 4000))
    writer.start()
    with cldist.Stream(reading) as stream:
        cldist.wait(cldist.read_stream(queue, cldist.Range(array.data, 0, 4000), stream))
    writer.join()
    os.close(reading)
    os.close(writing)
    assert np.all(array[:1000].get().view(np.uint8) == 1)
    with pytest.raises(FileNotFoundError):
        cldist.Stream(tmp_path / "no" / "file")


def test_a_dropped_stream_is_closed_and_a_failed_one_leaks_nothing(queue, tmp_path):
    def descriptors():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    stream = cldist.Stream(tmp_path / "file", "wb")
    cldist.write_stream(queue, numbers(queue, 1000), stream, blocking=True)
    del stream
    assert (tmp_path / "file").stat().st_size == 4000
    with pytest.raises(OSError):
        cldist.Stream(0, "no mode")
    with pytest.raises(cldist.Error, match="CL_FILE_ERROR"):
        cldist.write_file(queue, numbers(queue, 10), 9999, blocking=True)
    with pytest.raises(ValueError, match="zero byte"):
        cldist.Stream("a\0b")
    assert descriptors() == before


def test_offsets_that_c_cannot_hold_are_refused(queue, tmp_path):
    array = numbers(queue, 10)
    with open(tmp_path / "file", "wb") as file:
        for offset in 2**63, -2**63 - 1, 2**64:
            with pytest.raises(OverflowError):
                cldist.write_file(queue, array, file, offset, blocking=True)
        for offset, size in (2**64, 4), (-1, 4), (0, 2**64 + 4), (41, None):
            with pytest.raises(OverflowError):
                cldist.write_file(queue, cldist.Range(array.data, offset, size), file, blocking=True)
        with pytest.raises(TypeError):
            cldist.write_file(queue, array, file, 0.5, blocking=True)
        cldist.write_file(queue, array, file, np.int64(8), blocking=True)
    assert (tmp_path / "file").stat().st_size == 48


ENDS_WITH_A_WRITE = """
import os, signal, sys, threading, time
import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import cldist

context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context)
array = cla.zeros(queue, 1000, np.float32)
gate = cl.UserEvent(context)
with open(sys.argv[1], "wb") as file:
    event = cldist.write_file(queue, array, file, wait_for=[gate])
"""


def run_to_the_end(rest, file, seconds):
    return subprocess.run([sys.executable, "-c", ENDS_WITH_A_WRITE + rest, file], text=True, capture_output=True, check=False,
                          timeout=60, env={**os.environ, "CLDIST_STALL_SECONDS": str(seconds)})


def test_a_program_ends_although_a_command_cannot_start(tmp_path):
    done = run_to_the_end("", tmp_path / "file", 1)
    assert done.returncode == 0
    assert "the program ends, but these commands have not ended" in done.stderr and "4000 bytes" in done.stderr


def test_threads_of_python_may_start_commands_while_the_program_ends(tmp_path):
    opens = "threading.Thread(target=lambda: (time.sleep(0.5), gate.set_status(0)), daemon=True).start()"
    done = run_to_the_end(opens, tmp_path / "file", 30)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "file").stat().st_size == 4000


def test_a_forked_child_does_not_wait_for_the_commands_of_its_parent(tmp_path):
    forks = """
child = os.fork()
if child == 0:
    signal.alarm(20)
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
gate.set_status(cl.command_execution_status.COMPLETE)
cldist.wait(event)
"""
    done = run_to_the_end(forks, tmp_path / "file", 60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
    assert (tmp_path / "file").stat().st_size == 4000


def test_a_part_of_a_dataset_is_written_and_read_with_conversion(queue, tmp_path):
    h5py = pytest.importorskip("h5py")
    array = numbers(queue, 12)
    with h5py.File(tmp_path / "file.h5", "w") as file:
        dataset = file.create_dataset("x", (6, 8), "f8")
        cldist.wait(cldist.write_dataset(queue, array, dataset, np.s_[1:4, 2:6]))
        with cldist.hdf5_lock():
            found = dataset[...]
        expected = np.zeros((6, 8))
        expected[1:4, 2:6] = np.arange(12).reshape(3, 4)
        assert np.array_equal(found, expected)
        column = cla.zeros(queue, 6, np.int32)
        cldist.wait(cldist.read_dataset(queue, column, dataset, np.s_[:, 3]))
        assert list(column.get()) == [0, 1, 5, 9, 0, 0]
        whole = cla.zeros(queue, (6, 8), np.float64)
        cldist.wait(cldist.read_dataset(queue, whole, dataset))
        assert np.array_equal(whole.get(), expected)
        with pytest.raises(ValueError, match="48 elements"):
            cldist.read_dataset(queue, column, dataset)


def test_the_file_of_a_dataset_may_be_closed_while_its_commands_are_pending(queue, context, tmp_path):
    h5py = pytest.importorskip("h5py")
    array = numbers(queue, 1000)
    gate = cl.UserEvent(context)
    file = h5py.File(tmp_path / "file.h5", "w")
    events = [cldist.write_dataset(queue, array, file.create_dataset(name, (1000,), "f4", **options), wait_for=[gate])
              for name, options in (("x", {}), ("group/y", {"chunks": (100,), "compression": "gzip"}))]
    with cldist.hdf5_lock():
        file.close()
    gate.set_status(cl.command_execution_status.COMPLETE)
    cldist.wait(*events)
    with h5py.File(tmp_path / "file.h5", "r+") as file:  # the commands have closed their file
        for name in "x", "group/y":
            assert np.array_equal(file[name][...], np.arange(1000))


def test_a_dataset_needs_no_name(queue, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "file.h5", "w") as file:
        unlinked = file.create_dataset("x", (1000,), "f4")
        del file["x"]
        new = file.create_dataset("x", (1000,), "f4")
        for start, dataset in enumerate((unlinked, new, file.create_dataset(None, (1000,), "f4"))):
            cldist.wait(cldist.write_dataset(queue, numbers(queue, 1000, start), dataset))
            assert np.array_equal(dataset[...], np.arange(start, start + 1000))
        assert np.array_equal(new[...], np.arange(1, 1001))
        assert np.array_equal(unlinked[...], np.arange(1000))


def test_dataset_commands_use_h5py_under_the_lock(queue, tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    from h5py._hl import selections

    held, uses = [], []

    @contextlib.contextmanager
    def lock():
        held.append(True)
        yield
        held.pop()

    def observe(module, name, part):
        function = getattr(module, name)

        def observed(*arguments):
            made = function(*arguments)
            uses.append((name, bool(held)))
            weakref.finalize(part(made), lambda: uses.append(("the end of " + name, bool(held))))
            return made

        monkeypatch.setattr(module, name, observed)

    array = numbers(queue, 10)
    with h5py.File(tmp_path / "file.h5", "w") as file:
        dataset = file.create_dataset("x", (10,), "f4")
        monkeypatch.setattr("cldist._files.hdf5_lock", lock)
        observe(h5py.h5t, "py_create", lambda made: made)
        observe(selections, "select", lambda made: made.id)
        cldist.write_dataset(queue, array, dataset, blocking=True)
        with pytest.raises(ValueError) as raised:
            cldist.write_dataset(queue, array[:5], dataset)
        assert raised.traceback
        names = ["py_create", "select", "the end of py_create", "the end of select"]
        assert uses == 2 * [(name, True) for name in names]


def test_a_user_event_of_pyopencl_is_no_transfer(context):
    event = cl.UserEvent(context)
    with pytest.raises(cldist.Error, match="CL_INVALID_EVENT.*no command"):
        cldist.transfer_info(event)
    event.set_status(cl.command_execution_status.COMPLETE)
    cldist.wait(event)


def test_pip_installs_the_package(tmp_path):
    if not all(importlib.util.find_spec(name) for name in ("pip", "mesonpy")):
        pytest.skip("no pip or no meson-python")
    sources = pathlib.Path(cldist.__file__).parents[1]
    shutil.copytree(sources, tmp_path / "python", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
                    "--target", tmp_path / "site", tmp_path / "python"], check=True)
    installed = {path.name for path in (tmp_path / "site" / "cldist").iterdir()} - {"__pycache__"}
    assert installed == {path.name for path in (sources / "cldist").iterdir()} - {"__pycache__"}
    assert (tmp_path / "site" / f"cldist-{cldist.__version__}.dist-info").exists()
