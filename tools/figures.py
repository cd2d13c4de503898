#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables and pictures of the documents, made from bench/<topic>/results/<machine>.json.

usage: figures.py [--check]

Rewrites every block between "<!-- figures: NAME -->" and "<!-- end -->" of the documents below,
and the pictures in docs/figures/. --check writes nothing and exits 1 where something is stale."""
import json
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs/figures"
DOCUMENTS = ("docs/performance.md", "docs/lab/compression.md", "README.md")
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

sys.path.insert(0, str(ROOT))
from bench.common.picture import COLOURS, Axes, Bars, scale  # noqa: E402
from bench.common.units import KB, MB, size_text  # noqa: E402
from bench.control import picture as control_picture  # noqa: E402
from bench.peers import report  # noqa: E402
from bench.scale import plot as scale_plot  # noqa: E402
from bench.schedule import picture  # noqa: E402


# ---- results ------------------------------------------------------------------------------------

def runs(name):
    """[(head, rows)] of one file, "topic/machine"; a line with "run" starts a run."""
    topic, machine = name.split("/")
    path = ROOT / "bench" / topic / "results" / f"{machine}.json"
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "run" in row and "bench" in row:
            found.append((row, []))
        else:
            found[-1][1].append(row)
    return found


def rows(name, run=None):
    """Rows of all runs of that name."""
    return [row for head, own in runs(name) if run in (None, head["run"]) for row in own]


def one(items, **wanted):
    """The last row with these values."""
    found = [row for row in items if all(row.get(key) == value for key, value in wanted.items())]
    if not found:
        raise SystemExit(f"figures: no row has {wanted}")
    return found[-1]


# ---- tables -------------------------------------------------------------------------------------

def table(head, body):
    lines = [head, ["---"] * len(head), *body]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def peers(name, run):
    return report.Records(rows(name, run))


def faster(records, ranks, size, collective="allreduce", own="tutti-arena", transport="shm",
           against=None):
    """How many times as fast as the fastest peer, or as one of them; None if not measured."""
    block = (transport, ranks, collective, True)
    cell = records.cell(block, size)
    if own not in cell:
        return None
    other = cell.get(against) if against else records.fastest_peer(block, size)
    return other[0] / cell[own][0] if other else None


def times(value):
    if value is None:
        return ""
    digits = 2 if value < 1.995 else 1 if value < 9.95 else 0
    return f"{value:.{digits}f}"


def table_peers():
    sizes = (4, KB, 64 * KB, MB, 16 * MB, 64 * MB, 256 * MB)
    records = peers("peers/2cores", "rewritten")
    body = [[name] + [times(faster(records, ranks, size)) for size in sizes]
            for ranks, name in ((2, "2 ranks"), (4, "4 ranks"), (8, "8 ranks"))]
    body.append(["2 ranks, private buffers"] +
                [times(faster(records, 2, size, own="tutti-foreign")) for size in sizes])
    return table(["2 cores"] + [size_text(size) for size in sizes], body)


def table_many():
    """Tutti over Open MPI, a core for each rank; of runs that do not rewrite buffers."""
    counts, records = (2, 4, 8, 12, 16), peers("peers/16cores", None)
    body = []
    for own, place in (("tutti-arena", "arena"), ("tutti-foreign", "private")):
        for size in (4, KB, 64 * KB, 64 * MB):
            cells = [records.cell(("shm", ranks, "allreduce", False), size) for ranks in counts]
            if all(own in cell for cell in cells) and (own == "tutti-arena" or size > KB):
                body.append([f"{size_text(size)}, {place}"] + [
                    times(cell["openmpi"][0] / cell[own][0]) for cell in cells])
    return table(["16 cores, ranks"] + list(counts), body)


def table_collectives():
    records = peers("peers/2cores", "rewritten")
    names = ("broadcast", "allgather", "reducescatter", "alltoall")
    body = [[f"{ranks} ranks, 1 MB and 64 MB"] + [
        ", ".join(times(faster(records, ranks, size, name)) for size in (MB, 64 * MB))
        for name in names] for ranks in (2, 4)]
    return table([""] + list(names), body)


def share(value):
    return f"{100 * value:.0f} %"


def table_limits():
    """Limits of the hardware, and how closely they were reached."""
    shm, many = peers("peers/2cores", "rewritten"), peers("peers/16cores", None)
    star, kernels = rows("links/2cores", "star"), rows("micro/2cores", "kernels")
    both = [row["median_us"]["both"] / row["ideal_us"] for topic in SCHEDULES
            for row in ablation(topic)]

    def of_memory(records, ranks, size, touch):
        block = ("shm", ranks, "allreduce", touch)
        return share(records.bound_us(block, size) / records.cell(block, size)["tutti-arena"][0])
    sums = ", ".join(f'{one(kernels, dtype=name)["ratio"]:.2f}' for name in ("f32", "f64", "i32"))
    body = [
        ["256 MB, 2 ranks, shared memory", "memory bandwidth, 2 P S / M",
         of_memory(shm, 2, 256 * MB, True)],
        ["64 MB, 16 ranks on 16 cores, not rewritten", "the same", of_memory(
            many, 16, 64 * MB, False)],
        ["64 MB, 4 hosts at 1 Gbit/s", "the wire less headers",
         share(one(star, job="tutti", bytes=64 * MB)["share"])],
        ["the same, encrypted", "the wire less headers",
         share(one(star, job="tutti aead", bytes=64 * MB)["share"])],
        ["sums of f32, f64, i32 in L2", "a bare read-add-write loop", sums],
        ["training steps, 56 cases", "the ideal fluid schedule",
         f"{min(both):.2f} to {max(both):.2f} of its time"]]
    return table(["case", "limit", "reached"], body)


def table_links():
    star, pairs = rows("links/2cores", "star"), rows("links/2cores", "pairs")
    jobs = (("tutti", "Tutti, checksums"), ("tutti aead", "Tutti, encrypted"),
            ("openmpi", "Open MPI"), ("openmpi links 2", "Open MPI, two links"), ("gloo", "Gloo"))

    def cell(items, job, size):
        row = [row for row in items if row["job"] == job and row["bytes"] == size]
        return share(row[0]["share"]) if row else ""
    body = [[name, f'{one(star, job=job, bytes=KB)["median_us"]:.0f} us'] + [
        cell(items, job, size) for items in (star, pairs) for size in (16 * MB, 64 * MB)]
        for job, name in jobs]
    return table(["1 Gbit/s", "4 hosts, 1 KB", "16 MB", "64 MB", "2 hosts x 2 ranks, 16 MB",
                  "64 MB"], body)


def torch_ratios():
    """{(model, ranks, way): times as fast as DDP with Gloo of the same part of a run}"""
    base, found = {}, {}
    for run in ("exchange", "exchange, BERT-base"):
        for row in rows("torch/2cores", run):
            if row["section"] != "exchange":
                continue
            case, way = (row["model"], row["ranks"]), row["way"]
            if way.startswith("gloo"):
                base[case + ("buckets" in way,)] = row["exchange_ms"]
            elif way.startswith("tutti"):
                found[case + (way,)] = base[case + ("buckets" in way,)] / row["exchange_ms"]
    return found


WAYS = (("tutti, DDP backend", 'DDP, backend "tutti"'), ("tutti, DDP hook", "DDP, Tutti's hook"),
        ("tutti, DDP hook, gradients in buckets", "the same, gradients in its buckets"),
        ("tutti, optimizer", "DistributedOptimizer"),
        ("tutti, optimizer, arena", "the same, gradients in the arena"))
CASES = (("resnet50", 2), ("resnet50", 4), ("bert", 2), ("bert", 4))


def horovod_ratio(model, ranks):
    run = "all, first" if model == "resnet50" else "Horovod, BERT-base"
    own = [row for row in rows("torch/2cores", run) if row["section"] == "horovod"]
    times_ms = [one(own, model=model, ranks=ranks, way=way)["exchange_ms"]
                for way in ("horovod", "tutti as horovod")]
    return times_ms[0] / times_ms[1]


def table_torch():
    found = torch_ratios()
    body = [[name] + [times(found[case + (way,)]) for case in CASES] for way, name in WAYS]
    body.append(["beside Horovod 0.28.1, same script"] + [
        times(horovod_ratio(*case)) for case in CASES])
    return table(["", "ResNet50, 2 ranks", "4 ranks", "BERT-base, 2 ranks", "4 ranks"], body)


def control_ratio(ranks, groups):
    own = rows("control/2cores", "beside Horovod")
    step = {asked: one(own, ranks=ranks, groups=groups, asked=asked)["step_us"]
            for asked in ("horovod", "auto")}
    return step["horovod"] / step["auto"]


SCHEDULES = ("schedule/2cores", "schedule/16cores")


def ablation(topic):
    return [row for row in rows(topic, "all") if row.get("section") == "ablation"]


def table_schedule():
    def extent(own, name):
        over = [row["median_us"][name] / row["ideal_us"] for row in own]
        return f"{min(over):.2f} to {max(over):.2f}"
    body = []
    for rho in (0.5, 0.75, 1, 1.5, 2, 5):
        cases = [[row for row in ablation(topic) if row["rho"] == rho] for topic in SCHEDULES]
        body.append([f"{rho:g}"] + [extent(own, name) for own in cases
                                    for name in ("plain", "both")])
    return table(["rho", "plain, 2 cores", "scheduled", "plain, 16 cores", "scheduled"], body)


def table_engines():
    own = rows("engines/2cores", "engines")

    def over(case, size):
        row = one(own, case=case, ranks=2, bytes=size)
        more = row["engine_us"] - row["direct_us"]
        return f"{more:+.1f} us" if size < 64 * MB else f'{100 * more / row["direct_us"]:+.1f} %'

    def group(case, tensors):
        row = one(own, case=case, ranks=2, tensors=tensors)
        return f'{row["direct_us"] / row["engine_us"]:.2f} times as fast'
    sizes = (4, 64 * KB, MB, 64 * MB)
    body = [[name] + [over(case, size) for size in sizes] + [
        group(f"{case}-model", tensors) for tensors in (109, 161)]
        for case, name in (("openmpi", "Open MPI"), ("mpich", "MPICH"))]
    return table(["over the direct call"] + [size_text(size) for size in sizes] +
                 ["109 small tensors", "all 161"], body)


def table_integrity():
    own = rows("integrity/16cores")

    def over(ranks, threads):
        us = {kind: one(own, scene="loopback", ranks=ranks, threads=threads, integrity=kind,
                        bytes=64 * MB)["median_us"] for kind in ("crc", "aead")}
        return f'{us["aead"] / us["crc"]:.2f}'
    threads = (1, 2, 4)
    head = [f"{count} thread{'s' * (count > 1)} per rank" for count in threads]
    return table(["encrypted over checked"] + head,
                 [[f"{ranks} ranks"] + [over(ranks, count) for count in threads]
                  for ranks in (2, 4)])


def table_codec():
    """Coding on one core over memcpy of the same run."""
    own = rows("codec/16cores", "codec-rates")
    codecs = {"bf16": "bf16", "fp16": "fp16", "int8:ef=off": "int8",
              "int8:ef=on": "int8, error feedback", "int4:ef=off": "int4",
              "e4m3:ef=off": "e4m3", "sign:ef=off": "sign"}
    body = [[name] + [f'{row[key] / row["memcpy_gbs"]:.2f}'
                      for row in (one(own, codec=codec) for codec in codecs)]
            for key, name in (("encode_gbs", "encode"), ("decode_add_gbs", "decode-add"))]
    return table(["over memcpy", *codecs.values()], body)


def table_codec_links():
    """Share of what the wire allows to the bytes of each way, and time over whole gradients."""
    own = [row for row in rows("codec/16cores", "links") if row["bytes"] == 64 * MB]

    def cell(way, mbit):
        row, whole = (one(own, way=name, mbit=mbit) for name in (way, "none"))
        return [share(row["share"]), f'{row["median_us"] / whole["median_us"]:.2f}']
    names = {"none": "Tutti", "gloo": "Gloo", "gloo fp16": "Gloo, DDP's fp16 cast",
             "gloo bf16": "Gloo, DDP's bf16 cast"}
    body = [[names.get(way, f"Tutti, {way}")] + cell(way, 100) + cell(way, 1000)
            for way in dict.fromkeys(row["way"] for row in own)]
    return table(["64 MB, 4 hosts", "100 Mbit/s", "time over none", "1 Gbit/s", "time over none"],
                 body)


def table_codec_train():
    """Speed-up of a step beside the possible one, and the loss beside that of none."""
    own = rows("codec/16cores", "train")
    losses = {row["way"]: row["over_none"] for row in own if row["part"] == "loss"}
    body = []
    for row in own:
        if "speed_up" in row:
            loss = f'{100 * losses[row["way"]]:+.2f} %' if row["way"] in losses else "see below"
            body.append([row["way"], f'{row["wire_share"]:.3f}', times(row["speed_up"]),
                         times(row["possible"]), loss])
    return table(["codec", "share of bytes", "step, times as fast", "bytes allow",
                  "loss over none's"], body)


def extent_text(values):
    values = list(values)
    low, high = times(min(values)), times(max(values))
    return low if low == high else f"{low} to {high}"


def table_readme():
    """Tutti compared with the libraries that it would replace."""
    found, shm = torch_ratios(), peers("peers/2cores", "rewritten")
    hook = [found[case + (way,)] for case in CASES
            for way in ("tutti, DDP hook", "tutti, DDP hook, gradients in buckets")]
    star = rows("links/2cores", "star")
    mpi = min(one(star, job=job, bytes=64 * MB)["median_us"]
              for job in ("openmpi", "openmpi links 2"))
    wire = mpi / one(star, job="tutti", bytes=64 * MB)["median_us"]
    body = [
        ["Horovod 0.28.1 (Gloo)", "exchange of a PyTorch step, same script",
         extent_text(horovod_ratio(*case) for case in CASES) + " times as fast"],
        ["", "161 named tensors, submitted in any order",
         extent_text(control_ratio(ranks, 0) for ranks in (2, 4)) + " times as fast"],
        ["torch DDP (Gloo)", "exchange of a step, DDP with Tutti's hook",
         extent_text(hook) + " times as fast"],
        ["", "the same, DDP on Tutti's backend",
         extent_text(found[case + ("tutti, DDP backend",)] for case in CASES) + " times as fast"],
        ["MPI (Open MPI, MPICH, UCX)", "all-reduce of 64 KB to 64 MB, shared memory, 2 to 8 ranks",
         extent_text(faster(shm, ranks, size) for ranks in (2, 4, 8)
                     for size in (64 * KB, MB, 16 * MB, 64 * MB)) + " times as fast"],
        ["", "all-reduce of 4 B, 2 ranks", times(faster(shm, 2, 4)) + " times as fast"],
        ["", "64 MB over 4 hosts at 1 Gbit/s, two links for MPI", times(wire) + " times as fast"],
        ["NCCL", "", "not compared: NCCL needs a GPU per rank, "
         "Tutti moves GPU tensors through host memory"]]
    return table(["beside", "what", "Tutti is"], body)


TABLES = {"peers": table_peers, "many": table_many, "collectives": table_collectives,
          "limits": table_limits, "links": table_links, "torch": table_torch,
          "schedule": table_schedule, "engines": table_engines, "integrity": table_integrity,
          "codec": table_codec, "codec-links": table_codec_links,
          "codec-train": table_codec_train, "readme": table_readme}


# ---- pictures -----------------------------------------------------------------------------------

def draw_peers(path):
    sizes = (4, KB, 64 * KB, MB, 16 * MB, 64 * MB)
    records = peers("peers/2cores", "rewritten")
    axes = Axes("All-reduce in shared memory: times as fast as the fastest other library",
                (sizes[0], sizes[-1]), (0, 7), log_x=True)
    axes.ticks(list(zip(sizes, ("4 B", "1 K", "64 K", "1 M", "16 M", "64 M"))),
               scale(0, 7, 7), "bytes per rank",
               "f32 sum, buffers rewritten; beside Open MPI, MPICH, Gloo, torch.distributed")
    axes.line([(sizes[0], 1), (sizes[-1], 1)], "#999999", dashed=True)
    key = []
    for ranks, colour in zip((2, 4, 8), COLOURS):
        points = [(size, faster(records, ranks, size)) for size in sizes]
        axes.line(points, colour)
        axes.dots(points, colour)
        key.append((f"{ranks} ranks, 2 cores", colour, "line"))
    axes.key(key)
    axes.write(path)


def draw_bars(path, title, groups, series, unit, below, above):
    """groups: {name: {series: value}}"""
    most = max(value for own in groups.values() for value in own.values())
    colours = {name: (colour, False) for name, colour in zip(series, COLOURS)}
    axes = Bars(title, most * 1.15, list(groups), colours)
    axes.begin(scale(0, most), below, above)
    for group, own in groups.items():
        for name, value in own.items():
            axes.bar(group, name, value, unit(value))
    axes.write(path)


def draw_links(path):
    star = rows("links/2cores", "star")
    jobs = {"tutti": "Tutti", "tutti aead": "Tutti, encrypted", "openmpi": "Open MPI",
            "openmpi links 2": "Open MPI, 2 links", "gloo": "Gloo"}
    groups = {size_text(size): {
        name: 100 * one(star, job=job, bytes=size)["share"] for job, name in jobs.items()}
        for size in (MB, 16 * MB, 64 * MB)}
    draw_bars(path, "All-reduce between 4 hosts at 1 Gbit/s", groups, jobs.values(),
              lambda value: f"{value:.0f} %", "% of what the wire allows",
              "bound: 2 (H - 1) / H bytes at the line rate less headers")


def draw_torch(path):
    found = torch_ratios()
    names = {"resnet50": "ResNet50", "bert": "BERT-base"}
    short = ("DDP, backend", "DDP, hook", "hook, in buckets", "optimizer", "optimizer, arena")
    groups = {f"{names[model]}, {ranks} ranks": {
        name: found[model, ranks, way] for (way, _), name in zip(WAYS, short)}
        for model, ranks in CASES}
    draw_bars(path, "Exchange of a training step beside DDP with Gloo", groups, short, times,
              "times as fast", "torch 2.15, 2 cores, one host")


def draw_control(folder):
    for machine in ("2cores", "16cores"):
        control_picture.draw(folder / f"control-{machine}.svg",
                             rows(f"control/{machine}", "modes"))
    (folder / "control-scale.svg").write_text(
        scale_plot.draw(rows("scale/2cores", "modes")), encoding="utf-8")


def draw_schedule(folder):
    """Measured on two cores, except topics measured only, or last, on 16."""
    def of(topic, section):
        return [row for row in rows(topic, "all") if row.get("section") == section]
    picture.draw_all(folder, rows("schedule/2cores", "all"))
    many = of("schedule/16cores", "preemption")
    picture.draw_use(folder / "schedule-credit-use.svg", [
        (row["where"].split()[-1], row) for row in many
        if "credit" in row["where"] and row["ranks"] == 2])
    computed = [row for row in of("schedule/2cores", "tuner") if row["by"] != "run"]
    tuned = of("schedule/16cores", "tuner")
    picture.draw_grid(folder / "schedule-tuner.svg", tuned + computed)
    picture.draw_defaults(folder / "schedule-tuner-defaults.svg", tuned)


def draw(folder):
    draw_peers(folder / "peers.svg")
    draw_links(folder / "links.svg")
    draw_torch(folder / "torch.svg")
    draw_control(folder)
    draw_schedule(folder)


# ---- the command --------------------------------------------------------------------------------

def fill(text, name):
    def block(match):
        if match[2] not in TABLES:
            raise SystemExit(f"figures: {name} asks for '{match[2]}', which is no table; there are "
                             + ", ".join(TABLES))
        return f"{match[1]}\n{TABLES[match[2]]()}\n{match[3]}"
    return BLOCK.sub(block, text)


def made():
    """{path: text} of everything that is generated."""
    found = {}
    for name in DOCUMENTS:
        found[ROOT / name] = fill((ROOT / name).read_text(encoding="utf-8"), name)
    with tempfile.TemporaryDirectory() as folder:
        draw(pathlib.Path(folder))
        for path in sorted(pathlib.Path(folder).iterdir()):
            found[PICTURES / path.name] = path.read_text(encoding="utf-8")
    return found


def main():
    found = made()
    stale = [path for path, text in found.items()
             if not path.exists() or path.read_text(encoding="utf-8") != text]
    extra = [path for path in PICTURES.glob("*") if path not in found]
    if sys.argv[1:] == ["--check"]:
        for path in stale + extra:
            print(f"{path.relative_to(ROOT)}: stale; run make figures")
        return 1 if stale or extra else 0
    for path in extra:
        path.unlink()
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found[path], encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
