# SPDX-License-Identifier: Apache-2.0
"""Gradients in fewer bytes: codecs of the library, and casts around an exchange.

`compression` is one of three things: a codec, such as "int8:block=512"; a function of name and
tensor that returns a codec or None; or a Compressor, as in Horovod, which changes the tensor before
and after an uncoded exchange. What a codec loses is kept by the library under the name of the
tensor, so a coded tensor has the same name and length in every step."""

import ctypes
import os
import re
import warnings
from typing import Callable, Optional, Type, Union

import torch

import tutti
from tutti import _library as c

from . import basics

PLAIN = "none"  # the codec of calls that are sent as they are, whatever rules say
_CODABLE = (torch.float32, torch.float16, torch.bfloat16)
_STATE_KEY = "tutti_codecs"


class Compressor:
    """Makes a tensor smaller before it is sent, and undoes it after."""

    @staticmethod
    def compress(tensor):
        """The tensor to send, and what decompress needs."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor, ctx):
        """The received tensor as the caller wants it."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends the tensor unchanged."""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


class _Cast(Compressor):
    dtype = None

    @classmethod
    def compress(cls, tensor):
        if not tensor.dtype.is_floating_point or tensor.dtype == cls.dtype:
            return tensor, None
        return tensor.to(cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor, ctx):
        return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(_Cast):
    """Half precision on the wire."""

    dtype = torch.float16


class BF16Compressor(_Cast):
    """bfloat16 on the wire: the range of float32 in half the bytes."""

    dtype = torch.bfloat16


class Compression:
    """The casts to choose from."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


# What the argument `compression` takes.
Compressing = Union[str, Callable[[Optional[str], torch.Tensor], Optional[str]], Type[Compressor],
                    Compressor]


# ---- which codec a tensor gets ----

def _no_codec(name, tensor):
    return None


def split(compression):
    """The Compressor of `compression`, and its function of name and tensor that returns a codec."""
    if hasattr(compression, "compress") and hasattr(compression, "decompress"):
        return compression, _no_codec
    if isinstance(compression, str):
        return Compression.none, lambda name, tensor: compression
    if callable(compression):
        return Compression.none, compression
    raise ValueError(f"compression: {compression!r} is no codec such as 'int8:block=512', no "
                     f"function of name and tensor that returns one, and no Compressor")


def codec_for(codec_of, name, tensor, what):
    """The codec of one call outside of optimizers. Without a name of the caller, what is lost
    could not be added to the next tensor."""
    codec = codec_of(name, tensor)
    if codec is not None and name is None and codec != PLAIN and "ef=off" not in codec:
        raise ValueError(f"{what}: codec {codec} keeps what it loses under the name of the call; "
                         f"give a name, or add ef=off to the codec")
    return codec


def _check_codec(codec):
    """Raise ValueError for a text that the library does not accept; without communication."""
    job = basics.job()
    call = job.new_call(c.ALLREDUCE, "codec", 0)
    call.codec = c.encoded_codec(codec)
    handle = ctypes.c_void_p()
    status = c.library.tutti_declare(job._pointer, call, ctypes.byref(handle))
    if status < 0:
        raise ValueError(str(job._error(status)))
    c.library.tutti_handle_free(handle)


def _bytes_of(text):
    """The bytes of a setting such as 64K or 1MiB, which the library has checked."""
    number, unit = re.match(r"\s*(\d+)\s*([kmgt]?)", text.lower()).groups()
    return int(number) << 10 * " kmgt".index(unit or " ")


class Codecs:
    """Which codec each gradient of an optimizer gets. Small ones get none: a codec gains nothing
    there, and they are better exchanged together."""

    def __init__(self, compression, op, who):
        self.compressor, self._codec_of = split(compression)
        self._op, self._who, self._checked = op, who, set()
        self._has_rules = self.compressor is Compression.none and bool(
            os.environ.get("TUTTI_CODEC") or os.environ.get("TUTTI_RULES"))
        self._bytes_min = _bytes_of(os.environ.get("TUTTI_CODEC_MIN") or "64K")

    def of(self, name, p):
        """A codec; PLAIN; or None, where the rules of the job decide."""
        codec = self._codec_of(name, p)
        if codec is not None and codec != PLAIN:
            self._check(codec, name, p)
        if p.numel() * p.element_size() <= self._bytes_min:
            return PLAIN
        if codec is None:
            can = p.dtype in _CODABLE and self._op in (basics.Average, basics.Sum)
            return None if self._has_rules and can else PLAIN
        return codec

    def _check(self, codec, name, p):
        if self._op not in (basics.Average, basics.Sum):
            raise ValueError(f"{self._who}: codecs work with Average and Sum only; leave out "
                             f"compression")
        if p.dtype not in _CODABLE:
            raise ValueError(f"{self._who}: '{name}' is of {p.dtype}, codecs take float32, float16 "
                             f"and bfloat16; give a function that returns None for it")
        if codec not in self._checked and basics.is_initialized():
            _check_codec(codec)
            self._checked.add(codec)


# ---- what error feedback keeps, in checkpoints ----

def add_state(state):
    """Add what this rank keeps of coded tensors to a state_dict, if there is anything."""
    if basics.is_initialized():
        kept = basics.job().codec_save()
        if int.from_bytes(kept[32:40], "little"):  # records, see src/control/coded/state.c
            state[_STATE_KEY] = torch.frombuffer(bytearray(kept), dtype=torch.uint8)
    return state


def take_state(state):
    """The state_dict without what add_state added, which is loaded. That of another rank or of
    another number of ranks is skipped: training continues without it, as at the first step."""
    if _STATE_KEY not in state:
        return state
    kept = state[_STATE_KEY].cpu().contiguous()
    try:
        basics.job().codec_load(ctypes.string_at(kept.data_ptr(), kept.numel()))
    except (tutti.errors.BadArgument, ValueError) as problem:
        warnings.warn(f"the state of codecs is skipped, and training continues without it: "
                      f"{problem}")
    return without_state(state)


def without_state(state):
    """The state_dict without what add_state added."""
    return {key: value for key, value in state.items() if key != _STATE_KEY}
