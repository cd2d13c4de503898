# SPDX-License-Identifier: Apache-2.0
"""How the ranks of torch.distributed's first group meet: at the host of its first rank, as the
others reach it; torch's store tells them where, and the job's secret."""

import os
import secrets
import socket

import tutti


def _first_host():
    """The host of the job's first rank, as its launcher wrote it; "" where nobody did."""
    place = os.environ.get("MASTER_ADDR") or os.environ.get("TUTTI_RENDEZVOUS", "")
    if place.startswith("tcp://"):
        place = place[len("tcp://"):].rpartition(":")[0]
    elif "://" in place:
        place = ""
    return place.strip("[]")


def own_address():
    """This host's address on the way to the job's first one: what ranks of other hosts can reach.
    A group's first rank need not be on the job's first host."""
    first = _first_host()
    try:
        kind, _, _, _, target = socket.getaddrinfo(first, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing
            return probe.getsockname()[0]
    except (OSError, IndexError):
        return first or socket.gethostname()


def _listen(size):
    """A socket that listens at this host's address. The others are told of it when it does, so
    that none has to call twice."""
    host = own_address()
    kind, _, _, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(kind, socket.SOCK_STREAM)
    listener.bind(place)
    listener.listen(max(size, 128))
    address, port = listener.getsockname()[:2]
    return listener, f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"


def join(store, rank, size, timeout_s):
    """Join the job of this group; what its ranks must know goes through torch's store."""
    if size == 1:
        return tutti.init(0, 1, rendezvous="none", secret=secrets.token_bytes(32))
    timeout_s = min(timeout_s or 60.0, 300.0)
    if rank > 0:
        place, job_id, secret = store.get("tutti/meeting").decode().split()
        return tutti.init(rank, size, rendezvous=place, job_id=job_id,
                          secret=bytes.fromhex(secret), timeout=timeout_s)
    listener, place = _listen(size)
    with listener:
        job_id, secret = secrets.token_hex(8), secrets.token_bytes(32)
        store.set("tutti/meeting", f"{place} {job_id} {secret.hex()}")
        return tutti.init(0, size, rendezvous=place, job_id=job_id, secret=secret,
                          timeout=timeout_s, listen_fd=listener.fileno())
