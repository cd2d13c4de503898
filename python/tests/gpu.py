# SPDX-License-Identifier: Apache-2.0
"""Tensors of a GPU: `tutti run -n 2 python python/tests/gpu.py`, on a machine that has one.

Not part of `make test`, which must not need a GPU. All ranks may use the same one. It needs torch
and nothing else."""

import sys

import torch

import tutti.torch as hvd


def forbid_waiting_for_the_device():
    def refuse(*_):
        raise AssertionError("torch.cuda.synchronize was called")

    torch.cuda.synchronize = refuse


def on_gpu(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, device="cuda")


def check_collectives():
    rank, size = hvd.rank(), hvd.size()
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32):
        mine = torch.full((1000,), rank + 1, dtype=dtype, device="cuda")
        total = hvd.allreduce(mine, op=hvd.Sum)
        assert total.is_cuda and total.dtype == dtype
        assert torch.equal(total, torch.full_like(mine, size * (size + 1) // 2))
        assert hvd.allreduce_(mine, op=hvd.Sum) is mine and torch.equal(mine, total)
    assert torch.equal(hvd.broadcast(on_gpu([rank, 7]), 0), on_gpu([0, 7]))
    assert torch.equal(hvd.allgather(on_gpu([[rank]] * (rank + 1))).flatten(),
                       on_gpu([r for r in range(size) for _ in range(r + 1)]))
    received, _ = hvd.alltoall(on_gpu([rank] * size), torch.ones(size, dtype=torch.int32))
    assert torch.equal(received, on_gpu(list(range(size))))
    part = hvd.reducescatter(torch.ones(size * 3, 2, device="cuda"), op=hvd.Sum)
    assert part.is_cuda and torch.equal(part, torch.full((3, 2), float(size), device="cuda"))
    first, second = hvd.grouped_allreduce([on_gpu([1.0]), on_gpu([2.0] * 5)], op=hvd.Sum)
    assert first.item() == size and torch.equal(second, on_gpu([2.0 * size] * 5))


def check_order_with_the_stream():
    """The exchange reads the results of earlier work on the stream, and later work reads its
    result."""
    for _ in range(20):
        tensor = torch.zeros(1 << 20, device="cuda")
        for _ in range(50):
            tensor += 1.0
        handle = hvd.allreduce_async_(tensor, op=hvd.Sum, name="stream")
        hvd.synchronize(handle)
        assert torch.equal(tensor * 2, torch.full_like(tensor, 100.0 * hvd.size()))
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        tensor = torch.ones(1 << 20, device="cuda") * 3
        hvd.allreduce_(tensor, op=hvd.Average)
        assert torch.equal(tensor, torch.full_like(tensor, 3.0))


def trained(wrap, device):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4))
    model.to(device)
    optimizer = wrap(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    generator = torch.Generator().manual_seed(10 + hvd.rank())
    for _ in range(10):
        inputs = torch.randn(32, 16, generator=generator).to(device)
        optimizer.zero_grad()
        (model(inputs) ** 2).mean().backward()
        optimizer.step()
    return {name: tensor.cpu() for name, tensor in model.state_dict().items()}


def distributed(model, optimizer):
    return hvd.DistributedOptimizer(optimizer, model.named_parameters())


def check_training():
    reduced = trained(distributed, "cuda")
    crossed = trained(hvd.CrossBarrier, "cuda")
    on_host = trained(distributed, "cpu")
    for name, tensor in reduced.items():
        assert torch.equal(tensor, crossed[name]), name
        assert torch.allclose(tensor, on_host[name], 1e-4, 1e-5), name
        for theirs in hvd.allgather_object(tensor):
            assert torch.equal(tensor, theirs), name


def main():
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return
    hvd.init()
    forbid_waiting_for_the_device()
    for check in (check_collectives, check_order_with_the_stream, check_training):
        check()
        if hvd.rank() == 0:
            print(f"{check.__name__}: ok, {hvd.size()} ranks, torch {torch.__version__}",
                  flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    sys.exit(main())
