# SPDX-License-Identifier: Apache-2.0
"""A small character GPT under torch's DistributedDataParallel, on Tutti.

    tutti run -n 4 python examples/07_char_gpt.py [TEXT...]

It learns the given files, or the licence beside this folder. Only `init_process_group("tutti")`
differs from a script on Gloo."""

import argparse
import os
import pathlib

import torch
import torch.distributed as dist

import tutti.torch.backend  # noqa: F401  registers "tutti" without the wheel

CONTEXT, WIDTH, HEADS, LAYERS = 64, 96, 4, 2


class Gpt(torch.nn.Module):
    """Embeddings, causal transformer layers, a linear head."""

    def __init__(self, letters):
        super().__init__()
        self.letter = torch.nn.Embedding(letters, WIDTH)
        self.place = torch.nn.Embedding(CONTEXT, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0,
                                                 batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, letters)
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), -torch.inf).triu(1))

    def forward(self, text):
        x = self.letter(text) + self.place(torch.arange(text.shape[1]))
        return self.head(self.layers(x, self.mask))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("texts", nargs="*")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    files = options.texts or [pathlib.Path(__file__).resolve().parents[1] / "LICENSE"]
    text = "".join(pathlib.Path(file).read_text(encoding="utf-8") for file in files)
    letters = sorted(set(text))
    data = torch.tensor([letters.index(letter) for letter in text])
    rank, size = int(os.environ.get("TUTTI_RANK", 0)), int(os.environ.get("TUTTI_SIZE", 1))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29571")
    dist.init_process_group("tutti", rank=rank, world_size=size)
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(Gpt(len(letters)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    draws = torch.Generator().manual_seed(rank)
    for step in range(options.steps):
        starts = torch.randint(len(data) - CONTEXT - 1, (16,), generator=draws)
        batch = torch.stack([data[start:start + CONTEXT + 1] for start in starts])
        optimizer.zero_grad()
        guesses = model(batch[:, :-1])
        loss = torch.nn.functional.cross_entropy(guesses.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == options.steps - 1:
            mean = loss.detach().clone()
            dist.all_reduce(mean, op=dist.ReduceOp.AVG)
            if rank == 0:
                print(f"step {step:4d}  loss {mean.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
