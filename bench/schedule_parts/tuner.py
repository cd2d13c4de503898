# SPDX-License-Identifier: Apache-2.0
"""The tuner against an exhaustive grid: on computed steps, and on real links."""
import subprocess

from . import ablation, common

MBIT, MBIT_LATER = 250, 100
SEGMENTS = [2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10]
BATCHES = [256, 1 << 10, 4 << 10, 16 << 10, 64 << 10]
REAL = {"resnet50": 1.0, "transformer-base": 1.5}
STEP_US = 150e3
WATCHED_MAX = 20


def run(bench):
    if not bench.options.trace:
        computed(bench)
    if bench.quick:
        return
    for trace, rho in REAL.items():
        if not bench.options.trace or trace in bench.options.trace:
            with common.Hosts(4, bench.folder, MBIT) as hosts:
                Real(bench, hosts, trace, rho).run()


def computed(bench):
    for name, numbers in common.model("tuner").items():
        samples, found, start, drifted, again, after = numbers
        bench.record(section="tuner", setting=name, by="computation", samples=int(samples),
                     over_grid=found, start_over_grid=start, noticed=bool(drifted),
                     samples_after=int(again), over_grid_after=after)
        print(f"tuner, {name}: {samples:.0f} samples, {found:.3f} of the grid's best (start "
              f"{start:.3f}); link at a third: {again:.0f} more, {after:.3f}")


class Tuner:
    """The library's, told about steps that are run here."""

    def __init__(self, start, seed):
        words = [SEGMENTS[0], BATCHES[0], SEGMENTS[-1], BATCHES[-1], *start, *seed]
        self.process = subprocess.Popen(
            [str(common.BUILT / "bench-schedule-model"), "ask", *map(str, words)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.says()

    def says(self):
        self.word, *numbers = self.process.stdout.readline().split()
        self.setting = tuple(float(number) for number in numbers)

    def tell(self, time_us):
        self.process.stdin.write(f"{time_us}\n")
        self.process.stdin.flush()
        self.says()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Real:
    """One step on real links; a job for each segment, since that is settled when it joins."""

    def __init__(self, bench, hosts, trace, rho):
        self.bench, self.hosts, self.trace, self.rho = bench, hosts, trace, rho
        self.jobs, self.step = {}, None

    def job(self, segment):
        if segment not in self.jobs:
            self.jobs[segment] = common.Job(f"tuner-{segment}", 4, self.bench.folder)
            self.jobs[segment].begin(self.hosts, TUTTI_SEGMENT=str(segment))
        return self.jobs[segment]

    def steps_us(self, setting, count):
        """Steps at the nearest rung of each ladder."""
        segment = min(SEGMENTS, key=lambda rung: max(rung / setting[0], setting[0] / rung))
        batch = min(BATCHES, key=lambda rung: max(rung / setting[1], setting[1] / rung))
        job = self.job(segment)
        job.ask(f"table {common.batched(self.step, batch).write(self.bench.folder / 'table')}")
        return job.slowest(f"steps 3 1 {count}")

    def time_us(self, setting):
        return common.median(self.steps_us(setting, 3))

    def tune(self, tuner):
        samples = 0
        while tuner.word == "try":
            tuner.tell(self.time_us(tuner.setting))
            samples += 1
        return samples

    def grid(self):
        """The best of all, and its setting."""
        return min((self.time_us((segment, batch)), (segment, batch))
                   for segment in SEGMENTS for batch in BATCHES)[1]

    def compare(self, tuned, best):
        """Both again, side by side."""
        times = {"tuned": [], "best": []}
        for _ in range(7):
            times["tuned"].append(self.time_us(tuned))
            times["best"].append(self.time_us(best))
        return common.median(times["tuned"]) / common.median(times["best"])

    def run(self):
        tuner = None
        try:
            byte_us = ablation.wire_byte_us(self.hosts, self.job(16 << 10))
            compute_us = STEP_US / max(1, self.rho)
            self.step = common.read_trace(self.trace).scaled(
                compute_us, self.rho * compute_us / byte_us)
            start = (SEGMENTS[-1], BATCHES[-1])
            tuner = Tuner(start, (16 << 10, 4 << 10))
            samples = self.tune(tuner)
            row = {"section": "tuner", "setting": f"{self.trace}, rho {self.rho}", "by": "run",
                   "samples": samples, "tuned": tuner.setting, "mbit": MBIT}
            if self.bench.options.change:
                self.change(tuner, row)
            else:
                best = self.grid()
                row |= {"best": best, "over_grid": round(self.compare(tuner.setting, best), 4),
                        "start_over_grid": round(self.compare(start, best), 4)}
            self.bench.record(**row)
            print(f"tuner, {row}", flush=True)
        finally:
            for job in self.jobs.values():
                job.end()
            if tuner:
                tuner.end()

    def change(self, tuner, row):
        """The link slows down; the tuner must notice, and find its way."""
        self.watch(tuner)
        self.hosts.shape_anew(MBIT_LATER)
        self.watch(tuner)
        noticed = tuner.word == "try"
        samples = self.tune(tuner)
        best = self.grid()
        row |= {"setting": f"{row['setting']}, changed", "mbit_later": MBIT_LATER,
                "noticed": noticed, "samples_after": samples, "tuned_after": tuner.setting,
                "best_after": best,
                "over_grid_after": round(self.compare(tuner.setting, best), 4)}

    def watch(self, tuner):
        """Steps at the tuner's answer, until it knows them or is surprised."""
        times = [time for _ in range(2) for time in self.steps_us(tuner.setting, WATCHED_MAX // 2)]
        for time_us in times:
            if tuner.word == "take":
                tuner.tell(time_us)


def judge(bench, rows):
    for row in rows:
        name = f"tuner, {row['setting']}, by {row['by']}"
        if "over_grid" in row:
            bench.verdicts.add(f"{name}: over the grid's best",
                               f"{row['over_grid']:.4f} in {row['samples']} samples",
                               "at most 1.03 in 15",
                               row["over_grid"] <= 1.03 and row["samples"] <= 15)
        if "over_grid_after" in row:
            bench.verdicts.add(f"{name}: after the link slowed down",
                               f"{row['over_grid_after']:.4f} in {row['samples_after']} more",
                               "at most 1.05 in 15", row["noticed"] and
                               row["over_grid_after"] <= 1.05 and row["samples_after"] <= 15)
