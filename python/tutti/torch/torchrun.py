# SPDX-License-Identifier: Apache-2.0
"""Under torchrun the ranks share a fresh secret through the store that its agent serves.

Without it they would need a key file that every host can read. A secret that the user gives
(TUTTI_SECRET_FILE, TUTTI_SECRET) is preferred: torch's store is neither authenticated nor
encrypted, so this protects the job from outsiders, but not from eavesdroppers on its network."""

import datetime
import os
import secrets

_NAMES = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")
_OTHERS = ("TUTTI_RANK", "HOROVOD_RANK", "TUTTI_SECRET_FD", "TUTTI_SECRET_FILE", "TUTTI_SECRET")


def _is_ours():
    """Was this process started by torchrun, whose agent serves a store, and is no other launcher or
    secret given?"""
    get = os.environ.get
    return (get("TORCHELASTIC_USE_AGENT_STORE") == "True" and all(map(get, _NAMES))
            and not any(map(get, _OTHERS)) and get("TUTTI_LAUNCHER", "torchrun") == "torchrun")


def secret(timeout_s=60.0):
    """The job's secret; None if it comes from another source. The first rank that calls creates it.
    MASTER_PORT is only connected to, never bound: the agent listens there."""
    if not _is_ours():
        return None
    import torch.distributed as dist

    try:
        store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]),
                              is_master=False, wait_for_workers=False,
                              timeout=datetime.timedelta(seconds=timeout_s))
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        text = store.compare_set(f"tutti/secret/{attempt}", "", secrets.token_hex(32))
        return bytes.fromhex(text.decode())
    except (RuntimeError, ValueError, TypeError):  # no such store: use the other sources
        return None
