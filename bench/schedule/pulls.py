# SPDX-License-Identifier: Apache-2.0
"""Forward passes whose parameters are pulled from a server: orders from the graph, or random.

The server is a rank that sends (`run`), or a store pulled by priority: forward only (`store`), and
in training steps, whose backward pass of twice the length pushes gradients (`store, training`)."""
import contextlib
import statistics
import typing

from bench.common.namespaces import ScaledHosts
from bench.common.steps import model
from bench.schedule.ranks import Job
from bench.servers.ranks import Job as StoreJob

MBIT = 250
FORWARD_US = 60e3
REAL = ["alexnet-v2", "inception-v1", "inception-v2", "inception-v3", "resnet50-v1", "resnet50-v2",
        "resnet101-v1", "resnet101-v2", "vgg16", "vgg19"]
QUICK = ["resnet50-v1"]
SEGMENT = "16K"


WORKERS = SERVERS = 2  # of the store: servers then own all


def run(bench):
    computed = model("pulls", 100)
    for name, (operators, tensors, tic, tac, mean, least, most) in computed.items():
        bench.record(section="pulls", network=name, by="computation", operators=int(operators),
                     tensors=int(tensors), tic=tic, tac=tac, random_mean=mean, random_least=least,
                     random_most=most)
    names = bench.options.network or (QUICK if bench.quick else REAL)
    with ScaledHosts(3, bench.folder, MBIT) as hosts, \
            ended(Job("pulls", 3, bench.folder, "bench-schedule-server")) as job:
        job.begin(hosts, TUTTI_SEGMENT=SEGMENT)
        for name in names:
            real(bench, hosts, job, name, computed[name], RUN)
    with ScaledHosts(WORKERS + SERVERS, bench.folder, MBIT) as hosts, \
            ended(StoreJob("stored", WORKERS, SERVERS, bench.folder,
                           "bench-schedule-server")) as job:
        job.begin(hosts, TUTTI_SEGMENT=SEGMENT)
        for name in names:
            for way in (STORE, TRAINING):
                real(bench, hosts, job, name, computed[name], way)


@contextlib.contextmanager
def ended(job):
    try:
        yield job
    finally:
        job.end()


class Way(typing.NamedTuple):
    """How parameters come: `by` in rows, the lines that ask for it."""
    by: str
    rate: str
    line: str
    end: str


RUN = Way("run", "rate", "pulls", "")
STORE = Way("store", "stored-rate", "stored", " 0")
TRAINING = Way("store, training", "stored-rate", "stored", " 1")


def real(bench, hosts, job, name, computed, way):
    sent = int(hosts.payload_bytes_a_us() * 50e3) // 4 * 4
    if way is not TRAINING:  # which follows the forward passes, with their tensors
        job.byte_us = statistics.median(job.slowest(f"{way.rate} {sent} 3")) / sent
    byte_us, orders = job.byte_us, 20 if bench.quick else 100
    total = FORWARD_US / byte_us  # pulling takes as long as the pass
    times = {"tic": [], "tac": [], "random": []}

    def once(order, seed):
        found = job.slowest(f"{way.line} {name} {order} {seed} {FORWARD_US} {total:.0f} "
                            f"{byte_us:.9f}{way.end}")
        times[order].append(found[0] / FORWARD_US)

    for seed in range(orders):
        once("random", seed)
        if seed % (orders // 10) == 0:
            once("tic", 0)
            once("tac", 0)
    tic, tac = statistics.median(times["tic"]), statistics.median(times["tac"])
    mean = sum(times["random"]) / orders
    bench.record(section="pulls", network=name, by=way.by, operators=int(computed[0]),
                 tensors=int(computed[1]), tic=round(tic, 4), tac=round(tac, 4),
                 random_mean=round(mean, 4), random_least=round(min(times["random"]), 4),
                 random_most=round(max(times["random"]), 4), orders=orders)
    print(f"pulls, {name}, by {way.by}: TIC {tic:.3f}, TAC {tac:.3f}, random {mean:.3f} forward "
          f"passes (computed {computed[2]:.3f}, {computed[3]:.3f}, {computed[4]:.3f}; a training "
          f"step has three)", flush=True)


def judge(bench, rows):
    for row in rows:
        name = f"pulls, {row['network']}, by {row['by']}"
        bench.verdicts.add(f"{name}: TIC over TAC", f"{row['tic'] / row['tac']:.4f}", "within 2 %",
                           abs(row["tic"] / row["tac"] - 1) <= 0.02)
        ahead = row["random_mean"] / max(row["tic"], row["tac"])
        least = row["random_least"] / max(row["tic"], row["tac"])
        bench.verdicts.add(f"{name}: mean of random orders over both",
                           f"{ahead:.3f}, the best of them {least:.3f}", "above 1", ahead > 1)
