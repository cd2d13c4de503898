# SPDX-License-Identifier: Apache-2.0
"""The tuner against an exhaustive grid, on computed steps."""
from . import common


def run(bench):
    for name, numbers in common.model("tuner").items():
        samples, found, start, drifted, again, after = numbers
        bench.record(section="tuner", setting=name, by="computation", samples=int(samples),
                     over_grid=found, start_over_grid=start, noticed=bool(drifted),
                     samples_after=int(again), over_grid_after=after)
        print(f"tuner, {name}: {samples:.0f} samples, {found:.3f} of the grid's best (start "
              f"{start:.3f}); link at a third: {again:.0f} more, {after:.3f}")


def judge(bench, rows):
    for row in rows:
        bench.verdicts.add(f"tuner, {row['setting']}: over the grid's best",
                           f"{row['over_grid']:.4f} in {row['samples']} samples",
                           "at most 1.03 in 15", row["over_grid"] <= 1.03 and row["samples"] <= 15)
        bench.verdicts.add(f"tuner, {row['setting']}: after the link slowed down",
                           f"{row['over_grid_after']:.4f} in {row['samples_after']} more",
                           "at most 1.05 in 15",
                           row["over_grid_after"] <= 1.05 and row["samples_after"] <= 15)
