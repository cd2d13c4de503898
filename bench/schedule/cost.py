# SPDX-License-Identifier: Apache-2.0
"""What the scheduler itself costs, and the pair on which TAC's printed rule fails."""
from bench.common import tree
from bench.common.steps import model


def run(bench):
    pair = model("pair")["pair"]
    done = tree.run(tree.BIN / "bench-scheduler", "20" if bench.quick else "100")
    print(done.stdout, end="")
    bench.record(section="cost", pair=pair[0], scheduler=done.stdout.splitlines())


def judge(bench, rows):
    for row in rows:
        bench.verdicts.add("TAC, transfers of 1 and 10, work of 10 and 1",
                           f"{row['pair']:.0f} units",
                           "12, not 21", row["pair"] == 12)
        for line in row["scheduler"]:
            what, us = line[:24].strip(), float(line[24:].split()[0]) / 1e3
            bench.verdicts.add(f"scheduling one of 10,000 tasks: {what}", f"{us:.2f} us", "below 1",
                               us < 1)
