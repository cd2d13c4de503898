# SPDX-License-Identifier: Apache-2.0
"""Gradients in fewer bytes: codecs in collectives, optimizers and the DDP hook.

All ranks are on one host, so every codec has where=all."""

import copy
import gc
import math
import warnings

import pytest
import torch

import tutti
import tutti.torch as hvd

INT8, INT4 = "int8:where=all", "int4:where=all"


@pytest.fixture(scope="module", autouse=True)
def started():
    hvd.init()
    yield
    hvd.shutdown()


@pytest.fixture
def job_with(monkeypatch):
    """A function that joins another job with these settings; afterwards one without them."""
    def join(**settings):
        for name, value in settings.items():
            monkeypatch.setenv(name, str(value))
        hvd.shutdown()
        hvd.init()

    yield join
    monkeypatch.undo()
    hvd.shutdown()
    hvd.init()


def several():
    if hvd.size() == 1:
        pytest.skip("a single rank codes nothing")


def model_of(seed=0):
    """Two weights of more than 64 KiB, one that is smaller, and biases."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(),
                               torch.nn.Linear(512, 300), torch.nn.ReLU(),
                               torch.nn.Linear(300, 4))


def batch(step):
    """Another one on every rank."""
    generator = torch.Generator().manual_seed(100 * step + hvd.rank())
    return torch.randn(16, 64, generator=generator), torch.randn(16, 4, generator=generator)


def backward(model, step):
    inputs, targets = batch(step)
    torch.nn.functional.mse_loss(model(inputs), targets).backward()


def train(model, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()


def distributed(model, compression=hvd.Compression.none, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return hvd.DistributedOptimizer(optimizer, model.named_parameters(), compression=compression,
                                    **options)


def crossing(model, compression=hvd.Compression.none):
    return hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
                            compression=compression)


def trained(wrap, *arguments, steps=range(5), **options):
    model = model_of()
    optimizer = wrap(model, *arguments, **options)
    train(model, optimizer, steps)
    if hasattr(optimizer, "remove"):
        optimizer.remove()
    return list(model.parameters())


def assert_equal_everywhere(tensors):
    for tensor in tensors:
        for other in hvd.allgather_object(tensor.detach()):
            assert torch.equal(tensor, other)


def same_bits(some, others):
    return all(torch.equal(a, b) for a, b in zip(some, others))


def coded_calls():
    return hvd.counters()["coded_calls"]


def random_tensor(step, count=50_000, rank=None):
    generator = torch.Generator().manual_seed(1000 * step + (hvd.rank() if rank is None else rank))
    return torch.randn(count, generator=generator)


# ---- collectives ----

@pytest.mark.parametrize("codec", ["fp16", "bf16", "e4m3", "int8", "int4", "qsgd", "sign"])
def test_all_ranks_get_the_same_bits(codec):
    for step in range(3):
        summed = hvd.allreduce(random_tensor(step), name=f"bits.{codec}", op=hvd.Sum,
                               compression=f"{codec}:where=all")
        assert_equal_everywhere([summed])
        assert torch.isfinite(summed).all()


@pytest.mark.parametrize("has_feedback", [True, False])
def test_what_is_lost_comes_later(has_feedback):
    several()
    steps, codec = 20, INT4 + ("" if has_feedback else ",ef=off")
    got, wanted = torch.zeros(50_000), torch.zeros(50_000)
    for step in range(steps):
        # the same gradient again and again: without feedback the same error, again and again
        got += hvd.allreduce(random_tensor(0), name=f"lost.{has_feedback}", compression=codec)
        wanted += sum(random_tensor(0, rank=rank) for rank in range(hvd.size())) / hvd.size()
    error = float((got - wanted).norm() / wanted.norm())
    assert error < 0.02 if has_feedback else error > 0.02


def test_other_reductions_take_codecs():
    several()
    before, tensor = coded_calls(), torch.full((hvd.size(), 100), 0.5)
    part = hvd.reducescatter(tensor, name="part", compression=INT8, op=hvd.Sum)
    assert torch.allclose(part, torch.full((1, 100), 0.5 * hvd.size()), rtol=0.02)
    for result in hvd.grouped_allreduce([tensor, tensor], name="both", compression=INT8):
        assert torch.allclose(result, tensor, rtol=0.02)
    for result in hvd.grouped_reducescatter([tensor, tensor], name="parts", compression=INT8):
        assert torch.allclose(result, tensor[:1], rtol=0.02)
    assert coded_calls() == before + 5


def test_a_function_chooses_the_codec_of_a_call():
    several()
    before = coded_calls()
    for name in ("a.weight", "a.bias"):
        hvd.allreduce(torch.ones(100), name=name,
                      compression=lambda name, _: INT8 if name.endswith("weight") else None)
    assert coded_calls() == before + 1


def test_the_gradient_of_a_coded_call_is_exact():
    tensor = torch.ones(100, requires_grad=True)
    hvd.allreduce(tensor, name="with_gradient", compression=INT8).sum().backward()
    assert torch.equal(tensor.grad, torch.ones(100))


def test_wrong_calls_are_refused():
    with pytest.raises(hvd.HorovodInternalError, match="did you mean 'int8'"):
        hvd.allreduce(torch.ones(10), name="wrong", compression="int9")
    with pytest.raises(hvd.HorovodInternalError, match="takes f32, f16 and bf16, not i64"):
        hvd.allreduce(torch.ones(10, dtype=torch.int64), name="wrong", compression=INT8)
    with pytest.raises(hvd.HorovodInternalError, match="sum and average, not with max"):
        hvd.allreduce(torch.ones(10), name="wrong", compression=INT8, op=hvd.Max)
    with pytest.raises(ValueError, match="give a name, or add ef=off"):
        hvd.allreduce(torch.ones(10), compression=INT8)
    with pytest.raises(ValueError, match="no Compressor"):
        hvd.allreduce(torch.ones(10), compression=8)
    with pytest.raises(TypeError, match="not a int"):
        hvd.allreduce(torch.ones(10), name="wrong", compression=lambda name, tensor: 8)
    hvd.allreduce(torch.ones(10), compression=INT8 + ",ef=off")


def test_wrong_codecs_of_optimizers_are_refused():
    model = model_of()
    with pytest.raises(ValueError, match="did you mean 'int8'"):
        distributed(model, "int9")
    with pytest.raises(ValueError, match="did you mean 'block'"):
        crossing(model, "int8:blok=64")
    with pytest.raises(ValueError, match="Average and Sum"):
        distributed(model, INT8, op=hvd.Adasum)
    with pytest.raises(ValueError, match="'0.weight' is of torch.float64"):
        distributed(model.double(), INT8)
    distributed(model, lambda name, p: None)


# ---- optimizers ----

@pytest.mark.parametrize("wrap, options", [
    (distributed, {}), (distributed, {"groups": 2}), (distributed, {"op": hvd.Sum}),
    (distributed, {"gradient_predivide_factor": 2.0}), (crossing, {})])
@pytest.mark.parametrize("codec", [INT8, "sign:where=all"])
def test_replicas_stay_equal(wrap, options, codec):
    before = coded_calls()
    parameters = trained(wrap, codec, **options)
    assert_equal_everywhere(parameters)
    assert coded_calls() - before == (0 if hvd.size() == 1 else 10)  # two large weights, 5 steps


def test_coded_training_is_close_to_exact_training():
    several()
    exact = trained(distributed, steps=range(20))
    coded = trained(distributed, INT8, steps=range(20))
    assert not same_bits(exact, coded)
    for a, b in zip(exact, coded):
        torch.testing.assert_close(a, b, rtol=0.01, atol=0.01)


def test_pieces_groups_and_crossing_give_the_same_bits():
    pieces = trained(distributed, INT4)
    for wrap, options in ((distributed, {"groups": 1}), (crossing, {})):
        assert same_bits(pieces, trained(wrap, INT4, **options))


def test_only_the_parameters_that_the_function_names_are_coded():
    several()
    before, seen = coded_calls(), {}

    def choose(name, p):
        seen[name] = tuple(p.shape)
        return INT8 if name == "2.weight" else "none" if name == "0.weight" else None

    assert_equal_everywhere(trained(distributed, choose))
    assert coded_calls() == before + 5
    assert seen["2.weight"] == (300, 512) and len(seen) == 6


class Halved(hvd.Compression.none):
    """A Compressor of a user."""

    @staticmethod
    def compress(tensor):
        return tensor.to(torch.float16), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)


@pytest.mark.parametrize("wrap", [distributed, crossing])
def test_compressors_work_as_before(wrap):
    before = coded_calls()
    by_cast = trained(wrap, hvd.Compression.fp16)
    for compression in (Halved, Halved()):
        parameters = trained(wrap, compression)
        assert_equal_everywhere(parameters)
        assert same_bits(parameters, by_cast)
    assert coded_calls() == before


def test_a_sparse_gradient_is_gathered_uncoded():
    torch.manual_seed(0)
    before, table = coded_calls(), torch.nn.Embedding(10_000, 3, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(table.parameters(), lr=1.0),
                                         table.named_parameters(), compression=INT8)
    table(torch.tensor([hvd.rank()])).sum().backward()
    optimizer.step()
    assert_equal_everywhere([table.weight])
    assert coded_calls() == before


@pytest.mark.parametrize("options", [{}, {"groups": 2}])
def test_a_new_optimizer_begins_without_residuals(options):
    several()
    first = trained(distributed, INT4, **options)
    assert hvd.codec_norm() > 0.0
    assert same_bits(first, trained(distributed, INT4, **options))


# ---- checkpoints ----

@pytest.mark.parametrize("wrap", [distributed, crossing])
@pytest.mark.parametrize("codec", [INT4, "none@0,int4:where=all@2"])
def test_a_checkpoint_continues_bit_for_bit(wrap, codec, tmp_path):
    several()
    hvd.shutdown()
    hvd.init()
    model = model_of()
    optimizer = wrap(model, codec)
    train(model, optimizer, range(4))
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()},
               tmp_path / "checkpoint")
    train(model, optimizer, range(4, 8))
    wanted = [tensor.clone() for tensor in model.state_dict().values()]
    del optimizer
    hvd.shutdown()
    hvd.init()
    for is_whole in (True, False):
        model, loaded = model_of(1), torch.load(tmp_path / "checkpoint")
        optimizer = wrap(model, codec) if is_whole else wrap(model, INT4)
        if not is_whole:  # a dict as torch's own optimizers write it
            del loaded["optimizer"]["tutti_codecs"]
        model.load_state_dict(loaded["model"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer.load_state_dict(loaded["optimizer"])
        train(model, optimizer, range(4, 8))
        assert same_bits(wanted, model.state_dict().values()) is is_whole


def test_the_state_of_another_rank_is_skipped_with_a_warning():
    several()
    model = model_of()
    optimizer = distributed(model, INT8)
    train(model, optimizer, range(2))
    first = hvd.broadcast_object(optimizer.state_dict(), 0)
    hvd.codec_reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.load_state_dict(first)
    about = [str(each.message) for each in caught if "is skipped" in str(each.message)]
    assert len(about) == (0 if hvd.rank() == 0 else 1)
    assert all("rank 0" in text for text in about), about
    train(model, optimizer, range(2, 4))
    hvd.broadcast_optimizer_state(optimizer, 0)
    train(model, optimizer, range(4, 6))
    assert_equal_everywhere(model.parameters())


def test_without_codecs_the_state_is_torchs_own():
    for compression in (hvd.Compression.none, hvd.Compression.fp16, "none"):
        model = model_of()
        optimizer = distributed(model, compression)
        train(model, optimizer, range(1))
        assert set(optimizer.state_dict()) == {"state", "param_groups"}


# ---- steps that are skipped ----

def skip(model, optimizer, step):
    """As a GradScaler skips: gradients are read, step() is not called."""
    optimizer.zero_grad()
    backward(model, step)
    assert all(math.isfinite(p.grad.abs().sum()) for p in model.parameters())


def test_a_skipped_step_is_undone_where_steps_are_in_use(job_with):
    several()
    job_with(TUTTI_TUNE=1)
    wanted = trained(distributed, INT4, steps=range(4))
    for by_hand in (False, True):
        model = model_of()
        optimizer = distributed(model, INT4)
        train(model, optimizer, range(2))
        if by_hand:
            optimizer.zero_grad()
            backward(model, 50)
            optimizer.synchronize()
        else:
            skip(model, optimizer, 50)
        train(model, optimizer, range(2, 4))
        assert same_bits(wanted, model.parameters())


def test_what_is_not_finite_leaves_residuals_unchanged():
    several()
    model = model_of()
    optimizer = distributed(model, INT8)
    train(model, optimizer, range(2))
    before = hvd.codec_norm()
    for overflowing in ([0], range(hvd.size())):
        optimizer.zero_grad()
        loss = sum(p.sum() for p in model.parameters())
        (loss * (math.inf if hvd.rank() in overflowing else 1.0)).backward()
        assert all(p.grad.isnan().all() or p.grad.isinf().all() for p in model.parameters())
        optimizer.zero_grad()  # a scaler skips the step
        if len(overflowing) == hvd.size() > 1:
            assert hvd.codec_norm() == before
        before = hvd.codec_norm()
        assert math.isfinite(before)
    train(model, optimizer, range(2, 4))
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert_equal_everywhere(model.parameters())


def test_residuals_follow_the_loss_scale():
    several()
    results = []
    for scale in (1.0, 1024.0):
        hvd.codec_reset()
        hvd.codec_unit(1.0)
        hvd.allreduce(random_tensor(0), name="scaled", compression=INT8)
        hvd.codec_unit(scale)
        results.append(hvd.allreduce(scale * random_tensor(1), name="scaled",
                                     compression=INT8) / scale)
    hvd.codec_reset()
    hvd.codec_unit(1.0)
    assert torch.equal(*results)


# ---- rules of the job ----

@pytest.mark.parametrize("wrap, options", [(distributed, {}), (distributed, {"groups": 2}),
                                           (crossing, {})])
def test_rules_apply_to_gradients_only(job_with, wrap, options):
    several()
    wanted = trained(wrap, INT8, **options)
    job_with(TUTTI_CODEC=INT8)
    assert same_bits(wanted, trained(wrap, **options))
    assert coded_calls() == 10
    hvd.allreduce(torch.ones(100_000), name="no_gradient")
    hvd.allreduce_(torch.ones(100_000), name="no_gradient_either")
    trained(wrap, "none", **options)
    assert coded_calls() == 10


def test_rules_choose_by_the_name_of_the_parameter(job_with, tmp_path):
    several()
    rules = tmp_path / "rules"
    rules.write_text(f"name=*2.weight codec=none\nname=*.weight codec={INT8}\n")
    job_with(TUTTI_RULES=rules, TUTTI_CODEC_MIN="1K")
    trained(distributed)
    assert coded_calls() == 10  # 0.weight and 4.weight, which has 4,800 bytes
    trained(distributed, lambda name, p: INT8 if name == "0.bias" else None)
    assert coded_calls() == 25


# ---- DistributedDataParallel ----

def ddp_trained(state, steps=range(5), **options):
    model = model_of()
    wrapped = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.2, **options)
    wrapped.register_comm_hook(state() if callable(state) else state, hvd.ddp_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    train(wrapped, optimizer, steps)
    parameters = list(model.parameters())
    del wrapped, optimizer, model
    gc.collect()
    return parameters


@pytest.mark.parametrize("options", [{}, {"gradient_as_bucket_view": True}])
def test_the_ddp_hook_keeps_residuals_by_parameter(process_group, options):
    several()
    wanted = trained(distributed, INT4)
    before = coded_calls()
    for state in (lambda: hvd.DDPState(None, INT4),
                  lambda: hvd.DDPState(hvd.global_process_set, lambda name, p: INT4)):
        parameters = ddp_trained(state, **options)
        assert_equal_everywhere(parameters)
        assert same_bits(wanted, parameters)  # although DDP formed its buckets anew
    assert coded_calls() == before + 20


def test_other_states_of_the_ddp_hook_work_as_before(process_group):
    exact = ddp_trained(None)
    assert same_bits(exact, ddp_trained(hvd.global_process_set))
    assert same_bits(exact, ddp_trained(hvd.DDPState()))
    halved = ddp_trained(hvd.DDPState(compression=hvd.Compression.fp16))
    assert_equal_everywhere(halved)
    for a, b in zip(exact, halved):
        torch.testing.assert_close(a, b, rtol=0.01, atol=0.01)


def test_the_ddp_hook_uses_the_names_of_parameters(process_group):
    several()
    seen = []

    def choose(name, p):
        seen.append(name)
        return INT8 if name == "0.weight" else None

    model, before = model_of(), coded_calls()
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    state = hvd.DDPState(compression=choose, named_parameters=model.named_parameters())
    wrapped.register_comm_hook(state, hvd.ddp_hook)
    train(wrapped, torch.optim.SGD(model.parameters(), lr=0.05), range(3))
    assert set(seen) == {name for name, _ in model.named_parameters()}
    assert coded_calls() == before + 3
    kept = copy.deepcopy(state.state_dict())
    norm = hvd.codec_norm()
    hvd.codec_reset()
    state.load_state_dict(kept)
    assert hvd.codec_norm() == norm > 0.0


def test_the_library_counts():
    counted = hvd.counters()
    assert counted["coded_wire_bytes"] <= counted["coded_raw_bytes"]
    assert isinstance(counted["mode"], str) and len(counted["sizes"]) == 16
    with pytest.raises(tutti.errors.BadArgument, match="not a positive number"):
        hvd.codec_unit(0.0)
