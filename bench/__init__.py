# SPDX-License-Identifier: Apache-2.0
"""Benchmarks, a folder for each topic; drivers put the tree on their path and import from here."""
