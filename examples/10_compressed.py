# SPDX-License-Identifier: Apache-2.0
"""The same training with gradients in fewer bytes: exact, 8 bits, 4 bits, and by layer.

    tutti run -n 4 python examples/10_compressed.py

A network learns the outputs of another one, whose weights it does not know. A codec rounds what is
sent; what rounding loses is kept and added to the next step's gradient (error feedback), so the
loss falls as it does with exact gradients. `where=all` codes between all ranks; without it only
what hosts send to each other is coded, so nothing would change on one machine."""

import argparse

import torch

import tutti.torch as hvd

INPUTS, OUTPUTS = 64, 10


def network(seed):
    """The same on every rank."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(INPUTS, 384), torch.nn.Tanh(),
                               torch.nn.Linear(384, 384), torch.nn.Tanh(),
                               torch.nn.Linear(384, OUTPUTS))


def by_layer(name, parameter):
    """A codec for each parameter: the largest gets the fewest bits. None: sent as it is."""
    return "int4:where=all" if parameter.numel() > 100_000 else "int8:where=all"


def train(compression, steps):
    """The losses, averaged over ranks, of the first and of the last ten steps."""
    teacher, model = network(seed=1), network(seed=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(),
                                         compression=compression)
    generator, losses = torch.Generator().manual_seed(hvd.rank()), []
    for _ in range(steps):
        inputs = torch.randn(32, INPUTS, generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), 8 * teacher(inputs).detach())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    means = torch.stack([torch.stack(losses[:10]).mean(), torch.stack(losses[-10:]).mean()])
    return hvd.allreduce(means, name="losses").tolist()


def sent_bytes(steps):
    """Of one step's gradients as a rank has sent them in the last training, coded and not."""
    all_bytes = sum(p.numel() * p.element_size() for p in network(0).parameters())
    now = hvd.counters()
    coded, wire = [now[key] - sent_bytes.before.get(key, 0)
                   for key in ("coded_raw_bytes", "coded_wire_bytes")]
    sent_bytes.before = now
    return all_bytes - (coded - wire) // steps


sent_bytes.before = {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    hvd.init()
    for label, compression in (("exact", hvd.Compression.none), ("int8", "int8:where=all"),
                               ("int4", "int4:where=all"), ("by layer", by_layer)):
        first, last = train(compression, options.steps)
        sent = sent_bytes(options.steps)
        if hvd.rank() == 0:
            print(f"{label:8}  {sent / 1000:6.1f} kB a step  loss {first:.4f} to {last:.4f}",
                  flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
