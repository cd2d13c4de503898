# SPDX-License-Identifier: Apache-2.0
"""Ranks of the scenes of bench/codec that are torch's: its casts, and sums through Gloo."""
import os
import time

from bench.common import lines

CASTS = ("f32", "fp16", "bf16")
WAYS = {"gloo": None, "gloo fp16": "float16", "gloo bf16": "bfloat16"}


def _seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def casts(element_count, rounds):
    """{cast: ([seconds of the cast], [seconds of adding its result])}, on one thread; f32 is
    torch's own copy. Memory is taken before: .to() would fault new pages in every time."""
    import torch

    torch.set_num_threads(1)
    types = dict(zip(CASTS, (torch.float32, torch.float16, torch.bfloat16)))
    values, target = torch.rand(element_count) - 0.5, torch.zeros(element_count)
    coded = {name: torch.zeros(element_count, dtype=dtype) for name, dtype in types.items()}
    found = {name: ([], []) for name in CASTS}
    for turn in range(-1, rounds):
        for name, half in coded.items():
            taken = (_seconds(lambda half=half: half.copy_(values)),
                     _seconds(lambda half=half: target.add_(half)))
            if turn >= 0:
                for times_s, each_s in zip(found[name], taken):
                    times_s.append(each_s)
    return found


def sums():
    """One rank of torch.distributed with Gloo. For each line "WAY ITERATIONS" it answers
    "NANOSECONDS ERROR"; ITERATIONS 0 is one call whose result is looked at. A cast is what DDP's
    fp16_compress_hook does to a bucket: cast, divide, sum of halves, cast back."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rank, size = int(os.environ["BENCH_RANK"]), int(os.environ["BENCH_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{os.environ['BENCH_STORE']}", rank=rank,
                            world_size=size)
    count = int(os.environ["BENCH_BYTES"]) // 4
    values = torch.rand(count, generator=torch.Generator().manual_seed(rank)) - 0.5
    result = values.clone()

    def call(dtype):
        if dtype is None:
            dist.all_reduce(result)
            return
        halves = values.to(getattr(torch, dtype)).div_(size)
        dist.all_reduce(halves)
        result.copy_(halves)

    def error(dtype):
        exact = sum(torch.rand(count, generator=torch.Generator().manual_seed(each)) - 0.5
                    for each in range(size))
        factor = 1 if dtype is None else size
        return float((result * factor - exact).norm() / exact.norm())

    def answer(words):
        dtype, iterations = WAYS[words[0].replace("-", " ")], int(words[1])
        result.copy_(values)
        dist.barrier()
        begin_ns = time.monotonic_ns()
        for _ in range(max(1, iterations)):
            call(dtype)
        each_ns = (time.monotonic_ns() - begin_ns) / max(1, iterations)
        return [each_ns, error(dtype) if iterations == 0 else 0.0]

    lines.obey(rank, answer)
    dist.destroy_process_group()
