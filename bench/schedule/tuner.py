# SPDX-License-Identifier: Apache-2.0
"""The tuner against an exhaustive grid: on computed steps, and on real links."""
import itertools
import statistics

from bench.common.namespaces import ScaledHosts
from bench.common.steps import model
from bench.schedule import ablation
from bench.schedule.cores import Watch
from bench.schedule.ranks import Job
from bench.schedule.trace import read_trace

MBIT, MBIT_LATER = 250, 125
CHUNKS = [16 << 10, 32 << 10, 64 << 10, 128 << 10, 512 << 10]
CREDITS = [256 << 10, 2 << 20, 256 << 20]
FUSES = [1 << 10, 16 << 10, 256 << 10]
START = (512 << 10, 256 << 10, 256 << 10)
DEFAULTS = (256 << 10, 256 << 20, 64 << 10)  # so much credit is as good as none
REAL = {"resnet50": 1.0, "transformer-base": 1.5}
STEP_US = 100e3
BLOCK_STEPS = 20    # between two looks at what the job does
SETTLED_STEPS = 60  # with one setting: longer than two samples of the final
NOTICE_BLOCKS = 10
PLANNED_STEPS = 5   # until tensors go without negotiation
ROUNDS = 7
DEFAULTS_JOBS = 3
BESIDE_US = 60e3    # of a step beside the defaults, at every link speed


def run(bench):
    if bench.options.defaults:
        for trace in bench.options.trace or ablation.TRACES:
            with ScaledHosts(4, bench.folder, MBIT) as hosts:
                for rho in bench.options.rho or ablation.RHOS:
                    Watch.calm()
                    Beside(bench, hosts, trace, rho).run()
        return
    if not bench.options.trace:
        computed(bench)
    if bench.quick:
        return
    for trace, rho in REAL.items():
        if not bench.options.trace or trace in bench.options.trace:
            with ScaledHosts(4, bench.folder, MBIT) as hosts:
                Real(bench, hosts, trace, rho).run()


def computed(bench):
    for name, numbers in model("tuner").items():
        samples, found, start, drifted, again, after = numbers
        bench.record(section="tuner", setting=name, by="computation", samples=int(samples),
                     over_grid=found, start_over_grid=start, noticed=bool(drifted),
                     samples_after=int(again), over_grid_after=after)
        print(f"tuner, {name}: {samples:.0f} samples, {found:.3f} of the grid's best (start "
              f"{start:.3f}); link at a third: {again:.0f} more, {after:.3f}")


class Real:
    """A job that tunes itself (TUTTI_TUNE), and jobs with every setting of a grid."""

    step_us, start = STEP_US, START

    def __init__(self, bench, hosts, trace, rho):
        self.bench, self.hosts, self.trace, self.rho = bench, hosts, trace, rho
        self.table, self.live = None, None

    def job(self, name, **settings):
        job = self.begin(name, **settings)
        job.ask(f"table {self.table}")
        return job

    def begin(self, name, **settings):
        name = f"tuner-{self.trace}-{self.rho}-{name}"  # of one run, no two jobs have the same
        return Job(name, 4, self.bench.folder).begin(self.hosts, **settings)

    def fixed(self, name, setting, **others):
        chunk, credit, fuse = (str(int(number)) for number in setting)
        return self.job(name, TUTTI_CHUNK=chunk, TUTTI_CREDIT=credit, TUTTI_FUSE=fuse, **others)

    @staticmethod
    def train(job, count):
        """The slowest rank's microseconds and the setting, step by step."""
        answers = job.ask(f"train {count}")
        return [(max(answer[4 * step] for answer in answers) / 1e3,
                 tuple(int(number) for number in answers[0][4 * step + 1:4 * step + 4]))
                for step in range(count)]

    def settle(self, tried=()):
        """Train until the setting stays: how many were tried, and what it came to."""
        tried, run = list(tried), 0
        while run < SETTLED_STEPS:
            for _, setting in self.train(self.live, BLOCK_STEPS):
                run = run + 1 if tried and setting == tried[-1] else 1
                tried += [] if tried and setting == tried[-1] else [setting]
        # The answer comes last; where that is the start, it is no sample more.
        return len(tried) - (len(tried) > 1 and tried[-1] == tried[0]), tried[-1]

    def time_us(self, job, count=3):
        return statistics.median(time for time, _ in self.train(job, count))

    def grid(self):
        """The best setting of all."""
        times = {}
        for setting in itertools.product(CHUNKS, CREDITS, FUSES):
            job = self.fixed("-".join(map(str, setting)), setting)
            try:
                self.train(job, PLANNED_STEPS)
                times[setting] = self.time_us(job)
            finally:
                job.end()
        return min(times, key=times.get)

    def side_by_side(self, jobs):
        """Times of each job, by turns. All but the live one end here."""
        times = {name: [] for name in jobs}
        try:
            for job in jobs.values():
                self.train(job, PLANNED_STEPS)
            for _ in range(ROUNDS):
                for name, job in jobs.items():
                    times[name].append(self.time_us(job))
        finally:
            for job in jobs.values():
                if job is not self.live:
                    job.end()
        return times

    def compare(self, tuned, best):
        """Medians side by side, over the best one's: as found in a job of its own, the job that
        tuned itself, and the start. How idle the cores were, and the best one's rounds."""
        jobs = {"best": self.fixed("best", best), "tuned": self.fixed("tuned", tuned),
                "start": self.fixed("start", START), "live": self.live}
        machine = Watch()
        times = self.side_by_side(jobs)
        over = {name: round(statistics.median(times[name]) / statistics.median(times["best"]), 4)
                for name in ("tuned", "live", "start")}
        over["idle"] = round(machine.idle(), 3)
        over["spread"] = [round(end(times["best"]) / statistics.median(times["best"]), 4)
                          for end in (min, max)]
        return over

    def run(self):
        probe = self.begin("probe")
        byte_us = ablation.wire_byte_us(self.hosts, probe)
        probe.end()
        compute_us = self.step_us / max(1, self.rho)
        step = read_trace(self.trace).scaled(compute_us, self.rho * compute_us / byte_us)
        self.table = step.write(self.bench.folder / f"tuner-{self.trace}")
        self.live = self.fixed("live", self.start, TUTTI_TUNE="yes")
        try:
            self.case()
        finally:
            self.live.end()

    def case(self):
        samples, tuned = self.settle()
        row = {"section": "tuner", "setting": f"{self.trace}, rho {self.rho}", "by": "run",
               "samples": samples, "tuned": tuned, "mbit": MBIT,
               "grid": [len(CHUNKS), len(CREDITS), len(FUSES)]}
        if self.bench.options.change:
            self.hosts.shape_anew(MBIT_LATER)
            again, tuned_after = self.settle_anew(tuned)
            best = self.grid()
            over = self.compare(tuned_after, best)
            row |= {"setting": f"{row['setting']}, changed", "mbit_later": MBIT_LATER,
                    "noticed": again > 0, "samples_after": again, "tuned_after": tuned_after,
                    "best_after": best, "over_grid_after": over["tuned"],
                    "live_over_grid_after": over["live"], "start_over_grid_after": over["start"]}
        else:
            best = self.grid()
            over = self.compare(tuned, best)
            row |= {"best": best, "over_grid": over["tuned"], "live_over_grid": over["live"],
                    "start_over_grid": over["start"]}
        row |= {"idle": over["idle"], "best_spread": over["spread"]}
        self.bench.record(**row)
        print(f"tuner, {row}", flush=True)

    def settle_anew(self, before):
        """The links have changed: the job must notice. Its samples from there on, which begin with
        the setting it had."""
        for _ in range(NOTICE_BLOCKS):
            tried = [setting for _, setting in self.train(self.live, BLOCK_STEPS)]
            if any(setting != before for setting in tried):
                return self.settle(setting for setting, _ in itertools.groupby(tried))
        return 0, before


class Beside(Real):
    """The job begins with the library's defaults, and is compared with several jobs that keep them:
    jobs of one setting differ by a percent, by what the machine did meanwhile."""

    step_us, start = BESIDE_US, DEFAULTS

    def case(self):
        samples, tuned = self.settle()
        names = [f"defaults{i}" for i in range(DEFAULTS_JOBS)]
        jobs = {name: self.fixed(name, DEFAULTS) for name in names}
        jobs |= {"tuned": self.fixed("tuned", tuned), "live": self.live}
        machine = Watch()
        times = self.side_by_side(jobs)
        defaults = [time for name in names for time in times[name]]
        base = statistics.median(defaults)
        row = {"section": "tuner", "setting": f"{self.trace}, rho {self.rho:g}, beside defaults",
               "by": "run", "samples": samples, "tuned": tuned, "defaults": DEFAULTS, "mbit": MBIT,
               "rounds": ROUNDS, "idle": round(machine.idle(), 3), "defaults_us": round(base),
               "defaults_jobs_us": [round(statistics.median(times[name])) for name in names],
               "defaults_spread": [round(end(defaults) / base, 4) for end in (min, max)],
               "over_defaults": round(statistics.median(times["tuned"]) / base, 4),
               "live_over_defaults": round(statistics.median(times["live"]) / base, 4)}
        self.bench.record(**row)
        print(f"tuner, {row}", flush=True)


def judge(bench, rows):
    for row in rows:
        name = f"tuner, {row['setting']}, by {row['by']}"
        if "over_defaults" in row:
            least, most = row["defaults_spread"]
            kept = ", which it kept," if row["tuned"] == row["defaults"] else ""
            noise = f"the defaults{kept} from {least:.4f} to {most:.4f}"
            bench.verdicts.add(f"{name}: over the defaults",
                               f"{row['over_defaults']:.4f} in {row['samples']} samples, {noise}",
                               "at most 1, but for their noise",
                               row["over_defaults"] <= max(1, most) and row["samples"] <= 15)
            if "live_over_defaults" in row:  # not in rows of the first runs
                bench.verdicts.add(f"{name}: the job itself",
                                   f"{row['live_over_defaults']:.4f} of them, {noise}",
                                   "at most 1, but for their noise",
                                   row["live_over_defaults"] <= max(1, most))
        if "over_grid" in row:
            live = f", the job {row['live_over_grid']:.4f}" if "live_over_grid" in row else ""
            bench.verdicts.add(f"{name}: over the grid's best",
                               f"{row['over_grid']:.4f} in {row['samples']} samples{live}",
                               "at most 1.03 in 15",
                               row["over_grid"] <= 1.03 and row["samples"] <= 15)
        if "over_grid_after" in row:
            bench.verdicts.add(f"{name}: after the link slowed down",
                               f"{row['over_grid_after']:.4f} in {row['samples_after']} more",
                               "at most 1.05 in 15", row["noticed"] and
                               row["over_grid_after"] <= 1.05 and row["samples_after"] <= 15)
