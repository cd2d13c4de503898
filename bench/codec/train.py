# SPDX-License-Identifier: Apache-2.0
"""Training of a character GPT with each codec: the time of a step, and the loss after equal steps.

Time: 4 hosts, links of 100 Mbit/s, one rank and one thread of torch each. A step without exchange
takes C, one with whole gradients C + N; a codec that sends the share w of the bytes could take
C + w N. w is read from the hosts' network interfaces. The ranks of all hosts share this machine's
cores, in C as in the rest.

Loss: 4 ranks of this host, in memory, codecs with where=all, from the same parameters and on the
same batches; the loss is that of text which is not trained on. The text is the documents of this
tree, so losses compare within a run only."""
import pathlib
import statistics
import sys
import time

from bench.common import environment, lines, namespaces, tree
from bench.common.gpt import small_gpt
from bench.common.jobs import SHARED_CORES, Job
from bench.common.rounds import in_turn
from bench.codec.links import RATES

RANKS, MBIT = 4, 100
WIDTH, LAYERS, CONTEXT, BATCH = 256, 4, 64, 8
LETTERS = "\n" + "".join(map(chr, range(32, 127)))
HELD_OUT, HELD_OUT_BATCHES = 0.1, 8
OPTIMIZERS = {"adam": {"lr": 1e-3}, "sgd": {"lr": 0.1, "momentum": 0.9}}
PARTS = ("step", "loss")
ALONE, NONE = "alone", "none"
CODECS, CODECS_QUICK = ("none", "bf16", "int8", "sign", "onebit"), ("none", "int8")
ROUNDS, STEPS = 5, 400  # turns of two steps; steps until the loss is taken
CHUNK = 20  # steps of a line: a driver waits for an answer for a minute at most
# How much larger the loss may be than that of whole gradients.
WANTED = {"bf16": 0.01, "int8": 0.01, "sign": 0.02, "onebit": 0.02}


# ---- one rank ----

def corpus(torch):
    """The documents of this tree as numbers of letters; what is no letter becomes a blank."""
    place = {letter: number for number, letter in enumerate(LETTERS)}
    paths = sorted(path for path in tree.ROOT.rglob("*.md")
                   if tree.BUILD not in path.parents)
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    return torch.tensor([place.get(letter, place[" "]) for letter in text])


def sent_bytes():
    """By this host so far; 0 where there is no such link."""
    for line_ in pathlib.Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines():
        if line_.strip().startswith("wire:"):
            return int(line_.split(":")[1].split()[8])
    return 0


class Trainer:
    """One way of training: alone, or with a codec."""

    def __init__(self, torch, hvd, way, text, optimizer):
        self.torch, self.hvd = torch, hvd
        self.model = small_gpt(torch, len(LETTERS), CONTEXT, WIDTH, LAYERS)
        border = int(len(text) * (1 - HELD_OUT))
        self.text, self.held_out = text[:border], text[border:]
        kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer]
        self.optimizer = kind(self.model.parameters(), **OPTIMIZERS[optimizer])
        if way != ALONE:
            # Names are of the way: error feedback is kept by name.
            named = [(f"{way}.{name}", p) for name, p in self.model.named_parameters()]
            self.optimizer = hvd.DistributedOptimizer(
                self.optimizer, named, compression=hvd.Compression.none if way == NONE else way)
        self.draws = torch.Generator().manual_seed(hvd.rank())

    def loss(self, text, draws):
        torch = self.torch
        starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,), generator=draws)
        rows = torch.stack([text[start:start + CONTEXT + 1] for start in starts.tolist()])
        return torch.nn.functional.cross_entropy(self.model(rows[:, :-1]).flatten(0, 1),
                                                 rows[:, 1:].flatten())

    def step(self):
        self.optimizer.zero_grad(set_to_none=False)
        self.loss(self.text, self.draws).backward()
        self.optimizer.step()

    def steps(self, warm, count):
        """Seconds and bytes sent, of a step."""
        for _ in range(warm):
            self.step()
        self.hvd.barrier()
        sent, begin = sent_bytes(), time.perf_counter()
        for _ in range(count):
            self.step()
        return [(time.perf_counter() - begin) / count, (sent_bytes() - sent) / count]

    def held_out_loss(self):
        """Of all ranks' batches, which are the same for all ways."""
        draws = self.torch.Generator().manual_seed(1000 + self.hvd.rank())
        with self.torch.no_grad():
            losses = self.torch.stack([self.loss(self.held_out, draws)
                                       for _ in range(HELD_OUT_BATCHES)])
        return [self.hvd.allreduce(losses.mean(), name="loss").item()]


def rank_main(optimizer):
    """One rank: "time WAY WARM COUNT", "learn WAY COUNT", "loss WAY", "size WAY"."""
    import torch
    import tutti.torch as hvd

    torch.set_num_threads(1)
    hvd.init()
    text, trainers = corpus(torch), {}

    def answer(words):
        if words[1] not in trainers:
            trainers[words[1]] = Trainer(torch, hvd, words[1], text, optimizer)
        trainer = trainers[words[1]]
        hvd.barrier()
        if words[0] == "time":
            return trainer.steps(int(words[2]), int(words[3]))
        if words[0] == "learn":
            return trainer.steps(0, int(words[2]))
        if words[0] == "loss":
            return trainer.held_out_loss()
        return [sum(p.numel() for p in trainer.model.parameters())]

    lines.obey(hvd.rank(), answer)
    trainers.clear()
    hvd.shutdown()


# ---- all ranks ----

def run(options, folder, script):
    """Rows, one a way and measurement."""
    if not environment.has_torch():
        print("bench/codec/run: train is left out: no torch", file=sys.stderr)
        return
    codecs = options.codec or (CODECS_QUICK if options.quick else CODECS)
    codecs = (NONE, *(codec for codec in codecs if codec != NONE))
    command = [sys.executable, script, "--as-rank", "train", "--optimizer", options.optimizer]
    parts = options.part or PARTS
    if "step" in parts and namespaces.why_not():
        print(f"bench/codec/run: steps of train are left out: {namespaces.why_not()}",
              file=sys.stderr)
    elif "step" in parts:
        own = folder / "train-links"
        own.mkdir()
        with namespaces.Hosts(RANKS, own, congestion="cubic", **RATES[MBIT]) as hosts:
            job = _job(own, command, hosts)
            try:
                yield from _times(options, job, codecs)
            finally:
                job.end()
    if "loss" not in parts:
        return
    own = folder / "train-memory"
    own.mkdir()
    job = _job(own, command, None)
    try:
        yield from _losses(options, job, codecs)
    finally:
        job.end()


def _job(folder, command, hosts):
    job = Job("train", RANKS, folder)
    job.start_tutti(command, hosts, OMP_NUM_THREADS="1", **SHARED_CORES)
    job.meet()
    return job


def _times(options, job, codecs):
    ways = (ALONE, *codecs)
    elements = int(job.ask(f"size {ALONE}")[0][0])
    times_s, sent = ({way: [] for way in ways} for _ in range(2))
    for turn in range(options.rounds or (1 if options.quick else ROUNDS)):
        for way in in_turn(ways, turn):
            found = job.ask(f"time {way} 1 {1 if options.quick else 2}")
            times_s[way].append(max(each[0] for each in found))
            sent[way].append(statistics.mean(each[1] for each in found))
    step_s = {way: statistics.median(found) for way, found in times_s.items()}
    for way in ways:
        row = {"scene": "train", "part": "step", "way": way, "mbit": MBIT, "ranks": RANKS,
               "parameters": elements, "rounds": len(times_s[way]),
               "step_ms": round(1e3 * step_s[way], 1),
               "least_ms": round(1e3 * min(times_s[way]), 1),
               "most_ms": round(1e3 * max(times_s[way]), 1),
               "sent_bytes": round(statistics.median(sent[way]))}
        if way in codecs and way != NONE:
            share = statistics.median(sent[way]) / statistics.median(sent[NONE])
            compute_s, network_s = step_s[ALONE], step_s[NONE] - step_s[ALONE]
            row |= {"wire_share": round(share, 4),
                    "speed_up": round(step_s[NONE] / step_s[way], 3),
                    "possible": round(step_s[NONE] / (compute_s + share * network_s), 3)}
        yield row


def _losses(options, job, codecs):
    steps = options.steps or (6 if options.quick else STEPS)
    names = {codec: codec if codec == NONE else
             codec + ("," if ":" in codec else ":") + "where=all" for codec in codecs}
    loss = {}
    for done in range(0, steps, CHUNK):
        for codec in codecs:
            job.ask(f"learn {names[codec]} {min(CHUNK, steps - done)}")
            loss[codec] = job.ask(f"loss {names[codec]}")[0][0]
    for codec in codecs:
        yield {"scene": "train", "part": "loss", "way": codec, "ranks": RANKS, "steps": steps,
               "optimizer": options.optimizer, "loss": round(loss[codec], 5),
               "over_none": round(loss[codec] / loss[NONE] - 1, 5)}


def judge(found, verdicts):
    """Losses against that of whole gradients."""
    for row in found:
        wanted = WANTED.get(row["way"])
        if row["part"] == "loss" and wanted is not None:
            verdicts.add(f"{row['way']}, {row['optimizer']}: loss after {row['steps']} steps over "
                         "none's",
                         f"{100 * row['over_none']:+.2f} %", f"at most +{100 * wanted:.0f} %",
                         row["over_none"] <= wanted)


def ratios(found):
    """Lines: the gain, beside what the bytes allow."""
    for row in found:
        if "speed_up" in row:
            yield (f"{row['mbit']} Mbit/s, {row['way']}: a step is {row['speed_up']:.2f} times as "
                   f"fast as with none, (C + N) / (C + w N) is {row['possible']:.2f}")


def line(row):
    """A row for people."""
    if row["part"] == "loss":
        return (f"{row['ranks']} ranks in memory, {row['optimizer']}  {row['way']:<8} loss "
                f"{row['loss']:.4f} after {row['steps']} steps, {100 * row['over_none']:+.2f} % "
                "over none's")
    text = (f"{row['ranks']} hosts, {row['mbit']} Mbit/s  {row['way']:<8} step "
            f"{row['step_ms']:8.1f} ms ({row['least_ms']:.1f} .. {row['most_ms']:.1f}), "
            f"{row['sent_bytes'] / 1e6:.2f} MB sent")
    return text + (f", w {row['wire_share']:.3f}" if "wire_share" in row else "")
