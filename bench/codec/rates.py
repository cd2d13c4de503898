# SPDX-License-Identifier: Apache-2.0
"""What one core encodes and decodes, beside memcpy and torch's casts."""
import statistics
import sys

from bench.codec import torch_rank
from bench.common import environment, rows, tree

BYTES = 64 << 20
TURNS, TURNS_QUICK = 5, 2
ROUNDS = 4  # of each turn


def run(options, folder, _script):
    """Rows, one a codec: the program and torch take turns."""
    turns = TURNS_QUICK if options.quick else TURNS
    ours, casts = {}, {}
    if not environment.has_torch():
        print("bench/codec/run: torch's casts are left out: no torch", file=sys.stderr)
    for _ in range(turns):
        path = folder / "rates.json"
        tree.run(tree.BIN / "bench-codec-rates", "--rounds", ROUNDS, "--bytes", BYTES, "--json",
                 path)
        for row in rows.read([path]):
            ours.setdefault(row["codec"], []).append(row)
        if environment.has_torch():
            for name, times_s in torch_rank.casts(BYTES // 4, ROUNDS).items():
                for kept, new in zip(casts.setdefault(name, ([], [])), times_s):
                    kept.extend(new)
    copy_gbs = statistics.median(row["memcpy_gbs"] for row in next(iter(ours.values())))
    for name, found in ours.items():
        yield _row(name, "tutti", turns, copy_gbs, {
            key: statistics.median(row[key] for row in found)
            for key in ("encode_gbs", "decode_add_gbs")}) | {
            key: found[0][key] for key in ("encode_wanted", "decode_add_wanted")}
    for name, times_s in casts.items():
        yield _row(name, "torch", turns, copy_gbs, {
            key: BYTES * 1e-9 / statistics.median(each)
            for key, each in zip(("encode_gbs", "decode_add_gbs"), times_s)})


def _row(codec, library, turns, copy_gbs, gbs):
    return {"scene": "rates", "codec": codec, "library": library, "bytes": BYTES,
            "rounds": turns * ROUNDS, "memcpy_gbs": round(copy_gbs, 3),
            **{key: round(value, 3) for key, value in gbs.items()}}


def judge(found, verdicts):
    """Against memcpy of the same run."""
    for row in found:
        for key, name in (("encode", "encode"), ("decode_add", "decode-add")):
            wanted = row.get(f"{key}_wanted")
            if wanted:
                ratio = row[f"{key}_gbs"] / row["memcpy_gbs"]
                verdicts.add(f"{row['codec']}: {name} over memcpy", f"{ratio:.2f}",
                             f"at least {wanted}", ratio >= wanted)


def ratios(found):
    """Lines: encoding of Tutti's casts over that of torch's."""
    torch = {row["codec"]: row for row in found if row["library"] == "torch"}
    for row in found:
        other = torch.get(row["codec"])
        if other and row["library"] == "tutti":
            yield (f"{row['codec']}: encode {row['encode_gbs'] / other['encode_gbs']:.2f} and "
                   f"decode-add {row['decode_add_gbs'] / other['decode_add_gbs']:.2f} times as "
                   "fast as torch")


def line(row):
    """A row for people."""
    copy_gbs = row["memcpy_gbs"]
    name = f"{row['library']} {row['codec']}"
    return (f"{name:<20} encode {row['encode_gbs']:6.2f} GB/s "
            f"({row['encode_gbs'] / copy_gbs:.2f} of memcpy)   decode-add "
            f"{row['decode_add_gbs']:6.2f} GB/s ({row['decode_add_gbs'] / copy_gbs:.2f})")
