# SPDX-License-Identifier: Apache-2.0
"""Every test runs on all ranks of one job; `tutti run -n N python -m pytest` starts it."""

import pytest

import tutti


@pytest.fixture(scope="session")
def job():
    with tutti.init() as context:
        yield context
