# SPDX-License-Identifier: Apache-2.0
"""torch.distributed on Tutti: tensors of wrong sizes fail the call on all ranks.

One rank, drawn anew for each case, gets one thing wrong. Its tensors end at a page that may not be
touched, and begin behind one where they fill their pages."""

import ctypes
import mmap
import random

import pytest
import torch
import torch.distributed as dist

from conftest import rank, size
import tutti
import tutti.torch as hvd

CASES = 12  # of each kind
DTYPES = [torch.float32, torch.int64, torch.uint8, torch.complex64, torch.bfloat16]
PAGE, PROT_NONE = mmap.PAGESIZE, 0
libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(scope="module", autouse=True)
def two_ranks(process_group):
    if size() == 1:
        pytest.skip("needs two ranks")


def guarded(count, dtype, fill=7):
    """A tensor between two pages that may not be touched."""
    nbytes = count * torch.empty(0, dtype=dtype).element_size()
    if nbytes == 0:
        return torch.empty(0, dtype=dtype)
    pages = -(-nbytes // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (0, pages + 1):
        address = ctypes.c_void_p(begin + page * PAGE)
        assert libc.mprotect(address, ctypes.c_size_t(PAGE), PROT_NONE) == 0
    raw = torch.frombuffer(memory, dtype=torch.uint8, count=nbytes,
                           offset=(pages + 1) * PAGE - nbytes)
    return raw.view(dtype).fill_(fill)


class Case:
    """Parameters of one call: random numbers, the same on all ranks, and the rank that errs."""

    def __init__(self, kind, number):
        self.random = random.Random(f"{kind} {number}")
        self.size, self.rank = size(), rank()
        self.culprit = self.random.randrange(self.size)
        self.dtype = self.random.choice(DTYPES)
        self.count = self.random.choice([1, 3, 100, 700, 5000])
        self.root = self.random.randrange(self.size)
        self.delta = self.random.choice([-1, 1, self.count])
        if self.count + self.delta <= 0:
            self.delta = 1
        self.outputs = []

    @property
    def is_culprit(self):
        return self.rank == self.culprit  # a test may choose another one

    def input(self, count=None):
        return guarded(self.count if count is None else count, self.dtype)

    def output(self, count=None, dtype=None):
        made = guarded(self.count if count is None else count, dtype or self.dtype, 9)
        self.outputs.append(made)
        return made

    def choose(self, *choices):
        """One of these, the same on all ranks; on other ranks than the culprit, None."""
        choice = self.random.choice(choices)
        return choice if self.is_culprit else None


def all_reduce(case):
    tensor = case.output(case.count + case.delta * case.is_culprit)
    return lambda: dist.all_reduce(tensor)


def all_reduce_into_expanded_memory(case):
    case.culprit = 0
    tensor = torch.ones(1, dtype=case.dtype).expand(2) if case.rank == 0 else case.output(2)
    return lambda: dist.all_reduce(tensor)


def reduce(case):
    tensor = case.output(case.count + case.delta * case.is_culprit)
    return lambda: dist.reduce(tensor, case.root)


def broadcast(case):
    tensor = case.output(case.count + case.delta * case.is_culprit)
    return lambda: dist.broadcast(tensor, case.root)


def all_gather_into_tensor(case):
    what = case.choose("output", "input", "dtype")
    count = case.size * case.count
    output = case.output(count + case.delta * (what == "output"),
                         torch.int16 if what == "dtype" else None)
    tensor = case.input(case.count + case.delta * (what == "input"))
    return lambda: dist.all_gather_into_tensor(output, tensor)


def all_gather(case):
    which = case.random.randrange(case.size)
    what = case.choose("output", "length")
    outputs = [case.output(case.count + case.delta * (what == "output" and r == which))
               for r in range(case.size - (what == "length"))]
    return lambda: dist.all_gather(outputs, case.input())


def uneven_all_gather(case):
    which = case.random.randrange(case.size)
    counts = [case.count + r for r in range(case.size)]
    outputs = [case.output(counts[r] + case.delta * (case.is_culprit and r == which))
               for r in range(case.size)]
    return lambda: dist.all_gather(outputs, case.input(counts[case.rank]))


def reduce_scatter_tensor(case):
    what = case.choose("output", "input", "dtype")
    output = case.output(case.count + case.delta * (what == "output"),
                         torch.int16 if what == "dtype" else None)
    tensor = case.input(case.size * case.count + case.delta * (what == "input"))
    return lambda: dist.reduce_scatter_tensor(output, tensor)


def reduce_scatter(case):
    what = case.choose("output", "length", "part")
    output = case.output(case.count + case.delta * (what == "output"))
    inputs = [case.input(case.count + case.delta * (what == "part" and r == case.rank))
              for r in range(case.size - (what == "length"))]
    return lambda: dist.reduce_scatter(output, inputs)


def all_to_all_single(case):
    what = case.choose("output", "input")
    output = case.output(case.size * case.count + case.delta * (what == "output"))
    tensor = case.input(case.size * case.count + case.delta * (what == "input"))
    return lambda: dist.all_to_all_single(output, tensor)


def all_to_all_single_with_splits(case):
    what = case.choose("sum", "output", "swapped")
    given = [case.count + r for r in range(case.size)]
    taken = [case.count + case.rank] * case.size
    tensor, output = case.input(sum(given)), case.output(
        sum(taken) + case.delta * (what == "output"))
    if what == "sum":
        given[0] += case.delta
    elif what == "output":
        taken[-1] += case.delta  # agrees with the tensor, not with the received data
    elif what == "swapped":
        taken[0], taken[1] = taken[0] + 1, taken[1] - 1
    return lambda: dist.all_to_all_single(output, tensor, taken, given)


def all_to_all(case):
    which = case.random.randrange(case.size)
    what = case.choose("output", "input", "length")
    outputs = [case.output(case.count + case.delta * (what == "output" and r == which))
               for r in range(case.size - (what == "length"))]
    inputs = [case.input(case.count + case.delta * (what == "input" and r == which))
              for r in range(case.size)]
    return lambda: dist.all_to_all(outputs, inputs)


def gather(case):
    which = case.random.randrange(case.size)
    what = case.choose("output", "length") if case.culprit == case.root else case.choose("input")
    outputs = None
    if case.rank == case.root:
        outputs = [case.output(case.count + case.delta * (what == "output" and r == which))
                   for r in range(case.size - (what == "length"))]
    tensor = case.input(case.count + case.delta * (what == "input"))
    return lambda: dist.gather(tensor, outputs, case.root)


def scatter(case):
    which = case.random.randrange(case.size)
    what = case.choose("part", "length") if case.culprit == case.root else case.choose("output")
    inputs = None
    if case.rank == case.root:
        inputs = [case.input(case.count + case.delta * (what == "part" and r == which))
                  for r in range(case.size - (what == "length"))]
    output = case.output(case.count + case.delta * (what == "output"))
    return lambda: dist.scatter(output, inputs, case.root)


ROOTED = [reduce, broadcast, gather, scatter]
KINDS = [all_reduce, all_reduce_into_expanded_memory, all_gather_into_tensor, all_gather,
         uneven_all_gather, reduce_scatter_tensor, reduce_scatter, all_to_all_single,
         all_to_all_single_with_splits, all_to_all, *ROOTED]


def outcome(call):
    """None, or the text of its error."""
    try:
        call()
    except (tutti.TuttiError, RuntimeError, NotImplementedError) as problem:
        return str(problem)
    return None


def hear_late():
    """Where a rank had completed its part, a later call returns the error, on all ranks."""
    good = 0
    for _ in range(20):
        everywhere = hvd.allgather_object(outcome(dist.barrier) is None)
        good = good + 1 if all(everywhere) else 0
        if good == 3:
            return
    pytest.fail("calls go on failing")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_wrong_sizes_fail_on_all_ranks(kind):
    for number in range(CASES):
        case = Case(kind.__name__, number)
        call = kind(case)
        words = outcome(call)
        everywhere = hvd.allgather_object(words)
        assert everywhere[case.culprit] is not None or kind in ROOTED, (number, everywhere)
        if kind in ROOTED:
            hear_late()
        else:
            assert all(everywhere), (number, everywhere)
        if everywhere[case.culprit] is not None and "disagree" not in everywhere[case.culprit]:
            for others in filter(None, everywhere):
                assert f"rank {case.culprit}" in others or "earlier call" in others, everywhere
            if case.is_culprit:  # elsewhere a failed call leaves its output undefined
                for output in case.outputs:
                    assert torch.equal(output, torch.full_like(output, 9)), number
        total = torch.ones(1)
        dist.all_reduce(total)  # places still match
        assert total.item() == size()


def test_messages_of_wrong_sizes_fail():
    if rank() < 2:
        for dtype, count in ((torch.float32, 12), (torch.int32, 10)):
            if rank() == 0:
                outcome(lambda: dist.send(guarded(10, torch.float32), 1))
            else:
                assert outcome(lambda: dist.recv(guarded(count, dtype), 0)) is not None
    hear_late()


def test_the_shapes_are_in_the_text_of_every_rank():
    words = outcome(lambda: dist.all_gather_into_tensor(
        torch.zeros(3 if rank() == 1 else 2 * size(), 2),
        torch.zeros(2, 2)))
    assert "(3, 2) of float32" in words and "(2, 2) of float32" in words, words
    dist.barrier()  # the rank in error fails at once, and must not leave before the others fail
