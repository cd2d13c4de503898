# SPDX-License-Identifier: Apache-2.0
"""The process group that torch.distributed returns to users.

c10d wraps the Work of a Python backend into one of its own, which is never marked as completed, and
its dispatcher takes longer than a small exchange. So calls from Python go to the backend directly,
except where dispatched calls are observed: by a profiler, a mode, a subclass of Tensor. C++ callers
(DDP, functional collectives) come here through c10d's trampolines."""

import torch
import torch.distributed as dist

from .tensors import PLAIN

# Leading arguments of the methods that bypass the dispatcher: lists (L), or tensors (T).
_FORMS = {"allreduce": "L", "allreduce_coalesced": "L", "broadcast": "L", "reduce": "L",
          "send": "L", "recv": "L", "barrier": "",
          "allgather": "LL", "allgather_coalesced": "LL", "gather": "LL", "scatter": "LL",
          "reduce_scatter": "LL", "alltoall": "LL", "all_gather_single_coalesced": "LL",
          "allgather_into_tensor_coalesced": "LL", "reduce_scatter_single_coalesced": "LL",
          "reduce_scatter_tensor_coalesced": "LL", "all_gather_single": "TT",
          "_allgather_base": "TT", "reduce_scatter_single": "TT", "_reduce_scatter_base": "TT",
          "gather_single": "TT", "gather_into_tensor": "TT", "alltoall_base": "TT",
          "all_to_all_single": "TT"}
# Types of the arguments that may follow. Calls with other types are left to c10d.
_FOLLOWING = {int, list, *(getattr(torch._C._distributed_c10d, f"{name}Options") for name in (
    "Allreduce", "AllreduceCoalesced", "Allgather", "AllToAll", "Barrier", "Broadcast", "Gather",
    "Reduce", "ReduceScatter", "Scatter"))}
_profiles = torch.autograd._profiler_enabled
_count_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)


def _is_plain(tensors):
    for tensor in tensors:
        if type(tensor) not in PLAIN and not (type(tensor) is list and _is_plain(tensor)):
            return False
    return True


def _fits(arguments, named, form):
    """Are these arguments in the form that the backend takes?"""
    if len(arguments) < len(form):
        return False
    for index, argument in enumerate(arguments):
        if index >= len(form):
            if type(argument) not in _FOLLOWING:
                return False
        elif form[index] == "T":
            if type(argument) not in PLAIN:
                return False
        elif type(argument) is not list or not _is_plain(argument):
            return False
    return not named or all(type(argument) in _FOLLOWING for argument in named.values())


def _direct(name, form):
    """The method of that name. c10d's own method would call it again, unless the calling code has
    the method's name: by it pybind11 recognises a call from the override."""
    dispatched = getattr(dist.ProcessGroup, name)

    def method(self, *arguments, **named):
        if _profiles() or _count_modes() or not _fits(arguments, named, form):
            return dispatched(self, *arguments, **named)
        return getattr(self.tutti, name)(*arguments, **named)

    method.__code__ = method.__code__.replace(co_name=name)
    method.__name__ = name
    return method


class TuttiGroup(dist.ProcessGroup):
    """A process group with one backend for all devices, `tutti`."""

    def __init__(self, store, backend, devices, make):
        super().__init__(store, backend.rank(), backend.size())
        self.tutti, self._store, self._make = backend, store, make
        kind = dist.ProcessGroup.BackendType.CUSTOM
        self._set_default_backend(kind)
        for device in devices:
            self._register_backend(torch.device(device), kind, backend)

    def shutdown(self):
        self.tutti.shutdown()

    def abort(self):
        self.tutti.abort()

    def recv_anysource(self, tensors, tag=0):
        """Bypasses c10d, whose own Work does not know the sender."""
        return self.tutti.recv_anysource(tensors, tag)

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """A barrier whose error names the ranks that did not arrive in time."""
        self.tutti.wait_for_all(timeout)

    def split_group(self, ranks, timeout=None, opts=None, group_name=None, group_desc=None,
                    device_types=None):
        """A group of these of its ranks; None if this rank is not among them."""
        if self.rank() not in ranks:
            return None
        store = dist.PrefixStore(f"{group_name}/", self._store)
        part = self._make(store, ranks.index(self.rank()), len(ranks), timeout, self.tutti.place,
                          ranks)
        part._set_group_name(group_name)
        part._set_group_desc(group_desc or "undefined")
        return part


for _name, _form in _FORMS.items():
    if hasattr(dist.ProcessGroup, _name):
        setattr(TuttiGroup, _name, _direct(_name, _form))
