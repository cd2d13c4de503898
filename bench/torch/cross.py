# SPDX-License-Identifier: Apache-2.0
"""CrossBarrier on shaped links, with a real model, beside what the ideal schedule would gain.

Two hosts (network namespaces, one rank and one thread of torch each) train a small transformer.
First they train alone, side by side, and note when each layer is used and when each gradient is
there; then the links are shaped so that exchanging all gradients takes `rho` times as long as
computing. DistributedOptimizer (exchange during backward, then a barrier) and CrossBarrier take
turns. The schedule layer computes from those layer times what the first should take, and what the
ideal schedule would: preemptive, without cost, tensor by tensor.

Where cores are few, exchanging and shaping take what the ranks compute with, and no schedule can
hide that. So it is also done with waits: the same model on little data, whose layers wait for what
they took on all of it; parameters, hooks, updates and exchange are as real as before."""
import functools
import statistics
import sys
import time

from bench.common import lines
from bench.common.gpt import small_gpt
from bench.common.jobs import SHARED_CORES, Job
from bench.common.namespaces import FRAME_BYTES, PAYLOAD_BYTES, ScaledHosts, why_not
from bench.common.rounds import in_turn
from bench.common.steps import Step, model

WIDTH, LAYERS, CONTEXT, BATCH, LETTERS = 96, 6, 128, 20, 65
LITTLE_CONTEXT, LITTLE_BATCH = 16, 1
LEAST_WAIT_S = 100e-6  # shorter ones are added to the next
COMPUTED, WAITED = "computed", "waits for computation"
RHOS = (1.0, 0.1)
WAYS = ["alone", "plain", "cross", "bare"]
# As in bench/schedule, tensors and links are small by the same factor, and so is what the kernel
# keeps below the sockets.
SEGMENT, BELOW = "16K", {"burst": "16kb", "gso": 8192, "below": 8192}
PROBE_MBIT = 200
BYTES_AN_ELEMENT = 4


# ---- one rank ----

class Trainer:
    """One way of training the model."""

    def __init__(self, torch, wrap, pace=None):
        self.torch = torch
        self.model = small_gpt(torch, LETTERS, CONTEXT, WIDTH, LAYERS)
        if pace is not None:
            pace.apply(self.model)
        self.optimizer = wrap(self.model, torch.optim.SGD(self.model.parameters(), lr=1e-3,
                                                          momentum=0.9))
        batch, context = (BATCH, CONTEXT) if pace is None else (LITTLE_BATCH, LITTLE_CONTEXT)
        self.text = torch.randint(LETTERS, (batch, context + 1))
        self.marks = {}

    def step(self):
        """The marks are what Layers asks for."""
        clock, marks = time.perf_counter, self.marks
        marks["begin"] = clock()
        logits = self.model(self.text[:, :-1])
        loss = self.torch.nn.functional.cross_entropy(logits.flatten(0, 1),
                                                      self.text[:, 1:].flatten())
        marks["forward"] = clock()
        loss.backward()
        marks["backward"] = clock()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        marks["end"] = clock()

    def steps(self, warm, count):
        """Microseconds of the processor for a step, then those of each step by the clock, from its
        begin to the next one's, when all are alike."""
        for _ in range(warm):
            self.step()
        stamps, burnt = [time.perf_counter()], time.process_time()
        for _ in range(count):
            self.step()
            stamps.append(time.perf_counter())
        return [1e6 * (time.process_time() - burnt) / count,
                *(1e6 * (end - begin) for begin, end in zip(stamps, stamps[1:]))]


class Layers(Trainer):
    """Training without exchange, which notes when parameters are read and gradients are there."""

    def __init__(self, torch, pace=None):
        super().__init__(torch, lambda _, optimizer: optimizer, pace)
        self.parameters = list(self.model.parameters())
        self.used, self.ready = {}, {}
        for module in self.model.modules():
            for p in module.parameters(recurse=False):
                module.register_forward_pre_hook(lambda *_, p=p: self._note(self.used, p))
        for p in self.parameters:
            p.register_post_accumulate_grad_hook(lambda p: self._note(self.ready, p))

    @staticmethod
    def _note(where, p):
        where[p] = time.perf_counter()

    def measure(self, count):
        """Forward and backward, then elements, use and readiness of each parameter; us. Updates
        count as forward: each comes before its parameter's use."""
        rows = []
        for _ in range(count + 2):
            self.step()
            at = self.marks
            update = at["end"] - at["backward"]
            total, before = sum(p.numel() for p in self.parameters), 0
            row = [at["forward"] - at["begin"] + update, at["backward"] - at["forward"]]
            for p in sorted(self.parameters, key=self.used.get):
                row += [p.numel(), self.used[p] - at["begin"] + update * before / total,
                        self.ready[p] - at["forward"]]
                before += p.numel()
            rows.append(row)
        found = [statistics.median(column) for column in zip(*rows[2:])]
        return [number if i >= 2 and i % 3 == 2 else 1e6 * number
                for i, number in enumerate(found)]


class Pace:
    """How long each layer takes, by what Layers.measure gave."""

    def __init__(self, numbers):
        forward, rest = numbers[0], numbers[2:]
        self.uses = [*rest[1::3], forward]  # by place in order of use
        self.readies = rest[2::3]
        self.owed = 0.0

    def _wait(self, us):
        """By looking at the clock, so that the core stays as awake as under real computation."""
        self.owed += us / 1e6
        if self.owed >= LEAST_WAIT_S:
            begin = now = time.perf_counter()
            while now < begin + self.owed:
                now = time.perf_counter()
            self.owed -= now - begin

    def apply(self, model):
        """Make the model's layers wait. Each does it when it is entered, after those hooks that
        were there before; a gradient does it before it is there."""
        parameters = list(model.parameters())  # in order of use
        place = {p: i for i, p in enumerate(parameters)}
        for module in model.modules():
            own = [place[p] for p in module.parameters(recurse=False)]
            if own:
                took = self.uses[max(own) + 1] - self.uses[min(own)]
                module.register_forward_hook(lambda *_, took=took: self._wait(took))
        before = 0.0
        for i in sorted(range(len(parameters)), key=self.readies.__getitem__):
            took = self.readies[i] - before
            before = self.readies[i]
            parameters[i].register_hook(lambda _, took=took: self._wait(took))


def rank_main(_options, _tell):
    """One rank, which obeys lines."""
    import torch
    import tutti.torch as hvd

    torch.set_num_threads(1)
    hvd.init()
    trainers = _trainers(hvd, torch, None)
    lines.obey(hvd.rank(), lambda words: _answer(hvd, torch, trainers, words))
    hvd.shutdown()


@functools.lru_cache(None)
def _without(hvd):
    """A process set that this rank is not in."""
    sets = [hvd.add_process_set([rank]) for rank in range(hvd.size())]
    return sets[(hvd.rank() + 1) % hvd.size()]


def _trainers(hvd, torch, pace):
    return {"alone": Layers(torch, pace),
            "plain": Trainer(torch, lambda model, optimizer: hvd.DistributedOptimizer(
                optimizer, model.named_parameters()), pace),
            "cross": Trainer(torch, hvd.CrossBarrier, pace),
            # Its hooks and updates alone: a rank outside the process set exchanges nothing.
            "bare": Trainer(torch, lambda model, optimizer: hvd.CrossBarrier(
                model, optimizer, process_set=_without(hvd)), pace)}


def _answer(hvd, torch, trainers, words):
    hvd.barrier()
    if words[0] == "pace":
        found = torch.tensor(trainers["alone"].measure(int(words[1])), dtype=torch.float64)
        trainers.update(_trainers(hvd, torch, Pace(hvd.allreduce(found).tolist())))
        return [0]
    if words[0] == "layers":
        return trainers["alone"].measure(int(words[1]))
    if words[0] == "bulk":
        vector, times = torch.ones(int(words[1]) // BYTES_AN_ELEMENT), []
        for _ in range(3):
            begin = time.perf_counter()
            hvd.allreduce_(vector, name="bulk")
            times.append(1e6 * (time.perf_counter() - begin))
        return [min(times)]
    trainer = trainers[words[1]]
    found = trainer.steps(int(words[2]), int(words[3]))
    if words[1] in ("cross", "bare"):
        trainer.optimizer.flush()
    return found


# ---- all ranks ----

def _job(folder, script, hosts):
    """The ranks, one a host."""
    job = Job("torch", len(hosts.names), folder)
    job.start_tutti([sys.executable, script, "--as-rank", "cross"], hosts, OMP_NUM_THREADS="1",
                    TUTTI_SEGMENT=SEGMENT, **SHARED_CORES)
    job.meet()
    return job


def run(options, folder, script):
    """Rows, one a rho."""
    if why_not():
        print(f"bench/torch/run: cross is left out: {why_not()}", file=sys.stderr)
        return
    with ScaledHosts(2, folder, PROBE_MBIT, **BELOW) as hosts:
        job = _job(folder, script, hosts)
        try:
            for way in ([WAITED] if options.quick else [COMPUTED, WAITED]):
                if way == WAITED:
                    job.ask("pace 4")
                for rho in RHOS[:1] if options.quick else RHOS:
                    yield {**_case(options, folder, job, hosts, rho), "layers": way}
        finally:
            job.end()


def _layers(job, count):
    """The step as the schedule layer takes it: the ranks' mean."""
    numbers = [sum(each) / len(each) for each in zip(*job.ask(f"layers {count}"))]
    rows = [{"elements": int(numbers[i]), "use": min(numbers[i + 1], numbers[0]),
             "ready": min(numbers[i + 2], numbers[1])} for i in range(2, len(numbers), 3)]
    return Step(numbers[0], numbers[1], rows)


def _byte_us(job, hosts):
    sent = int(hosts.payload_bytes_a_us() * 100e3) // 4 * 4
    return max(job.ask(f"bulk {sent}"))[0] / sent


def _case(options, folder, job, hosts, rho):
    step = _layers(job, 4 if options.quick else 10)
    byte_us = step.bytes() / (rho * step.compute_us)  # bytes a microsecond, for a start
    hosts.shape_anew(round(byte_us * 8 * FRAME_BYTES / PAYLOAD_BYTES, 1))
    byte_us = _byte_us(job, hosts)
    rounds, count = (2, 3) if options.quick else (options.rounds, 6)
    times, processor = ({name: [] for name in WAYS} for _ in range(2))
    for turn in range(rounds):
        for name in in_turn(WAYS, turn):
            # The ranks' mean, as of their layers: a rank that begins a step late begins the next
            # one late, and counts as long.
            burnt, *took = (statistics.mean(each)
                            for each in zip(*job.ask(f"steps {name} 2 {count}")))
            times[name] += took
            processor[name].append(burnt)
    after = _layers(job, 4 if options.quick else 10)
    both = Step((step.forward_us + after.forward_us) / 2,
                (step.backward_us + after.backward_us) / 2,
                [{key: (a[key] + b[key]) / 2 for key in a} | {"elements": a["elements"]}
                 for a, b in zip(step.rows, after.rows)])
    plain_us, ideal_us, _ = model("step", both.write(folder / "table"), byte_us)["step"]
    median = {name: statistics.median(found) for name, found in times.items()}
    return {"section": "cross", "wanted_rho": rho, "ranks": len(hosts.names),
            "rho": both.bytes() * byte_us / both.compute_us, "mbit": hosts.mbit,
            "bytes": both.bytes(), "tensors": len(both.rows), "forward_us": both.forward_us,
            "backward_us": both.backward_us, "computed_plain_us": plain_us, "ideal_us": ideal_us,
            "times_us": {name: [round(each) for each in found] for name, found in times.items()},
            "median_us": {name: round(found) for name, found in median.items()},
            "processor_us": {name: round(statistics.median(found))
                             for name, found in processor.items()}}


def judge(rows, verdicts):
    """The gain, and the cost where there is nothing to gain."""
    for row in rows:
        name = f"CrossBarrier, rho {row['wanted_rho']}, {row.get('layers', COMPUTED)}"
        median = row["median_us"]
        if row["wanted_rho"] <= 0.1:
            ratio = median["cross"] / median["plain"]
            verdicts.add(f"{name}: step over DistributedOptimizer's", f"{ratio:.4f}",
                         "at most 1.01", ratio <= 1.01)
            continue
        gain, possible = median["plain"] / median["cross"] - 1, row["computed_plain_us"] / row[
            "ideal_us"] - 1
        verdicts.add(f"{name}: gain", f"{100 * gain:.1f} % of {100 * possible:.1f} %",
                     "at least 80 % of it", gain >= 0.8 * possible)


def line(row):
    """A row for people."""
    median = row["median_us"]
    return (f"{row['ranks']} ranks  rho {row['rho']:.2f} ({row['mbit']:.0f} Mbit/s), "
            f"{row.get('layers', COMPUTED)}: alone "
            f"{median['alone'] / 1e3:.1f} ms, with barrier {median['plain'] / 1e3:.1f} (computed "
            f"{row['computed_plain_us'] / 1e3:.1f}), crossing {median['cross'] / 1e3:.1f} (ideal "
            f"{row['ideal_us'] / 1e3:.1f}"
            + (f", its hooks and updates alone {median['bare'] / 1e3:.1f})" if "bare" in median
               else ")"))
