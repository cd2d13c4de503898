# SPDX-License-Identifier: Apache-2.0
"""Pictures as plain SVG: a frame with scales, lines, dots and bars."""
import math

COLOURS = ["#1b6ca8", "#c0392b", "#e08e0b", "#5b8c2a", "#7d5ba6", "#444444"]
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
