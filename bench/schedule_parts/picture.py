# SPDX-License-Identifier: Apache-2.0
"""Pictures of the results, as plain SVG."""
import math

COLOURS = ["#1b6ca8", "#c0392b", "#e08e0b", "#5b8c2a", "#7d5ba6", "#444444"]
WIDTH, HEIGHT = 720, 420
LEFT, TOP, RIGHT, BOTTOM = 70, 56, 190, 60


class Axes:
    """A frame with a scale each way; x may be logarithmic."""

    def __init__(self, title, x_range, y_range, log_x=False, log_y=False):
        self.x_range, self.y_range, self.log_x, self.log_y = x_range, y_range, log_x, log_y
        self.labels = []
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
        return LEFT + self.share(value, self.x_range, self.log_x) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - self.share(value, self.y_range, self.log_y) * (
            HEIGHT - TOP - BOTTOM)

    def ticks(self, xs, ys, x_name, y_name):
        for value, text in ys:
            self.out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.y(value):.1f}" '
                            f'y2="{self.y(value):.1f}" stroke="#ddd"/><text x="{LEFT - 8}" '
                            f'y="{self.y(value) + 4:.1f}" text-anchor="end">{text}</text>')
        for value, text in xs:
            self.out.append(f'<text x="{self.x(value):.1f}" y="{HEIGHT - BOTTOM + 20}" '
                            f'text-anchor="middle">{text}</text>')
        self.out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" '
                        f'text-anchor="middle">{x_name}</text>')
        self.out.append(f'<text x="{LEFT}" y="46" fill="#555">{y_name}</text>')

    def line(self, points, colour, dashed=False, label=None):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"'
                        f'{" stroke-dasharray=" + chr(34) + "5 4" + chr(34) if dashed else ""}/>')
        if label:
            self.labels.append((self.y(points[-1][1]), label, colour))

    def dots(self, points, colour, hollow=False):
        fill = "white" if hollow else colour
        for x, y in points:
            self.out.append(f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="4" '
                            f'fill="{fill}" stroke="{colour}" stroke-width="1.5"/>')

    def text(self, x, y, text, anchor="middle", up=10):
        self.out.append(f'<text x="{self.x(x):.1f}" y="{self.y(y) - up:.1f}" '
                        f'text-anchor="{anchor}" font-size="11">{text}</text>')

    def key(self, rows):
        """A legend at the right: (text, colour, dashed)."""
        for number, (text, colour, dashed) in enumerate(rows):
            y = TOP + 10 + 20 * number
            dash = ' stroke-dasharray="5 4"' if dashed else ""
            self.out.append(f'<line x1="{WIDTH - RIGHT + 12}" x2="{WIDTH - RIGHT + 34}" y1="{y}" '
                            f'y2="{y}" stroke="{colour}" stroke-width="2"{dash}/>'
                            f'<text x="{WIDTH - RIGHT + 40}" y="{y + 4}">{text}</text>')

    def write(self, path):
        path.write_text("\n".join(self.out) + "\n</svg>\n", encoding="utf-8")


def tick_values(low, high, count=6):
    """Round numbers from low to high, about so many."""
    raw = (high - low) / count
    unit = 10 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
    first = math.ceil(low / step)
    return [round(number * step, 10) for number in range(first, int(high / step + 1e-9) + 1)]


def draw_gain(path, rows):
    """Gain over plain, measured and ideal, by rho."""
    rhos = sorted({row["rho"] for row in rows})
    if len(rhos) < 2:
        return
    axes = Axes("Priority and crossing together: gain over plain all-reduce", (rhos[0], rhos[-1]),
                (-0.05, 0.5), log_x=True)
    axes.ticks([(rho, f"{rho:g}") for rho in rhos],
               [(share / 100, f"{share} %") for share in range(0, 51, 10)],
               "rho = time of communication / time of computation",
               "4 hosts; dashed: the ideal fluid schedule")
    legend = []
    for number, trace in enumerate(dict.fromkeys(row["trace"] for row in rows)):
        own = sorted((row for row in rows if row["trace"] == trace), key=lambda row: row["rho"])
        colour = COLOURS[number]
        axes.line([(row["rho"], row["computed_plain_us"] / row["ideal_us"] - 1) for row in own],
                  colour, dashed=True)
        points = [(row["rho"], row["median_us"]["plain"] / row["median_us"]["both"] - 1)
                  for row in own]
        axes.line(points, colour)
        axes.dots(points, colour)
        legend.append((trace, colour, False))
    axes.key(legend + [("ideal", "#444444", True)])
    axes.write(path)


def draw_ablation(path, rows):
    """The variants over the ideal, mean of the traces."""
    rhos = sorted({row["rho"] for row in rows})
    if len(rhos) < 2:
        return
    axes = Axes("A step over the ideal one, mean of the traces", (rhos[0], rhos[-1]), (0.95, 1.45),
                log_x=True)
    axes.ticks([(rho, f"{rho:g}") for rho in rhos],
               [(share / 100, f"{share / 100:.1f}") for share in range(100, 141, 10)],
               "rho = time of communication / time of computation",
               "either alone gains nothing; grey: 1.03")
    axes.line([(rhos[0], 1.03), (rhos[-1], 1.03)], "#999999", dashed=True)
    legend = []
    for number, name in enumerate(("plain", "priority only", "crossing only", "both", "auto")):
        points = []
        for rho in rhos:
            own = [row["median_us"][name] / row["ideal_us"] for row in rows
                   if row["rho"] == rho and name in row["median_us"]]
            points += [(rho, sum(own) / len(own))] if own else []
        if not points:
            continue  # auto, in rows of earlier runs
        axes.line(points, COLOURS[number])
        axes.dots(points, COLOURS[number])
        legend.append((name, COLOURS[number], False))
    axes.key(legend)
    axes.write(path)


def draw_pulls(path, rows):
    """Speed-up of TIC over random orders, by size of the graph."""
    if not rows:
        return
    most = max(row["operators"] for row in rows)
    axes = Axes("Pulled in the order of the graph (TIC): speed-up over random orders",
                (0, most * 1.05), (1, 2.05))
    axes.ticks([(count, str(count)) for count in range(0, most + 1, 100)],
               [(1 + tenth / 10, f"{1 + tenth / 10:.1f}") for tenth in range(0, 11, 2)],
               "operators of the forward graph",
               "bars: least to most of 100 orders; pulling takes as long as forward")
    for by, colour in (("computation", COLOURS[0]), ("run", COLOURS[1])):
        own = [row for row in rows if row["by"] == by]
        for row in own:
            shift = 5 if by == "run" else 0
            x = row["operators"] + shift
            axes.line([(x, max(1, row["random_least"] / row["tic"])),
                       (x, min(2.05, row["random_most"] / row["tic"]))], colour)
        axes.dots([(row["operators"] + (5 if by == "run" else 0),
                    row["random_mean"] / row["tic"]) for row in own], colour)
    axes.key([("computed", COLOURS[0], False), ("2 workers, 1 server", COLOURS[1], False)])
    axes.write(path)


def draw_delays(path, title, below, points):
    """Delay of an urgent call over a bound on bytes: [(place, label, row)]."""
    if len(points) < 3:
        return
    most = max(row["behind_us"] for _, _, row in points) / 1e3
    axes = Axes(title, (points[0][0], points[-1][0]), (0, most * 1.15), log_x=True)
    axes.ticks([(place, label) for place, label, _ in points],
               [(value, f"{value:.0f} ms") for value in range(0, int(most) + 2,
                                                              max(1, int(most) // 5))],
               f"{below}; above each point: share of the 1 Gbit/s wire that bulk data reached",
               "2 hosts; dashed: alone")
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
    axes.ticks([(value, f"{value:g}") for value in tick_values(0, most)],
               [(value, f"{value:.0f} %") for value in tick_values(least, 100)],
               "ms, urgent call behind 960 calls of 64 KB",
               "2 hosts, 1 Gbit/s, segments of 64K; share of the wire that such calls reached")
    axes.line(list(zip(delays, shares)), "#999999")
    axes.dots(list(zip(delays, shares)), COLOURS[0])
    for (label, _), delay, share in zip(points, delays, shares):
        axes.text(delay, share, label)
    axes.write(path)


def draw_all(folder, rows):
    def of(section):
        return [row for row in rows if row.get("section") == section]
    folder.mkdir(parents=True, exist_ok=True)
    draw_gain(folder / "schedule-gain.svg", of("ablation"))
    draw_ablation(folder / "schedule-ablation.svg", of("ablation"))
    draw_pulls(folder / "schedule-pulls.svg", of("pulls"))
    draw_credit(folder, of("preemption"))
