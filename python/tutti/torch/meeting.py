# SPDX-License-Identifier: Apache-2.0
"""Rendezvous of torch.distributed's first group: at the host of its first rank, at an address that
the others can reach; torch's store carries that address and the job's secret. Other groups are
process sets of the first one's job and need no rendezvous."""

import os
import secrets
import socket

import tutti


def _first_host():
    """The host of the job's first rank, as its launcher gives it; "" if it does not."""
    place = os.environ.get("MASTER_ADDR") or os.environ.get("TUTTI_RENDEZVOUS", "")
    if place.startswith("tcp://"):
        place = place[len("tcp://"):].rpartition(":")[0]
    elif "://" in place:
        place = ""
    return place.strip("[]")


def own_address():
    """This host's address on the route to the job's first host, which ranks of other hosts can
    reach. A group's first rank need not be on the job's first host."""
    first = _first_host()
    try:
        kind, _, _, _, target = socket.getaddrinfo(first, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing
            return probe.getsockname()[0]
    except (OSError, IndexError):
        return first or socket.gethostname()


def _listen(size):
    """A socket that listens at this host's address. The address is published only then, so that no
    rank has to retry."""
    host = own_address()
    kind, _, _, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(kind, socket.SOCK_STREAM)
    listener.bind(place)
    listener.listen(max(size, 128))
    address, port = listener.getsockname()[:2]
    return listener, f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"


class Place:
    """Where a group's calls are made: a job, and a process set of it."""

    def __init__(self, job, ranks=None, number=0, owner=None):
        self.job, self.set = job, number
        self._ranks = range(job.size) if ranks is None else ranks  # of the job
        self._owner = owner  # the place that joined the job; None: this one
        self._made = 0

    def _new_key(self):
        """A key that no other rank creates, and this one never again."""
        self._made += 1
        return self._made * self.job.size + self.job.rank

    def group(self, store, rank, ranks):
        """The place of a group of these members, of which this rank is number `rank`. The group's
        first rank chooses the set's key; the store signals when all have created the set."""
        owner = self._owner or self
        if rank == 0:
            store.set("tutti/set", str(owner._new_key()))
        ranks = [self._ranks[member] for member in ranks]
        number = self.job.create_set(ranks, int(store.get("tutti/set")))
        if store.add("tutti/made", 1) == len(ranks):
            store.set("tutti/all", "")
        store.get("tutti/all")
        return Place(self.job, ranks, number, owner)

    def leave(self):
        if self._owner is None:
            self.job.shutdown()
        elif self.job.is_open and self.set:
            self.job.remove_set(self.set)
            self.set = 0


def join(store, rank, size, timeout_s):
    """Join the job of this group; address, job id and secret go through torch's store. Servers of
    the launcher's job have no part in it."""
    if size == 1:
        return tutti.init(0, 1, rendezvous="none", secret=secrets.token_bytes(32), servers=0)
    timeout_s = min(timeout_s or 60.0, 300.0)
    if rank > 0:
        place, job_id, secret = store.get("tutti/meeting").decode().split()
        return tutti.init(rank, size, rendezvous=place, job_id=job_id,
                          secret=bytes.fromhex(secret), timeout=timeout_s, servers=0)
    listener, place = _listen(size)
    with listener:
        job_id, secret = secrets.token_hex(8), secrets.token_bytes(32)
        store.set("tutti/meeting", f"{place} {job_id} {secret.hex()}")
        return tutti.init(0, size, rendezvous=place, job_id=job_id, secret=secret,
                          timeout=timeout_s, listen_fd=listener.fileno(), servers=0)
