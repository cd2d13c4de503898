# SPDX-License-Identifier: Apache-2.0
"""Training at everyone's own pace: parameters live in a store, whose owners run the optimizer.

    tutti run -n 4 --servers 2 python examples/13_stale.py

The workers take turns at being slow: in every eighth step a worker needs 40 ms more. Under bulk
everyone waits for it. Under stale:3 the others may be three steps ahead, so the same steps take
less time; gradients are then up to three steps old, and the loss is about the same."""

import argparse
import time

import torch

import tutti.torch as hvd

INPUTS, OUTPUTS, SLOW_S = 32, 8, 0.04


def network(seed):
    """Two layers."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(INPUTS, 128), torch.nn.Tanh(),
                               torch.nn.Linear(128, OUTPUTS))


def loss_of(model, teacher, inputs):
    """How far the model is from the network whose outputs it learns."""
    return torch.nn.functional.mse_loss(model(inputs), 4 * teacher(inputs).detach())


def train(policy, steps):
    """Seconds, and the losses before and after, on inputs that no worker has trained with."""
    teacher, model = network(seed=1), network(seed=2)
    tests = torch.randn(512, INPUTS, generator=torch.Generator().manual_seed(99))
    before = loss_of(model, teacher, tests).item()
    optimizer = hvd.ServerOptimizer(model.named_parameters(), policy=policy, update="momentum",
                                    lr=0.02, momentum=0.8)
    generator = torch.Generator().manual_seed(hvd.rank())
    begin = time.monotonic()
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, teacher, torch.randn(32, INPUTS, generator=generator)).backward()
        if step % 8 == 2 * hvd.rank() % 8:
            time.sleep(SLOW_S)
        optimizer.step()
    optimizer.close()  # waits for the others: every worker has the final values
    return time.monotonic() - begin, before, loss_of(model, teacher, tests).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("policies", nargs="*", help="bulk, stale:S, async, quorum:K")
    options = parser.parse_args()
    hvd.init()
    torch.set_num_threads(1)
    for policy in options.policies or ["bulk", "stale:3"]:
        seconds, before, after = train(policy, options.steps)
        if hvd.rank() == 0:
            print(f"{policy:8} {options.steps} steps of {hvd.size()} workers in {seconds:.2f} s, "
                  f"loss {before:.3f} to {after:.3f}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
