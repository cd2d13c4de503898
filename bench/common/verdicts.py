# SPDX-License-Identifier: Apache-2.0
"""Targets, compared with measured figures."""


class Verdicts:
    """Targets beside measured figures."""

    def __init__(self):
        self.lines = []

    def add(self, what, measured, wanted, reached):
        self.lines.append((what, measured, wanted, bool(reached)))

    def print(self):
        width = max((len(what) for what, *_ in self.lines), default=0)
        for what, measured, wanted, reached in self.lines:
            print(f"{'reached' if reached else 'MISSED':8}{what:{width + 2}}{measured}  "
                  f"(wanted: {wanted})")
