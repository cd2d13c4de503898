# SPDX-License-Identifier: Apache-2.0
"""Loss of the character GPT of bench/codec after equal steps, by policy.

4 ranks of this host, from the same parameters and on the same batches; the loss is that of text
which is not trained on. Inner optimizer: Adam, or for DiLoCo AdamW, lr 1e-3. Speed does not
matter here."""
import statistics
import sys

from bench.codec.train import LETTERS, Trainer, corpus
from bench.common import environment, lines
from bench.common.jobs import SHARED_CORES, Job

RANKS, STEPS, CHUNK = 4, 500, 20
BULK = "bulk"
POLICIES = (BULK, "local:8", "local:1,8@100", "outer:32", "pipeline:1")
WANTED = 0.02


class Policy(Trainer):
    """One way of training; its optimizer takes the place of bench/codec's."""

    def __init__(self, torch, hvd, way, text):
        super().__init__(torch, hvd, "alone", text, "adam")
        adam, model = self.optimizer, self.model
        if way == BULK:
            self.optimizer = hvd.DistributedOptimizer(adam, model.named_parameters())
        elif way == "outer:32":
            inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
            self.optimizer = hvd.DiLoCo(named(way, model), inner, 32, fragments=4, delay=6,
                                        alpha=0.5)
        elif way == "pipeline:1":
            self.optimizer = hvd.PipelinedOptimizer(adam, named(way, model))
        else:
            self.optimizer = hvd.LocalSGD(named(way, model), adam, way.partition(":")[2],
                                          state="average")

    def evaluate(self):
        """Of the parameters as a flush leaves them; training goes on from those before."""
        kept = [p.detach().clone() for p in self.model.parameters()]
        with self.torch.no_grad():
            for i, p in enumerate(self.model.parameters()):
                p.copy_(self.hvd.allreduce(p, op=self.hvd.Average, name=f"mean.{i}"))
            loss = self.held_out_loss()
            for p, value in zip(self.model.parameters(), kept):
                p.copy_(value)
        return loss


def named(way, model):
    """Names of the policy's own: several train in one job."""
    return [(f"{way}.{name}", p) for name, p in model.named_parameters()]


def rank_main():
    """One rank: "learn WAY COUNT", "loss WAY"."""
    import torch
    import tutti.torch as hvd

    torch.set_num_threads(1)
    hvd.init()
    text, policies = corpus(torch), {}

    def answer(words):
        if words[1] not in policies:
            policies[words[1]] = Policy(torch, hvd, words[1], text)
        own = policies[words[1]]
        return own.steps(0, int(words[2])) if words[0] == "learn" else own.evaluate()

    lines.obey(hvd.rank(), answer)
    policies.clear()
    hvd.shutdown()


def run(options, folder, script):
    """A row, or none without torch."""
    if not environment.has_torch():
        print("bench/sync/run: train is left out: no torch", file=sys.stderr)
        return []
    steps, losses = options.steps or (20 if options.quick else STEPS), {}
    job = Job("train", RANKS, folder)
    try:
        job.start_tutti([sys.executable, script, "--as-rank"], None, OMP_NUM_THREADS="1",
                        **SHARED_CORES)
        job.meet()
        for done in range(0, steps, CHUNK):
            for way in POLICIES:
                job.ask(f"learn {way} {min(CHUNK, steps - done)}")
                if done + CHUNK > steps - 5 * CHUNK:  # of the last few
                    losses.setdefault(way, []).append(job.ask(f"loss {way}")[0][0])
    finally:
        job.end()
    loss = {way: round(statistics.mean(found), 5) for way, found in losses.items()}
    for way, value in loss.items():
        print(f"train     {way:<66} loss {value:.4f} after {steps} steps", flush=True)
    return [{"section": "train", "ranks": RANKS, "steps": steps, "loss": loss}]


def judge(kept, row):
    """Losses against bulk's."""
    for way, value in row["loss"].items():
        over = value / row["loss"][BULK] - 1
        if way != BULK:
            kept.add(f"{way}: loss after {row['steps']} steps over bulk's", f"{100 * over:+.2f} %",
                     f"at most +{100 * WANTED:.0f} %", over <= WANTED)
