# SPDX-License-Identifier: Apache-2.0
"""Rows of a table as a caller chooses them, and as the C library takes them: ascending, each once.
Needs NumPy."""

from __future__ import annotations

import ctypes
from typing import Any, Optional

from . import _library as c
from .buffers import Buffer
from .context import _numpy_dtype
from .errors import BadArgument


class Chosen:
    """`numbers`: for C. `places`: of each row that the caller names, its place among them; None: as
    they are. `count`: rows that the caller names, `width` elements each."""

    __slots__ = ("numbers", "places", "count", "width")

    def __init__(self, rows: Any, width: int) -> None:
        import numpy

        given = numpy.asarray(rows)
        if given.size == 0:
            given = numpy.zeros(0, "u8")
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise BadArgument("rows is a sequence of whole numbers", -4)
        if (given < 0).any():
            raise BadArgument(f"row {given.min()} is negative; rows count from 0", -4)
        numbers, self.places = given.astype("u8"), None
        if not (numbers[1:] > numbers[:-1]).all():
            numbers, places = numpy.unique(numbers, return_inverse=True)
            self.places = places.reshape(-1)
        self.numbers, self.count, self.width = numbers, len(given), width

    @property
    def address(self) -> Any:
        return ctypes.cast(self.numbers.ctypes.data, ctypes.POINTER(ctypes.c_uint64))

    def merged(self, values: Buffer) -> Optional[Any]:
        """The values of `numbers`, where rows that are named twice are added; None: `values` as
        they are."""
        import numpy

        if self.places is None:
            return None
        source = _elements(values).reshape(self.count, -1)
        target = numpy.zeros((len(self.numbers), source.shape[1]), source.dtype)
        if len(self.numbers) == self.count:
            target[self.places] = source
        elif values.dtype == c.BF16:
            raise BadArgument("rows named twice cannot be added in bf16; name each row once", -4)
        else:
            numpy.add.at(target, self.places, source)
        return target

    def room(self, target: Buffer) -> Optional[Any]:
        """Memory for the values of `numbers`; None: `target` has them as they come."""
        import numpy

        if self.places is None:
            return None
        dtype = _numpy_dtype(target)
        return numpy.empty((len(self.numbers), self.width // target.width), dtype)

    def spread(self, room: Any, target: Buffer) -> None:
        """What has come, as the caller has named its rows."""
        _elements(target).reshape(self.count, -1)[...] = room[self.places]


def _elements(buffer: Buffer) -> Any:
    """They stay where they are."""
    import numpy

    dtype = _numpy_dtype(buffer)
    count = buffer.count // buffer.width
    if count == 0:
        return numpy.empty(0, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(buffer.address)
    return numpy.frombuffer(memory, dtype)
