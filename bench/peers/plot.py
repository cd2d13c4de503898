# SPDX-License-Identifier: Apache-2.0
"""plot.py JSON PICTURE - times of all-reduce over sizes, one panel per rank count.

Run by bench/peers/run with a python3 that has matplotlib."""
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of the backend)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bench.common import rows  # noqa: E402
from bench.peers import report  # noqa: E402

OURS = {"tutti-arena": "#c0392b", "tutti-foreign": "#e67e22", "tutti-nocrc-foreign": "#c0392b"}
PEERS = ("#2c3e50", "#2980b9", "#16a085", "#7f8c8d", "#8e44ad", "#95a5a6")


def draw_panel(axes, records, block):
    sizes = sorted(key[4] for key in records.cells if key[:4] == block)
    names = sorted({name for size in sizes for name in records.cell(block, size)})
    peers = [name for name in names if name not in OURS]
    for name in names:
        points = [(size, records.cell(block, size)[name][0]) for size in sizes
                  if name in records.cell(block, size)]
        is_ours = name in OURS
        axes.plot(*zip(*points), marker="o", markersize=3, label=name,
                  color=OURS.get(name) or PEERS[peers.index(name) % len(PEERS)],
                  linewidth=2.2 if is_ours else 1.1, zorder=3 if is_ours else 2)
    if any(key[:4] == block for key in records.memory):
        large = [size for size in sizes if size >= 16 * report.MB]
        axes.plot(large, [records.bound_us(block, size) for size in large], "k--", linewidth=1,
                  label="memory bound 2PS/M")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [report.size_text(size) for size in sizes], rotation=45, fontsize=7)
    over = "" if block[0] == "shm" else ", loopback TCP"
    axes.set_title(f"{block[1]} ranks{over}" + (", rewritten" if block[3] else ""), fontsize=9)
    axes.set_xlabel("bytes per rank", fontsize=8)
    axes.grid(True, which="major", linewidth=0.3)


def main(json_path, picture_path):
    records = report.Records(rows.read([json_path]))
    blocks = [block for block in records.blocks() if block[2] == "allreduce"]
    transports = {block[0] for block in blocks}
    columns = min(3, max(1, len(blocks)))
    lines = max(1, -(-len(blocks) // columns))
    figure, panels = plt.subplots(lines, columns, figsize=(4.6 * columns, 3.8 * lines),
                                  squeeze=False)
    blocks.sort(key=lambda block: (block[0], block[3], block[1]))
    for axes in panels.flat[len(blocks):]:
        axes.set_visible(False)
    for axes, block in zip(panels.flat, blocks):
        draw_panel(axes, records, block)
    for line in panels[:, 0]:
        line.set_ylabel("microseconds (median)", fontsize=8)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, frameon=False, loc="lower center",
                  ncol=min(len(labels), 3 * columns))
    where = " and ".join("shared memory" if name == "shm" else "loopback TCP"
                         for name in sorted(transports))
    figure.suptitle(f"All-reduce, float32 sum, one host, {where}", fontsize=10)
    figure.tight_layout(rect=(0, 0.6 / (3.8 * lines), 1, 1))
    figure.savefig(picture_path)


if __name__ == "__main__":
    main(*sys.argv[1:3])
