# SPDX-License-Identifier: Apache-2.0
"""Rounds in which everything that is compared takes its turn."""


def in_turn(items, turn):
    """All of them, beginning with another one each turn: none always follows the same other."""
    first = turn % len(items)
    return items[first:] + items[:first]
