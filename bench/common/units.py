# SPDX-License-Identifier: Apache-2.0
"""Sizes as they are written."""

KB, MB = 1 << 10, 1 << 20


def size_text(count):
    for unit, name in ((MB, "MB"), (KB, "KB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"
