# SPDX-License-Identifier: Apache-2.0
"""Gradients in flight: reading one waits for it first."""

import torch

_plainly = getattr(torch._C, "DisableTorchFunctionSubclass", torch._C.DisableTorchFunction)

# Functions that do not read the elements.
_HARMLESS = {
    torch.Tensor.size, torch.Tensor.dim, torch.Tensor.numel, torch.Tensor.nelement,
    torch.Tensor.element_size, torch.Tensor.is_contiguous, torch.Tensor.shape.__get__,
    torch.Tensor.dtype.__get__, torch.Tensor.device.__get__, torch.Tensor.layout.__get__,
    torch.Tensor.is_sparse.__get__, torch.Tensor.is_cuda.__get__, torch.Tensor.ndim.__get__,
    torch.Tensor.requires_grad.__get__, torch.Tensor.is_leaf.__get__,
}


class Unfinished(torch.Tensor):
    """A gradient in flight, as users see it. Any operation on it (clipping, unscaling, a norm, a
    copy) is done on the tensor of `settle`, which waits until the elements are final."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in _HARMLESS:
            args = _settled(args)
            kwargs = {key: _settled(value) for key, value in kwargs.items()}
        with _plainly():
            return func(*args, **kwargs)


def unfinished(place, settle):
    """`place` as a tensor that is replaced by settle() when it is used."""
    tensor = place.as_subclass(Unfinished)
    tensor.settle = settle
    return tensor


def _settled(value):
    if isinstance(value, Unfinished):
        return value.settle()
    if type(value) in (list, tuple):
        return type(value)(_settled(item) for item in value)
    return value
