# SPDX-License-Identifier: Apache-2.0
"""An image classifier trained by several ranks: a convolutional network on generated pictures.

    tutti run -n 4 python examples/06_images.py

Each picture is 16 x 16 with a bar, a cross, a ring or a disc somewhere in noise. New compared with
05_torch.py: SyncBatchNorm over all ranks' batches, a sampler of each rank's share, fp16 on the
wire, and metrics averaged over ranks."""

import argparse

import torch

import tutti.torch as hvd

CLASSES, SIDE = 4, 16


def pictures(count, seed):
    """Pictures and their classes, the same on every rank."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    centers = torch.randint(5, SIDE - 5, (count, 2), generator=generator)
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    down = (rows[None] - centers[:, :1, None]).abs()
    across = (columns[None] - centers[:, 1:, None]).abs()
    away = torch.maximum(down, across)
    shapes = torch.stack([(down <= 1) & (across <= 4), ((down == 0) | (across == 0)) & (away <= 4),
                          away == 4, away <= 3], 1).float()
    chosen = shapes[torch.arange(count), labels]
    noise = 0.6 * torch.randn(count, SIDE, SIDE, generator=generator)
    return (chosen + noise)[:, None], labels


def network():
    """Two convolutions and a linear layer."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), hvd.SyncBatchNorm(16), torch.nn.ReLU(),
        torch.nn.MaxPool2d(2), torch.nn.Conv2d(16, 32, 3, padding=1), hvd.SyncBatchNorm(32),
        torch.nn.ReLU(), torch.nn.AdaptiveMaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(128, CLASSES))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64, help="pictures of one rank's batch")
    options = parser.parse_args()
    hvd.init()
    torch.manual_seed(1)
    data = torch.utils.data.TensorDataset(*pictures(2048, 1))
    sampler = torch.utils.data.distributed.DistributedSampler(data, num_replicas=hvd.size(),
                                                              rank=hvd.rank())
    loader = torch.utils.data.DataLoader(data, options.batch, sampler=sampler)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(),
                                         compression=hvd.Compression.fp16)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    tests, wanted = pictures(512, 2)
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for images, labels in loader:
            optimizer.zero_grad(set_to_none=False)
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        model.eval()
        share = slice(hvd.rank(), None, hvd.size())
        with torch.no_grad():
            right = (model(tests[share]).argmax(1) == wanted[share]).float().sum()
        right = hvd.allreduce(right, op=hvd.Sum, name="right").item()
        if hvd.rank() == 0:
            print(f"epoch {epoch}: {100 * right / len(wanted):.1f} % of the pictures are correct",
                  flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
