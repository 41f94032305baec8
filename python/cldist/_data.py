"""What commands send, receive, read and write: arrays, buffers and parts of them."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Sequence, Union

import numpy as np
import pyopencl as cl
import pyopencl.array

from ._core import Handle, Size, mpi, size_array


@dataclasses.dataclass(frozen=True)
class Range:
    """`size` bytes of `buffer` from byte `offset` on; without `size`, up to the end.

    Collectives count elements of `dtype` (a numpy dtype, or what numpy.dtype accepts).
    """

    buffer: cl.Buffer
    offset: int = 0
    size: Optional[int] = None
    dtype: Any = np.uint8


@dataclasses.dataclass(frozen=True)
class Rect:
    """A rectangular region of `buffer`, as in clEnqueueReadBufferRect.

    `origin` and `region` are (bytes in a row, rows, slices); pitches are in bytes. A row_pitch of 0 means region[0]; a
    slice_pitch of 0 means region[1] * row_pitch. A slice of a pyopencl array, such as `field[1:-1, 0]`, needs no Rect.
    """

    buffer: cl.Buffer
    origin: Sequence[int]
    region: Sequence[int]
    row_pitch: int = 0
    slice_pitch: int = 0


Data = Union[pyopencl.array.Array, cl.Buffer, Range, Rect]


@dataclasses.dataclass(frozen=True)
class Span:
    """Contiguous bytes of a buffer."""

    owner: Any
    buffer: Any
    offset: int
    size: int
    dtype: np.dtype

    def arguments(self) -> list:
        return [Handle(self.buffer.int_ptr), Size(self.offset), Size(self.size)]

    def elements(self) -> int:
        """The number of elements of its dtype. Raises ValueError if a part of one is left."""
        if self.size % self.dtype.itemsize:
            raise ValueError(f"{self.size} bytes are not a whole number of elements of {self.dtype}")
        return self.size // self.dtype.itemsize

    def datatype(self) -> Any:
        """mpi4py's datatype of an element."""
        found = getattr(mpi(), "_typedict").get(self.dtype.char)
        if found is None or self.dtype.hasobject or not self.dtype.isnative:
            raise TypeError(f"MPI has no datatype for elements of {self.dtype}")
        return found

    def part(self, first: int, count: int) -> "Span":
        """`count` elements from element `first` on."""
        width = self.dtype.itemsize
        return Span(self.owner, self.buffer, self.offset + first * width, count * width, self.dtype)


def _runs(array: pyopencl.array.Array) -> tuple[int, list[tuple[int, int]]]:
    """The bytes of each contiguous run of an array, and (count, stride in bytes) of what repeats it, innermost first."""
    run, repeats = array.dtype.itemsize, []
    for count, stride in zip(reversed(array.shape), reversed(array.strides)):
        if count == 1:
            continue
        if not repeats and stride == run:
            run *= count
        elif repeats and stride == repeats[-1][0] * repeats[-1][1]:
            repeats[-1] = (repeats[-1][0] * count, repeats[-1][1])
        else:
            repeats.append((count, stride))
    return run, repeats


def _base(array: pyopencl.array.Array) -> Any:
    if not hasattr(array.base_data, "int_ptr"):
        raise TypeError("the array is not in a buffer; shared virtual memory is not supported")
    return array.base_data


def span(data: Data) -> Span:
    """The bytes of `data`, which must be contiguous."""
    if isinstance(data, pyopencl.array.Array):
        if data.size and _runs(data)[1]:
            raise ValueError(f"an array of shape {data.shape} and strides {data.strides} is not contiguous; only send, recv "
                             "and sendrecv accept it")
        return Span(data, _base(data), data.offset, data.nbytes, data.dtype)
    if isinstance(data, Range):
        size = data.buffer.size - data.offset if data.size is None else data.size
        return Span(data, data.buffer, data.offset, size, np.dtype(data.dtype))
    if isinstance(data, Rect):
        raise TypeError("a Rect is not contiguous; only send, recv and sendrecv accept it")
    return Span(data, data, 0, data.size, np.dtype(np.uint8))


def rect_arguments(data: Data) -> Optional[list]:
    """The arguments from `buffer` to `slice_pitch` without `blocking`; None if the bytes are contiguous."""
    if isinstance(data, Rect):
        if len(data.origin) != 3 or len(data.region) != 3:
            raise ValueError("origin and region of a Rect have three elements each")
        return [Handle(data.buffer.int_ptr), size_array(data.origin), size_array(data.region), Size(data.row_pitch),
                Size(data.slice_pitch)]
    if not isinstance(data, pyopencl.array.Array) or data.size == 0:
        return None
    run, repeats = _runs(data)
    if not repeats:
        return None
    (rows, row_pitch), (slices, slice_pitch) = repeats[0], repeats[1] if len(repeats) > 1 else (1, 0)
    if len(repeats) > 2 or row_pitch < run or (slices > 1 and (slice_pitch < rows * row_pitch or slice_pitch % row_pitch)):
        raise ValueError(f"an array of shape {data.shape} and strides {data.strides} is not a region of rows and slices: the "
                         "stride of the slices must be a multiple of the stride of the rows")
    return [Handle(_base(data).int_ptr), size_array((data.offset, 0, 0)), size_array((run, rows, slices)), Size(row_pitch),
            Size(slice_pitch)]


def rect_of(data: Data) -> list:
    """As rect_arguments, for contiguous bytes, too."""
    found = rect_arguments(data)
    if found is None:
        bytes_ = span(data)
        found = [Handle(bytes_.buffer.int_ptr), size_array((bytes_.offset, 0, 0)), size_array((bytes_.size, 1, 1)), Size(0),
                 Size(0)]
    return found
