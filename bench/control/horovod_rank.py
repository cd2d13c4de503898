#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of bench/control/run by Horovod: the same tensors, in the same kind of order.

usage: horovod_rank.py MODEL STEPS GROUPS SHRINK   (started by bench/control/run --horovod)
"""

import json
import math
import pathlib
import random
import resource
import sys
import time

import horovod.torch as hvd
import torch

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bench.common import shapes  # noqa: E402

WARM_UP = 8


def bert_large():
    sizes = [30522 * 1024, 512 * 1024, 2 * 1024]
    for _ in range(24):
        sizes += [1024 * 1024, 1024] * 4 + [4 << 20, 4 << 10, 4 << 20] + [1024] * 5
    return sizes + [1024] * 11


def step(tensors, groups, order):
    hvd.barrier()
    begin = time.perf_counter()
    handles = []
    if groups:
        for group in order:
            first, last = group * len(tensors) // groups, (group + 1) * len(tensors) // groups
            handles.append(hvd.grouped_allreduce_async_(tensors[first:last], name=f"g.{group}",
                                                        op=hvd.Sum))
    else:
        for i in order:
            handles.append(hvd.allreduce_async_(tensors[i], name=f"t.{i}", op=hvd.Sum))
    submitted = time.perf_counter()
    for handle in handles:
        hvd.synchronize(handle)
    end = time.perf_counter()
    return (end - submitted) * 1e6, (end - begin) * 1e6


def cpu_us():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return (use.ru_utime + use.ru_stime) * 1e6


def main():
    model, steps, groups, shrink = sys.argv[1], *map(int, sys.argv[2:5])
    hvd.init()
    torch.set_num_threads(1)
    shuffled = random.Random(hvd.rank() + 1)
    sizes = bert_large() if model == "bert-large" else [
        math.prod(shape) for shape in reversed(shapes.resnet50())]
    tensors = [torch.zeros(size // shrink + 1) for size in sizes]
    samples, cpu = [], 0.0
    for number in range(WARM_UP + steps):
        order = list(range(groups or len(tensors)))
        shuffled.shuffle(order)
        cpu = cpu_us() if number == WARM_UP else cpu
        samples.append(step(tensors, groups, order))
    cpu = (cpu_us() - cpu) / steps
    samples = samples[WARM_UP:]
    if hvd.rank() == 0:
        middle = len(samples) // 2
        print(json.dumps({"tensors": len(tensors), "ranks": hvd.size(), "groups": groups,
                          "tail_us": sorted(s[0] for s in samples)[middle],
                          "step_us": sorted(s[1] for s in samples)[middle], "cpu_us": cpu}))
    hvd.shutdown()


if __name__ == "__main__":
    main()
