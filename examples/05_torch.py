# SPDX-License-Identifier: Apache-2.0
"""A classifier trained by several ranks with PyTorch.

    tutti run -n 4 python examples/05_torch.py

The data is generated: points in a plane, of which each class lies on an arm of a spiral. Every rank
trains on its own share; the gradients are averaged while backward runs. Only the lines with `hvd`
differ from a script for a single process."""

import argparse
import math

import torch

import tutti.torch as hvd

CLASSES, POINTS = 3, 1500


def spiral():
    """Points and their classes, the same on every rank."""
    generator = torch.Generator().manual_seed(1)
    radius = torch.rand(POINTS, generator=generator)
    label = torch.arange(POINTS) % CLASSES
    noise = 0.2 * torch.randn(POINTS, generator=generator)
    angle = 4 * radius + 2 * math.pi * label / CLASSES + noise
    return torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], 1), label


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    hvd.init()
    torch.manual_seed(hvd.rank())
    points, labels = spiral()
    share = slice(hvd.rank(), None, hvd.size())
    model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64),
                                torch.nn.Tanh(), torch.nn.Linear(64, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(options.steps):
        optimizer.zero_grad(set_to_none=False)
        loss = torch.nn.functional.cross_entropy(model(points[share]), labels[share])
        loss.backward()
        optimizer.step()
        if step % 100 == 0 or step == options.steps - 1:
            mean = hvd.allreduce(loss.detach(), name="loss").item()
            if hvd.rank() == 0:
                print(f"step {step:4d}  loss {mean:.4f}", flush=True)
    right = (model(points[share]).argmax(1) == labels[share]).float().sum()
    right = hvd.allreduce(right, op=hvd.Sum, name="right").item()
    if hvd.rank() == 0:
        print(f"{hvd.size()} ranks: {100 * right / POINTS:.1f} % of the points are correct")
    hvd.shutdown()


if __name__ == "__main__":
    main()
