# SPDX-License-Identifier: Apache-2.0
"""Casts around an exchange."""

import torch


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
