# SPDX-License-Identifier: Apache-2.0
"""Pictures of what bench/schedule found."""
import itertools

from bench.common.picture import COLOURS, NAMES_LEFT, Axes, Bars, scale, widened

ABLATION_COLOURS = dict(zip(("plain", "priority only", "crossing only", "both", "auto"), COLOURS))


def gain_of(row):
    return row["median_us"]["plain"] / row["median_us"]["both"] - 1


def draw_gain(path, rows):
    """Gain over plain, measured and ideal, by rho."""
    rhos = sorted({row["rho"] for row in rows})
    if len(rhos) < 2:
        return
    limits = widened((-0.05, 0.5), map(gain_of, rows))
    axes = Axes("Priority and crossing together: gain over plain all-reduce", (rhos[0], rhos[-1]),
                limits, log_x=True)
    axes.ticks([(rho, f"{rho:g}") for rho in rhos],
               [(share, f"{100 * share:.0f} %") for share, _ in scale(*limits)],
               "rho = time of communication / time of computation",
               "4 hosts; dashed: the ideal fluid schedule")
    legend = []
    for number, trace in enumerate(dict.fromkeys(row["trace"] for row in rows)):
        own = sorted((row for row in rows if row["trace"] == trace), key=lambda row: row["rho"])
        colour = COLOURS[number]
        axes.line([(row["rho"], row["computed_plain_us"] / row["ideal_us"] - 1) for row in own],
                  colour, dashed=True)
        points = [(row["rho"], gain_of(row)) for row in own]
        axes.line(points, colour)
        axes.dots(points, colour)
        legend.append((trace, colour, "line"))
    axes.key(legend + [("ideal", "#444444", "dashed")])
    axes.write(path)


def mean_over_ideal(rows, name):
    """Of one variant, by rho; nothing for auto in rows of earlier runs."""
    over = {}
    for row in sorted(rows, key=lambda row: row["rho"]):
        if name in row["median_us"]:
            over.setdefault(row["rho"], []).append(row["median_us"][name] / row["ideal_us"])
    return [(rho, sum(own) / len(own)) for rho, own in over.items()]


def draw_ablation(path, rows):
    """The variants over the ideal, mean of the traces."""
    rhos = sorted({row["rho"] for row in rows})
    if len(rhos) < 2:
        return
    lines = {name: mean_over_ideal(rows, name) for name in ABLATION_COLOURS}
    lines = {name: points for name, points in lines.items() if points}
    limits = widened((0.95, 1.45), (over for points in lines.values() for _, over in points))
    axes = Axes("A step over the ideal one, mean of the traces", (rhos[0], rhos[-1]), limits,
                log_x=True)
    axes.ticks([(rho, f"{rho:g}") for rho in rhos], scale(*limits),
               "rho = time of communication / time of computation",
               "either alone gains nothing; grey: 1.03")
    axes.line([(rhos[0], 1.03), (rhos[-1], 1.03)], "#999999", dashed=True)
    for name, points in lines.items():
        axes.line(points, ABLATION_COLOURS[name])
        axes.dots(points, ABLATION_COLOURS[name])
    axes.key([(name, ABLATION_COLOURS[name], "line") for name in lines])
    axes.write(path)


def draw_pulls(path, rows):
    """Speed-up of TIC over random orders, by size of the graph."""
    if not rows:
        return
    most = max(row["operators"] for row in rows)
    limits = widened((1, 2.45), (row["random_least"] / row["tic"] for row in rows))
    axes = Axes("Pulled in the order of the graph (TIC): speed-up over random orders",
                (0, most * 1.05), limits)
    axes.ticks(scale(0, most), scale(*limits, 8), "operators of the forward graph",
               "bars: least to most of 100 orders; at heads: most beyond the frame")
    for by, colour in (("computation", COLOURS[0]), ("run", COLOURS[1])):
        shift = 5 if by == "run" else 0
        for row in (row for row in rows if row["by"] == by):
            x = row["operators"] + shift
            axes.span(x, row["random_least"] / row["tic"], row["random_most"] / row["tic"], colour)
            axes.dots([(x, row["random_mean"] / row["tic"])], colour)
    axes.key([("computed", COLOURS[0], "line"), ("2 workers, 1 server", COLOURS[1], "line")])
    axes.write(path)


def draw_delays(path, title, below, points):
    """Delay of an urgent call over a bound on bytes: [(place, label, row)]."""
    if len(points) < 3:
        return
    most = max(row["behind_us"] for _, _, row in points) / 1e3
    axes = Axes(title, (points[0][0] / 1.25, points[-1][0] * 1.25), (0, most * 1.15), log_x=True)
    axes.ticks([(place, label) for place, label, _ in points],
               scale(0, most * 1.15, 8, " ms"), below,
               "2 hosts, 1 Gbit/s; dashed: alone; above points: share of the wire, bulk alone")
    axes.line([(place, row["alone_us"] / 1e3) for place, _, row in points], "#999999", dashed=True)
    delays = [(place, row["behind_us"] / 1e3) for place, _, row in points]
    axes.line(delays, COLOURS[0])
    axes.dots(delays, COLOURS[0])
    for (_, _, row), (x, y) in zip(points, delays):
        axes.text(x, y, f'{100 * row["share"]:.1f} %')
    axes.write(path)


def draw_credit(folder, rows):
    """What bounds on bytes that cannot be overtaken cost and bring."""
    rows = [row for row in rows if row["ranks"] == 2]
    by_segment = sorted((row for row in rows if row["where"] == "tcp"),
                        key=lambda row: row["chunk_us"])
    draw_delays(folder / "schedule-preemption.svg",
                "Delay of an urgent 64 KB call behind 256 MB, by segment", "TUTTI_SEGMENT",
                [(row["chunk_us"], row["segment"], row) for row in by_segment])
    sweep = [(row["where"].split()[-1], row) for row in rows if "backlog" in row["where"]]
    draw_delays(folder / "schedule-credit.svg",
                "Delay of an urgent 64 KB call behind 256 MB, by bytes in the kernel",
                "TUTTI_BACKLOG, segments of 64K",
                [(2 ** place, "none" if label == "1G" else label, row)
                 for place, (label, row) in enumerate(sweep)])
    draw_use(folder / "schedule-credit-use.svg",
             [(row["where"].split()[-1], row) for row in rows if "credit" in row["where"]])


def draw_use(path, points):
    """How much of the wire was used against the delay of an urgent call: [(label, row)]."""
    if len(points) < 3:
        return
    delays = [row["behind_us"] / 1e3 for _, row in points]
    shares = [100 * row["share"] for _, row in points]
    most, least = max(delays) * 1.15, min(90, int(min(shares)) // 10 * 10)
    axes = Axes("The wire's use against the delay of an urgent 64 KB call, by TUTTI_CREDIT",
                (0, most), (least, 101))
    axes.ticks(scale(0, most), scale(least, 100, unit=" %"),
               "ms, urgent call behind 960 calls of 64 KB",
               "2 hosts, 1 Gbit/s, segments of 64K; share of the wire that such calls reached")
    axes.line(list(zip(delays, shares)), "#999999")
    key = []
    for (label, _), delay, share, colour in zip(points, delays, shares, itertools.cycle(COLOURS)):
        axes.dots([(delay, share)], colour)
        key.append((f"{label}: {delay:.1f} ms, {share:.3g} %", colour, "dot"))
    axes.key(key)  # not beside the points: those of much credit lie on each other
    axes.write(path)


def draw_golden(path, rows):
    """Units that a step of three layers takes."""
    if not rows:
        return
    orders = {"fifo": ("FIFO", COLOURS[1]), "ours": ("first use", COLOURS[0])}
    series = {f"{name}, {by}": (colour, by == "computed") for name, colour in orders.values()
              for by in ("computed", "run")}
    most = max(row.get("most", row["units"]) for row in rows)
    axes = Bars("Golden example: a step of three layers", most * 1.2,
                list(dict.fromkeys(row["form"] for row in rows)), series)
    axes.begin(scale(0, most), "units",
               "a worker and a server, or two workers; black: least to most of the rounds")
    for row in rows:
        by = "run" if row["by"] == "run" else "computed"
        axes.bar(row["form"], f"{orders[row['order']][0]}, {by}", row["units"],
                 f"{row['units']:.2f}", [row[end] for end in ("least", "most") if end in row])
    axes.write(path)


def draw_caramel(path, rows):
    """U and the step's time, by variant."""
    if not rows:
        return
    traces = dict.fromkeys(row["trace"] for row in rows)
    axes = Bars("Caramel's heuristics one after the other", 1.4,
                list(dict.fromkeys(row["variant"] for row in rows)),
                {trace: (colour, False) for trace, colour in zip(traces, COLOURS)})
    axes.begin(scale(0, 1), "U = computation / step",
               "4 hosts, rho 1; beside a bar: U and the time of a step")
    for row in rows:
        axes.bar(row["variant"], row["trace"], row["U"], f"{row['U']:.2f}, {row['T_ms']:.0f} ms")
    axes.write(path)


def grid_points(row):
    """[(name, step over that of the grid's best, colour, is_hollow, is_after)] of what it has."""
    points = []
    for after, name, first, later in (("", "", COLOURS[1], COLOURS[0]),
                                      ("_after", ", slower link", COLOURS[2], COLOURS[3])):
        for key, own, colour, hollow in (("start_over_grid", "start", first, False),
                                         ("over_grid", "found", later, False),
                                         ("live_over_grid", "the job", later, True)):
            if key + after in row:
                points.append((own + name, row[key + after], colour, hollow, bool(after)))
    return points


def draw_grid(path, rows):
    """What the tuner found, and where it began, over the best of a grid."""
    found = [(row, grid_points(row)) for row in sorted(rows, key=lambda row: row["by"] != "run")]
    found = [(row, points) for row, points in found if points]
    if not found:
        return
    low, high = widened((0.96, 1.1), (over for row, points in found for over in (
        *(over for _, over, *_ in points), *row.get("best_spread", ()))))
    axes = Axes("The tuner's step over that of the grid's best setting", (low - 0.01, high + 0.01),
                (len(found), 0), left=NAMES_LEFT)
    axes.ticks(scale(low, high), [(place + 0.5, row["setting"])
                                  for place, (row, _) in enumerate(found)], "",
               "with rho: run on 4 hosts, grey: rounds of the best; others computed", upright=True)
    for wanted, colour in ((1.03, COLOURS[0]), (1.05, COLOURS[3])):
        axes.line([(wanted, end) for end in axes.y_range], colour, dashed=True, width=1)
    signs = {}
    for place, (row, points) in enumerate(found):
        lines = [place + (0.65 if is_after else 0.35) for *_, is_after in points]
        if "best_spread" in row:  # not in rows of the first runs
            axes.line([(end, lines[0]) for end in row["best_spread"]], "#bbbbbb", width=4)
        for (name, over, colour, hollow, _), y in zip(points, lines):
            axes.dots([(over, y)], colour, hollow)
            signs[name] = (colour, "hollow" if hollow else "dot")
    axes.key([(name, *sign) for name, sign in signs.items()]
             + [("wanted at most", "#444444", "dashed")])
    axes.write(path)


def draw_defaults(path, rows):
    """What the tuner found over the library's defaults, by rho."""
    rows = [(*row["setting"].split(", ")[:2], row) for row in rows if "over_defaults" in row]
    rhos = sorted({rho for _, rho, _ in rows}, key=lambda rho: float(rho.split()[1]))
    traces = list(dict.fromkeys(trace for trace, _, _ in rows))
    if len(rhos) < 2:
        return
    limits = widened((0.88, 1.2), (end for *_, row in rows for end in (
        row["over_defaults"], row.get("live_over_defaults", 1), row["defaults_spread"][0])))
    axes = Axes("The tuner's step over that of the defaults", (-0.5, len(rhos) - 0.5), limits)
    axes.ticks([(place, rho.split()[1]) for place, rho in enumerate(rhos)], scale(*limits),
               "rho = time of communication / time of computation",
               "4 hosts; bars: least to most of the defaults' own rounds over their median")
    for trace, rho, row in rows:
        number = traces.index(trace)
        x = rhos.index(rho) + (number - (len(traces) - 1) / 2) * 0.2
        axes.span(x, *row["defaults_spread"], COLOURS[number])
        axes.dots([(x, row["over_defaults"])], COLOURS[number])
        if "live_over_defaults" in row:  # not in rows of the first runs
            axes.dots([(x, row["live_over_defaults"])], COLOURS[number], hollow=True)
    axes.key([(trace, colour, "line") for trace, colour in zip(traces, COLOURS)]
             + [("found", "#444444", "dot"), ("the job", "#444444", "hollow")])
    axes.write(path)


def draw_all(folder, rows):
    def of(section):
        return [row for row in rows if row.get("section") == section]
    folder.mkdir(parents=True, exist_ok=True)
    draw_gain(folder / "schedule-gain.svg", of("ablation"))
    draw_ablation(folder / "schedule-ablation.svg", of("ablation"))
    draw_pulls(folder / "schedule-pulls.svg", of("pulls"))
    draw_credit(folder, of("preemption"))
    draw_golden(folder / "schedule-golden.svg", of("golden"))
    draw_caramel(folder / "schedule-caramel.svg", of("caramel"))
    draw_grid(folder / "schedule-tuner.svg", of("tuner"))
    draw_defaults(folder / "schedule-tuner-defaults.svg", of("tuner"))
