# SPDX-License-Identifier: Apache-2.0
"""torch.distributed with the Gloo backend: one rank.

The loop is the C worker's, loaded as a library; only the call itself comes back here, which adds
about a microsecond to calls that take some eighty.
"""
import ctypes
import datetime
import os
import sys

import torch
import torch.distributed as dist

OK, UNSUPPORTED, FAILED = 0, 1, -1
ALLREDUCE, BROADCAST, ALLGATHER, REDUCESCATTER, ALLTOALL = range(5)


class Case(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("collective", "is_arena", "rank", "size")] + \
               [(name, ctypes.c_size_t) for name in ("count", "input_count", "output_count",
                                                     "input", "output")]


JOIN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Case))
LEAVE = ctypes.CFUNCTYPE(None)


class Peer(ctypes.Structure):
    _fields_ = [("join", JOIN), ("allocate", ALLOCATE), ("release", RELEASE), ("call", CALL),
                ("leave", LEAVE)]


def join(rank_out, size_out):
    rank, size = int(os.environ["BENCH_RANK"]), int(os.environ["BENCH_SIZE"])
    store = dist.FileStore(os.environ["BENCH_STORE"] + "/torch", size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=120))
    rank_out[0], size_out[0] = rank, size
    return OK


def tensor_at(address, count):
    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)


def make_call(item):
    """What a program would do each time, with its tensors made once."""
    source, target = (tensor_at(item.input, item.input_count),
                      tensor_at(item.output, item.output_count))
    if item.collective == ALLREDUCE:
        return lambda: dist.all_reduce(target)
    if item.collective == BROADCAST:
        return lambda: dist.broadcast(target, 0)
    if item.collective == ALLGATHER:
        parts = list(target.chunk(item.size))
        return lambda: dist.all_gather(parts, source)
    if item.collective == ALLTOALL:
        return lambda: dist.all_to_all_single(target, source)
    return None


class Calls:
    """The call of the case at hand."""

    def __init__(self):
        self.key, self.run = None, None

    def __call__(self, pointer):
        item = pointer.contents
        key = (item.collective, item.count, item.input, item.output)
        if key != self.key:
            self.key, self.run = key, make_call(item)
        if self.run is None:
            return UNSUPPORTED
        try:
            self.run()
        except RuntimeError as error:
            print(f"torch: {error}", file=sys.stderr)
            return FAILED
        return OK


def main():
    torch.set_num_threads(1)
    worker = ctypes.CDLL(os.environ["BENCH_WORKER_LIBRARY"])
    peer = Peer(JOIN(join), ALLOCATE(("bench_allocate", worker)),
                RELEASE(("bench_release", worker)), CALL(Calls()),
                LEAVE(dist.destroy_process_group))
    code = worker.bench_worker_run(ctypes.byref(peer))
    sys.stdout.flush()
    os._exit(code)


main()
