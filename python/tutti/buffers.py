# SPDX-License-Identifier: Apache-2.0
"""Any array-like object as an address, a count and a type.

Tried in this order: NumPy arrays, DLPack (torch, JAX, CuPy on the host, ...), the buffer protocol
(array.array, bytearray, memoryview). NumPy itself is imported only if the caller has.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NoReturn, Sequence, Tuple

from . import _library as c
from .errors import BadArgument, Unsupported

_NUMPY = {"u1": c.U8, "i1": c.I8, "u2": c.U16, "i2": c.I16, "i4": c.I32, "i8": c.I64,
          "f2": c.F16, "f4": c.F32, "f8": c.F64, "b1": c.BOOL}
_FORMATS = {"B": c.U8, "b": c.I8, "H": c.U16, "h": c.I16, "i": c.I32, "q": c.I64, "e": c.F16,
            "f": c.F32, "d": c.F64, "?": c.BOOL, "l": c.I64, "c": c.U8}
# Complex numbers are pairs of these.
_COMPLEX = {"c8": c.F32, "c16": c.F64, "Zf": c.F32, "Zd": c.F64, (5, 64): c.F32, (5, 128): c.F64}
# DLPack type codes: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool; with bits.
_DLPACK = {(0, 8): c.I8, (0, 16): c.I16, (0, 32): c.I32, (0, 64): c.I64, (1, 8): c.U8,
           (1, 16): c.U16, (2, 16): c.F16, (2, 32): c.F32, (2, 64): c.F64, (4, 16): c.BF16,
           (6, 8): c.BOOL}
_HOST_DEVICES = (1, 3)  # plain and pinned memory
_READ_ONLY = 1


class Buffer:
    """Address, shape and type of an object's elements. `owner` keeps them alive. A complex number
    has `width` 2: it is two elements of `dtype`, and `count` counts both."""

    __slots__ = ("address", "count", "dtype", "shape", "is_writable", "owner", "source", "width")

    def __init__(self, address: int, shape: Sequence[int], dtype: int, is_writable: bool,
                 owner: Any, source: Any, width: int = 1) -> None:
        self.address = address
        self.shape: Tuple[int, ...] = tuple(shape)
        self.dtype = dtype
        self.is_writable = is_writable
        self.owner = owner
        self.source = source
        self.width = count = width
        for extent in shape:
            count *= extent
        self.count = count


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _refuse_layout(source: object) -> NoReturn:
    raise BadArgument(f"{type(source).__name__} is not contiguous; make a contiguous copy first")


def _from_numpy(array: Any) -> Buffer:
    text = array.dtype.str.lstrip("<|=")
    dtype = _NUMPY.get(text, _COMPLEX.get(text))
    if dtype is None and array.dtype.name == "bfloat16":
        dtype = c.BF16
    if dtype is None:
        raise Unsupported(f"NumPy type {array.dtype} is not supported")
    if not array.flags.c_contiguous:
        _refuse_layout(array)
    return Buffer(array.ctypes.data, array.shape, dtype, array.flags.writeable, array, array,
                  2 if text in _COMPLEX else 1)


def _from_dlpack(source: Any) -> Buffer:
    device, _ = source.__dlpack_device__()
    if device not in _HOST_DEVICES:
        raise Unsupported(f"{type(source).__name__} is on a device; copy it to the host first")
    try:
        capsule = source.__dlpack__(max_version=(1, 0))
    except TypeError:  # a producer from before version 1
        capsule = source.__dlpack__()
    is_versioned = _capsule_name(capsule) == b"dltensor_versioned"
    pointer = _capsule_pointer(capsule, _capsule_name(capsule))
    is_writable = True
    if is_versioned:
        versioned = ctypes.cast(pointer, ctypes.POINTER(_Versioned)).contents
        tensor, is_writable = versioned.tensor, not versioned.flags & _READ_ONLY
    else:
        tensor = ctypes.cast(pointer, ctypes.POINTER(_Tensor)).contents
    kind = tensor.code, tensor.bits
    dtype = _DLPACK.get(kind, _COMPLEX.get(kind)) if tensor.lanes == 1 else None
    if dtype is None:
        raise Unsupported(f"{type(source).__name__}: DLPack type ({tensor.code}, {tensor.bits} "
                          "bits) is not supported")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides and not _is_contiguous(shape, [tensor.strides[i] for i in range(len(shape))]):
        _refuse_layout(source)
    address = (tensor.data or 0) + tensor.byte_offset
    return Buffer(address, shape, dtype, is_writable, capsule, source,
                  2 if kind in _COMPLEX else 1)


def _from_protocol(source: Any) -> Buffer:
    try:
        view = memoryview(source)
    except TypeError:
        raise BadArgument(f"{type(source).__name__} is not an array: it supports neither DLPack "
                          "nor the buffer protocol") from None
    text = view.format.lstrip("@=<")
    dtype, width = _FORMATS.get(text, _COMPLEX.get(text)), 2 if text in _COMPLEX else 1
    if dtype is None or c.ITEM_BYTES[dtype] * width != view.itemsize:
        raise Unsupported(f"{type(source).__name__}: format '{view.format}' is not supported")
    if not view.c_contiguous:
        _refuse_layout(source)
    if view.readonly:
        raw = view.tobytes() if view.nbytes else b"\0"
        address = ctypes.cast(ctypes.c_char_p(raw), ctypes.c_void_p).value or 0
        return Buffer(address, view.shape or (), dtype, False, raw, source, width)
    flat = view.cast("B") if view.nbytes else bytearray(1)
    array = (ctypes.c_char * len(flat)).from_buffer(flat)
    return Buffer(ctypes.addressof(array), view.shape or (), dtype, True, (array, view), source,
                  width)


def as_buffer(source: Any) -> Buffer:
    """The Buffer of `source`. Raises BadArgument or Unsupported with the reason."""
    if isinstance(source, Buffer):
        return source
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(source, numpy.ndarray):
        return _from_numpy(source)
    if hasattr(source, "__dlpack__") and hasattr(source, "__dlpack_device__"):
        return _from_dlpack(source)
    return _from_protocol(source)
