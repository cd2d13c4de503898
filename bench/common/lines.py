# SPDX-License-Identifier: Apache-2.0
"""The line between a rank and the driver that started it, as in line.h: text, both ways."""
import os
import socket


def obey(rank, answer):
    """Send the rank's number, then the numbers that `answer` makes of the words of each line."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(os.environ["BENCH_SOCKET"])
        lines = link.makefile("rw", encoding="ascii")
        lines.write(f"{rank}\n")
        lines.flush()
        for words in map(str.split, lines):
            lines.write(" ".join(f"{number:.9g}" for number in answer(words)) + "\n")
            lines.flush()
