# SPDX-License-Identifier: Apache-2.0
"""Caramel's heuristics one after the other: scheme by size, batches, transfer boundaries."""
import statistics

from bench.common.namespaces import ScaledHosts
from bench.common.steps import Step, model
from bench.schedule import ablation
from bench.schedule.ranks import Job
from bench.schedule.trace import read_trace

MBIT = 250
TRACES = ["resnet50", "bert-large"]
RHO = 1.0
SIZES = [4, 1024, 16384, 65536, 262144]


def run(bench):
    rounds = bench.options.rounds or (1 if bench.quick else 3)
    with ScaledHosts(4, bench.folder, MBIT) as hosts:
        jobs = {}
        try:
            for name, settings in (("ring", {"TUTTI_ALGORITHM": "ring"}), ("adaptive", {})):
                jobs[name] = Job(f"caramel-{name}", 4, bench.folder).begin(
                    hosts, TUTTI_SEGMENT="16K", **settings)
            for trace in bench.options.trace or (TRACES[:1] if bench.quick else TRACES):
                case(bench, hosts, jobs, trace, rounds)
        finally:
            for job in jobs.values():
                job.end()


def fit(hosts, job):
    """f(d) = a + b d of this job's all-reduce."""
    sent = int(hosts.payload_bytes_a_us() * 60e3) // 4 * 4
    byte_us = min(job.slowest(f"bulk {sent} 3")) / sent
    starts = [statistics.median(job.slowest(f"bulk {size} 9")) - size * byte_us for size in SIZES]
    return max(0.0, statistics.median(starts)), byte_us


def case(bench, hosts, jobs, trace, rounds):
    start_us, byte_us = fit(hosts, jobs["adaptive"])
    compute_us = ablation.COMPUTE_US[trace]
    step = read_trace(trace).scaled(compute_us, RHO * compute_us / byte_us)
    single = step.write(bench.folder / "single")
    plan = model("caramel", single, byte_us, start_us)
    rows = [{"elements": int(elements), "use": use, "ready": ready, "place": int(place),
             "in_forward": bool(in_forward)}
            for elements, use, ready, place, in_forward in plan.values()]
    batches = Step(step.forward_us, step.backward_us,
                   [dict(row, in_forward=False) for row in rows])
    # Our links let what is urgent pass, so that nothing need be kept back for forward: what
    # is planned there goes behind what is planned for backward and fills the gaps that it leaves.
    # Over links that serve in order it must wait until then.
    kept = Step(step.forward_us, step.backward_us, rows)
    variants = {
        "ring for all": ("ring", single, step, 0),
        "scheme by size": ("adaptive", single, step, 0),
        "+ batching": ("adaptive", batches.write(bench.folder / "batches"), batches, 0),
        "+ boundaries": ("adaptive", batches.write(bench.folder / "batches"), batches, 3),
        "+ boundaries, kept back": ("adaptive", kept.write(bench.folder / "kept"), kept, 3),
        "by first use": ("adaptive", single, step, 3),
    }
    found = {name: {"step": [], "network": []} for name in variants}
    for _ in range(rounds):
        for name, (job, table, own, flags) in variants.items():
            jobs[job].ask(f"table {table}")
            times = jobs[job].slowest(f"steps {flags} 1 1")
            found[name]["step"].append(sum(times) / len(times))
            at_once = Step(0, 0, [dict(row, use=0, ready=0) for row in own.rows])
            jobs[job].ask(f"table {at_once.write(bench.folder / 'at_once')}")
            found[name]["network"] += jobs[job].slowest("steps 4 0 1")
    for name, times in found.items():
        step_us, network_us = statistics.median(times["step"]), statistics.median(times["network"])
        row = {"section": "caramel", "trace": trace, "variant": name, "start_us": round(start_us),
               "transfers": len(variants[name][2].rows), "rounds": rounds,
               "compute_ms": round(compute_us / 1e3, 1), "T_ms": round(step_us / 1e3, 2),
               "rho": round(network_us / compute_us, 3),
               "alpha": round((network_us + compute_us - step_us) / min(network_us, compute_us), 3),
               "U": round(compute_us / step_us, 3)}
        bench.record(**row)
        print(f"caramel, {trace}, {name:23}: {row['transfers']:4} transfers, T {row['T_ms']} ms, "
              f"alpha {row['alpha']}, rho {row['rho']}, U {row['U']}", flush=True)
