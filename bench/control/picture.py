# SPDX-License-Identifier: Apache-2.0
"""Pictures of what bench/control found."""
import pathlib

MODES = ["original", "coordinator", "bitvector", "plan", "auto"]


def draw(path, results):
    """Bars of the step's tail by mode, one group of bars per case."""
    rows = [r for r in results if r["groups"] == 0 and r["asked"] in MODES and r["caching"]]
    keys = sorted({(r["ranks"], r["model"]) for r in rows})
    longest = max(r["tail_us"] for r in rows)
    colours = dict(zip(MODES, ["#999999", "#4477aa", "#ee8866", "#228833", "#66ccee"]))
    bars = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{60 + 112 * len(keys)}" '
            'font-family="sans-serif" font-size="12">',
            '<text x="10" y="20" font-size="14">From the last submission to the last completion of '
            'a step, microseconds</text>']
    for row, key in enumerate(keys):
        top = 40 + 112 * row
        bars.append(f'<text x="10" y="{top + 40}">{key[1]}, {key[0]} ranks</text>')
        for place, mode in enumerate(MODES):
            value = next(r["tail_us"] for r in rows
                         if (r["ranks"], r["model"], r["asked"]) == (*key, mode))
            width, y = 420 * value / longest, top + 20 * place
            bars.append(f'<rect x="150" y="{y}" width="{width:.1f}" height="16" '
                        f'fill="{colours[mode]}"/><text x="{155 + width:.1f}" y="{y + 13}">'
                        f'{mode} {value:.0f}</text>')
    pathlib.Path(path).write_text("\n".join(bars) + "\n</svg>\n", encoding="utf-8")
