# SPDX-License-Identifier: Apache-2.0
"""Pictures of the results, as plain SVG."""
import itertools
import math

COLOURS = ["#1b6ca8", "#c0392b", "#e08e0b", "#5b8c2a", "#7d5ba6", "#444444"]
ABLATION_COLOURS = dict(zip(("plain", "priority only", "crossing only", "both", "auto"), COLOURS))
WIDTH, HEIGHT = 720, 420
LEFT, TOP, RIGHT, BOTTOM = 70, 56, 190, 60
NAMES_LEFT = 190  # where names stand in place of figures
DASHES = ' stroke-dasharray="5 4"'


class Axes:
    """A frame with a scale each way; x may be logarithmic."""

    def __init__(self, title, x_range, y_range, log_x=False, left=LEFT):
        self.x_range, self.y_range, self.log_x, self.left = x_range, y_range, log_x, left
        self.out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
                    'font-family="sans-serif" font-size="13">',
                    f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
                    f'<text x="{LEFT}" y="28" font-size="16">{title}</text>']

    @staticmethod
    def share(value, limits, is_log):
        low, high = limits
        if is_log:
            return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
        return (value - low) / (high - low)

    def x(self, value):
        return self.left + self.share(value, self.x_range, self.log_x) * (
            WIDTH - self.left - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - self.share(value, self.y_range, False) * (
            HEIGHT - TOP - BOTTOM)

    def ticks(self, xs, ys, x_name, y_name, upright=False):
        """Names of places, and of the scales. Rules cross the frame at ys, or upright at xs."""
        for value, text in ys:
            self.words(self.left - 8, self.y(value) + 4, text, "end")
        for value, text in xs:
            self.words(self.x(value), HEIGHT - BOTTOM + 20, text, "middle")
        ends = self.y_range if upright else self.x_range
        for value, _ in xs if upright else ys:
            self.line([(value, end) if upright else (end, value) for end in ends], "#ddd", width=1)
        self.words((self.left + WIDTH - RIGHT) / 2, HEIGHT - 14, x_name, "middle")
        self.out.append(f'<text x="{LEFT}" y="46" fill="#555">{y_name}</text>')

    def words(self, x, y, text, anchor="start", size=13):
        """At a place of the sheet."""
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
                        f'font-size="{size}">{text}</text>')

    def line(self, points, colour, dashed=False, width=2):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        dash = DASHES if dashed else ""
        self.out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                        f'stroke-width="{width}"{dash}/>')

    def span(self, x, least, most, colour):
        """An upright bar; where it leaves the frame a head and its end's figure say so."""
        low, high = self.y_range
        self.line([(x, max(low, least)), (x, min(high, most))], colour)
        if most > high:
            across, top = self.x(x), self.y(high)
            self.out.append(f'<path d="M{across - 4:.1f} {top + 6:.1f}h8l-4 -8z" '
                            f'fill="{colour}"/><g transform="translate({across + 10:.1f} '
                            f'{top + 8:.1f}) rotate(-90)">')  # the next bar may be near
            self.words(0, 0, f"{most:.1f}", "end", 11)
            self.out.append("</g>")

    def dots(self, points, colour, hollow=False):
        for x, y in points:
            self.dot(self.x(x), self.y(y), colour, hollow)

    def dot(self, x, y, colour, hollow):
        self.out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" '
                        f'fill="{"white" if hollow else colour}" stroke="{colour}" '
                        'stroke-width="1.5"/>')

    def text(self, x, y, text):
        """Above a point."""
        self.words(self.x(x), self.y(y) - 10, text, "middle", 11)

    def key(self, rows):
        """A legend at the right: (text, colour, "line", "dashed", "dot" or "hollow")."""
        left = WIDTH - RIGHT + 12
        for number, (text, colour, sign) in enumerate(rows):
            y = TOP + 10 + 20 * number
            if sign in ("dot", "hollow"):
                self.dot(left + 11, y, colour, sign == "hollow")
            else:
                self.out.append(f'<line x1="{left}" x2="{left + 22}" y1="{y}" y2="{y}" '
                                f'stroke="{colour}" stroke-width="2"'
                                f'{DASHES if sign == "dashed" else ""}/>')
            self.words(left + 28, y + 4, text)

    def write(self, path):
        path.write_text("\n".join(self.out) + "\n</svg>\n", encoding="utf-8")


class Bars(Axes):
    """Groups from top to bottom, in each a bar for every series: {name: (colour, is_dashed)}."""

    def __init__(self, title, most, groups, series):
        super().__init__(title, (0, most), (len(groups), 0), left=NAMES_LEFT)
        self.groups, self.series = groups, series

    def begin(self, xs, x_name, y_name):
        self.ticks(xs, [(place + 0.5, group) for place, group in enumerate(self.groups)],
                   x_name, y_name, upright=True)
        self.key([(name, colour, "dashed" if dashed else "line")
                  for name, (colour, dashed) in self.series.items()])

    def bar(self, group, name, value, text, ends=()):
        """With the least and the most of what it is the median of, if they are known."""
        number, (colour, dashed) = list(self.series).index(name), self.series[name]
        high = 1 / (len(self.series) + 1)
        top = self.groups.index(group) + (number + 0.5) * high
        look = f'fill="white" stroke="{colour}"{DASHES}' if dashed else f'fill="{colour}"'
        self.out.append(f'<rect x="{self.left}" y="{self.y(top) + 1:.1f}" '
                        f'width="{self.x(value) - self.left:.1f}" '
                        f'height="{self.y(top + high) - self.y(top) - 2:.1f}" {look}/>')
        if ends:
            self.line([(end, top + high / 2) for end in ends], "black")
        self.words(self.x(max([value, *ends])) + 6, self.y(top + high / 2) + 4, text, size=11)


def widened(limits, values):
    """Limits that hold all values."""
    values = list(values)
    return min(limits[0], *values), max(limits[1], *values)


def scale(low, high, count=6, unit=""):
    """Round numbers from low to high, about so many, each with its text."""
    raw = (high - low) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    values = [round(number * step, 10)
              for number in range(math.ceil(low / step), int(high / step + 1e-9) + 1)]
    digits = max(len(f"{value:g}".partition(".")[2]) for value in values)
    return [(value, f"{value:.{digits}f}{unit}") for value in values]


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
