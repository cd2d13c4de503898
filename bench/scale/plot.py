#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw what bench-control-scale wrote: exposed time of a step by the number of members.

    bench/scale/plot.py OUT.json OUT.svg FILE.json...

The files, each an array of runs of `bench-control-scale --json`, are joined into OUT.json, one a
line, as bench/scale/results has them. `make figures` draws those."""

import json
import math
import sys

COLOURS = {"original": "#999999", "coordinator": "#4477aa", "bitvector": "#ee8866"}
LEFT, TOP, WIDTH, HEIGHT = 70, 40, 600, 300
LOW, HIGH = 0, 6  # powers of ten, microseconds


def place(members, exposed_us):
    """Both axes are logarithmic."""
    x = LEFT + WIDTH * (math.log2(members) - 6) / (math.log2(27600) - 6)
    y = TOP + HEIGHT * (1 - (math.log10(max(exposed_us, 1)) - LOW) / (HIGH - LOW))
    return f"{x:.0f},{y:.0f}"


def draw(runs):
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 110}" '
             f'height="{TOP + HEIGHT + 50}" font-family="sans-serif" font-size="12">',
             '<text x="10" y="20" font-size="14">From the last submission to the last agreement of '
             'a step, microseconds; plan: 0</text>']
    for power in range(LOW, HIGH + 1):
        y = TOP + HEIGHT * (1 - (power - LOW) / (HIGH - LOW))
        lines.append(f'<path d="M{LEFT} {y:.0f}h{WIDTH}" stroke="#dddddd"/>'
                     f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">'
                     f'{10 ** power:,}</text>')
    for members in sorted({run["members"] for run in runs}):
        x = place(members, 1).split(",", maxsplit=1)[0]
        lines.append(f'<text x="{x}" y="{TOP + HEIGHT + 18}" text-anchor="middle">'
                     f'{members:,}</text>')
    lines.append(f'<text x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 38}" text-anchor="middle">'
                 'members</text>')
    for mode, colour in COLOURS.items():
        points = [(run["members"], run["step"]["exposed_us"]) for run in runs
                  if run["mode"] == mode and run["bursts"] == 8]
        path = " ".join(place(*point) for point in sorted(points))
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = path.split()[-1].split(",")
        lines.append(f'<text x="{int(x) + 8}" y="{int(y) + 4}" fill="{colour}">{mode}</text>')
    return "\n".join(lines + ["</svg>"]) + "\n"


def main():
    runs = []
    for name in sys.argv[3:]:
        with open(name, encoding="utf-8") as file:
            runs += json.load(file)
    runs.sort(key=lambda run: (-run["bursts"], run["members"], run["mode"]))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.writelines(json.dumps(run) + "\n" for run in runs)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(runs))


if __name__ == "__main__":
    main()
