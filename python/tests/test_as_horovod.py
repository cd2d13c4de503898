# SPDX-License-Identifier: Apache-2.0
"""Modules and variables that a script for Horovod uses; run under `tutti run --as-horovod`."""

import importlib
import importlib.metadata
import inspect
import os
import pathlib
import re
import socket
import threading

import pytest
import torch

import horovod.torch as hvd

MODULES = ["horovod", "horovod.torch", "horovod.torch.mpi_ops", "horovod.torch.compression",
           "horovod.torch.functions", "horovod.torch.optimizer", "horovod.torch.elastic",
           "horovod.torch.elastic.sampler", "horovod.torch.elastic.state",
           "horovod.torch.sync_batch_norm", "horovod.common.util", "horovod.common.exceptions",
           "horovod.common.process_sets", "horovod.common.basics", "horovod.common.elastic",
           "horovod.runner", "horovod.runner.launch", "horovod.runner.util.threads",
           "horovod.runner.common.util.timeout", "horovod.runner.common.util.hosts",
           "horovod.runner.common.util.codec", "horovod.runner.common.util.secret",
           "horovod.runner.common.util.host_hash", "horovod.data",
           "horovod.data.data_loader_base"]
# Every variable that Horovod documents.
VARIABLES = """FUSION_THRESHOLD CYCLE_TIME CACHE_CAPACITY HIERARCHICAL_ALLREDUCE
    HIERARCHICAL_ALLGATHER TORUS_ALLREDUCE BATCH_D2D_MEMCOPIES DISABLE_GROUP_FUSION
    ENABLE_ASYNC_COMPLETION ENABLE_XLA_OPS DYNAMIC_PROCESS_SETS NUM_NCCL_STREAMS CPU_OPERATIONS
    CONTROLLER THREAD_AFFINITY MPI_THREADS_DISABLE ADASUM_MPI_CHUNK_SIZE CCL_CACHE GLOO_IFACE
    CCL_BGT_AFFINITY
    GLOO_TIMEOUT_SECONDS LOG_LEVEL LOG_HIDE_TIME DISABLE_NVTX_RANGES RANK SIZE LOCAL_RANK LOCAL_SIZE
    CROSS_RANK CROSS_SIZE HOSTNAME GLOO_RENDEZVOUS_ADDR GLOO_RENDEZVOUS_PORT ELASTIC AUTOTUNE
    AUTOTUNE_LOG AUTOTUNE_WARMUP_SAMPLES AUTOTUNE_STEPS_PER_SAMPLE AUTOTUNE_BAYES_OPT_MAX_SAMPLES
    AUTOTUNE_GAUSSIAN_PROCESS_NOISE TIMELINE TIMELINE_MARK_CYCLES STALL_CHECK_DISABLE
    STALL_CHECK_TIME_SECONDS STALL_SHUTDOWN_TIME_SECONDS START_TIMEOUT ELASTIC_TIMEOUT SECRET_KEY
    SPARK_PYTHON WITH_TENSORFLOW WITHOUT_MXNET WITH_PYTORCH WITH_MPI WITHOUT_GLOO GPU_OPERATIONS
    GPU_ALLREDUCE GPU_ALLGATHER GPU_BROADCAST GPU_ALLTOALL GPU_REDUCESCATTER GPU CUDA_HOME NCCL_HOME
    NCCL_LINK ROCM_HOME CMAKE BUILD_ARCH_FLAGS BUILD_CUDA_CC_LIST DEBUG SKIP_COMPILE
    ALLOW_MIXED_GPU_IMPL""".split()


@pytest.fixture(scope="module", autouse=True)
def started():
    hvd.init()
    yield
    hvd.shutdown()


# Horovod 0.28.1's parameters; none and world stand for Compression.none and the set of all ranks.
_REDUCE = "average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, " \
    "process_set=world"
_PACKED = _REDUCE.replace("op=None", "compression=none, op=None")
_SCATTER = "name=None, op=0, process_set=world, prescale_factor=1.0, postscale_factor=1.0"
SIGNATURES = {
    "init": "comm=None, process_sets=None", "shutdown": "", "is_initialized": "",
    "rank": "", "size": "", "local_rank": "", "local_size": "", "cross_rank": "", "cross_size": "",
    "is_homogeneous": "", "start_timeline": "file_path, mark_cycles=False", "stop_timeline": "",
    "mpi_threads_supported": "", "mpi_enabled": "", "mpi_built": "", "gloo_enabled": "",
    "gloo_built": "", "nccl_built": "", "ddl_built": "", "ccl_built": "", "cuda_built": "",
    "rocm_built": "",
    "allreduce": f"tensor, {_PACKED}", "allreduce_async": f"tensor, {_REDUCE}",
    "allreduce_": f"tensor, {_REDUCE}", "allreduce_async_": f"tensor, {_REDUCE}",
    "grouped_allreduce": f"tensors, {_PACKED}", "grouped_allreduce_async": f"tensors, {_REDUCE}",
    "grouped_allreduce_": f"tensors, {_REDUCE}", "grouped_allreduce_async_": f"tensors, {_REDUCE}",
    "sparse_allreduce_async": "tensor, name, op, process_set=world",
    "allgather": "tensor, name=None, process_set=world",
    "allgather_async": "tensor, name=None, process_set=world",
    "grouped_allgather": "tensors, name=None, process_set=world",
    "grouped_allgather_async": "tensors, name=None, process_set=world",
    "broadcast": "tensor, root_rank, name=None, process_set=world",
    "broadcast_": "tensor, root_rank, name=None, process_set=world",
    "broadcast_async": "tensor, root_rank, name=None, process_set=world",
    "broadcast_async_": "tensor, root_rank, name=None, process_set=world",
    "alltoall": "tensor, splits=None, name=None, process_set=world",
    "alltoall_async": "tensor, splits=None, name=None, process_set=world",
    "reducescatter": "tensor, " + _SCATTER.replace("op=0", "compression=none, op=0"),
    "reducescatter_async": f"tensor, {_SCATTER}",
    "grouped_reducescatter": "tensors, " + _SCATTER.replace("op=0", "compression=none, op=0"),
    "grouped_reducescatter_async": f"tensors, {_SCATTER}",
    "join": "device=-1", "barrier": "process_set=world", "poll": "handle", "synchronize": "handle",
    "add_process_set": "process_set", "remove_process_set": "process_set",
    "broadcast_parameters": "params, root_rank",
    "broadcast_optimizer_state": "optimizer, root_rank, model=None",
    "broadcast_object": "obj, root_rank=0, name=None, process_set=world",
    "allgather_object": "obj, name=None",
    "DistributedOptimizer": "optimizer, named_parameters=None, compression=none, "
                            "backward_passes_per_step=1, op=0, gradient_predivide_factor=1.0, "
                            "num_groups=0, groups=None, sparse_as_dense=False, process_set=world",
    "SyncBatchNorm": "num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",
    "elastic.run": "func", "elastic.TorchState": "model=None, optimizer=None, **kwargs",
    "elastic.ElasticSampler": "dataset, shuffle=True, seed=0",
    "elastic.ElasticSampler.record_batch": "self, batch_idx, batch_size",
    "elastic.ElasticSampler.set_epoch": "self, epoch",
    "elastic.TorchState.register_reset_callbacks": "self, callbacks",
    "elastic.TorchState.commit": "self", "elastic.TorchState.restore": "self",
    "elastic.TorchState.sync": "self", "elastic.TorchState.save": "self",
    "elastic.TorchState.check_host_updates": "self", "elastic.TorchState.on_reset": "self",
    "elastic.get_handler_registry": "", "elastic.set_handler_registry": "registry",
    "Compression.fp16.compress": "tensor", "Compression.fp16.decompress": "tensor, ctx",
    "Compression.none.compress": "tensor", "Compression.none.decompress": "tensor, ctx",
}


def written(function):
    """Its parameters, as the table writes them."""
    words = {id(hvd.Compression.none): "none", id(hvd.global_process_set): "world"}
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        default = parameter.default
        text = "**" * (parameter.kind is parameter.VAR_KEYWORD) + parameter.name
        parts.append(text if default is parameter.empty
                     else f"{text}={words.get(id(default), repr(default))}")
    return parts


def named(path):
    thing = hvd
    for part in path.split("."):
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_found(module):
    importlib.import_module(module)


def test_helpers_that_scripts_import_work(monkeypatch):
    from horovod.common import util
    from horovod.torch.mpi_ops import handle_average_backwards_compatibility as meant

    monkeypatch.setenv("TUTTI_TEST_SET", "before")
    with util.env(TUTTI_TEST_SET="inside", TUTTI_TEST_NEW="new", TUTTI_TEST_NONE=None):
        assert os.environ["TUTTI_TEST_SET"] == "inside" and os.environ["TUTTI_TEST_NEW"] == "new"
        assert "TUTTI_TEST_NONE" not in os.environ
    assert os.environ["TUTTI_TEST_SET"] == "before" and "TUTTI_TEST_NEW" not in os.environ
    util.check_installed_version("pytorch", "0.1")
    for function in (meant, util.get_average_backwards_compatibility_fun(hvd)):
        assert (function(None, None), function(hvd.Min, None)) == (hvd.Average, hvd.Min)
        with pytest.warns(DeprecationWarning):
            assert function(None, False) == hvd.Sum
        with pytest.raises(ValueError, match="supersedes"):
            function(hvd.Sum, True)


def test_helpers_of_the_launcher_work():
    from horovod.runner import run
    from horovod.runner.common.util import codec, hosts, secret, timeout
    from horovod.runner.launch import parse_args
    from horovod.runner.util import threads

    assert callable(run) and len(secret.make_secret_key()) == 32
    assert threads.execute_function_multithreaded(lambda a, b: a + b, [[1, 2], [3, 4]]) == {
        0: 3, 1: 7}
    with pytest.raises(KeyError):
        threads.execute_function_multithreaded({}.__getitem__, [[1]])
    done = threading.Event()
    threads.on_event(done, done.clear).join(0.01)
    done.set()
    with pytest.raises(timeout.TimeoutException, match="waiting for 0"):
        timeout.Timeout(0, "{activity} for {timeout}").check_time_out_for("waiting")
    assert codec.loads_base64(codec.dumps_base64({"a": 1})) == {"a": 1}
    places = hosts.get_host_assignments(hosts.parse_hosts("a:2,b:2"), 3)
    assert [(p.hostname, p.rank, p.local_rank, p.cross_rank, p.size, p.local_size, p.cross_size)
            for p in places] == [("a", 0, 0, 0, 3, 2, 2), ("a", 1, 1, 0, 3, 2, 1),
                                 ("b", 2, 0, 1, 3, 1, 2)]
    with pytest.raises(ValueError, match="more processes"):
        hosts.get_host_assignments(hosts.parse_hosts("a:2"), 3)
    given = parse_args(["-np", "4", "-H", "a:2,b:2", "--verbose", "python", "train.py", "-x"])
    assert (given.num_proc, given.np, given.hosts, given.verbose) == (4, 4, "a:2,b:2", True)
    assert given.command == ["python", "train.py", "-x"] and given.ssh_port is None
    with pytest.raises(AttributeError, match="no-such"):
        given.no_such


@pytest.mark.parametrize("name", ["gloo_run", "mpi_run", "js_run", "elastic", "driver", "http"])
def test_inner_parts_of_the_launcher_name_the_cure(name):
    with pytest.raises(ImportError, match=f"horovod.runner.{name} is not .*tutti run"):
        importlib.import_module(f"horovod.runner.{name}")


def test_scripts_that_check_for_mpi_or_gloo_go_on():
    assert hvd.mpi_enabled() and hvd.mpi_built() and hvd.gloo_built()
    assert not hvd.mpi_threads_supported() and not hvd.nccl_built()


def test_a_bad_variable_is_blamed_by_its_own_name(monkeypatch):
    hvd.shutdown()
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "many")
    with pytest.raises(RuntimeError, match="HOROVOD_FUSION_THRESHOLD.*many"):
        hvd.init()
    assert "TUTTI_FUSE_BATCH" not in os.environ
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "1048576")
    hvd.init()
    assert os.environ["TUTTI_FUSE_BATCH"] == "1048576"
    hvd.shutdown()
    monkeypatch.delenv("HOROVOD_FUSION_THRESHOLD")
    hvd.init()  # settings made from variables end with the job
    assert "TUTTI_FUSE_BATCH" not in os.environ


def test_data_loaders_read_ahead_and_stop():
    from horovod.data import AsyncDataLoaderMixin, BaseDataLoader

    class Numbers(BaseDataLoader):
        def __init__(self, count, bad=None):
            self.count, self.bad, self.read = count, bad, 0

        def __len__(self):
            return self.count

        def _iterate(self):
            for i in range(self.count):
                if i == self.bad:
                    raise LookupError("no such batch")
                self.read += 1
                yield i

        def _process_batch(self, batch):
            return 10 * batch

    class Ahead(AsyncDataLoaderMixin, Numbers):
        pass

    assert list(Numbers(3)) == list(Ahead(0, False, 3)) == [0, 10, 20]
    loader = Ahead(2, False, 5)
    assert list(loader) == list(loader) == [0, 10, 20, 30, 40]
    endless = Ahead(2, False, 10**9)
    for batch in endless:
        if batch == 30:
            break
    endless.close_async_loader()
    assert endless.read <= 8  # no further than the queue, and the thread has stopped
    with pytest.raises(LookupError, match="no such batch"):
        list(Ahead(2, False, 5, bad=3))


def test_every_function_takes_horovods_parameters():
    differing = {}
    for name, parameters in SIGNATURES.items():
        wanted, own = [p for p in parameters.split(", ") if p], written(named(name))
        if own[:len(wanted)] != wanted or any("=" not in more for more in own[len(wanted):]):
            differing[name] = own
    assert differing == {}


def test_optimizers_have_horovods_methods_and_options():
    model = torch.nn.Linear(2, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0),
                                         backward_passes_per_step=3, sparse_as_dense=True)
    assert optimizer.backward_passes_per_step == 3 and optimizer.op == hvd.Average
    assert optimizer.gradient_predivide_factor == 1.0 and optimizer.sparse_as_dense
    assert optimizer.process_set is hvd.global_process_set
    optimizer.set_backward_passes_per_step(1)
    assert optimizer.backward_passes_per_step == 1
    model(torch.ones(1, 2)).sum().backward()
    optimizer.load_state_dict(optimizer.state_dict())  # discards started exchanges
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def test_errors_are_of_horovods_classes():
    from horovod.common import exceptions

    assert issubclass(exceptions.HorovodInternalError, RuntimeError)
    assert hvd.HorovodInternalError is exceptions.HorovodInternalError
    assert issubclass(exceptions.HorovodVersionMismatchError, ImportError)
    assert exceptions.HostsUpdatedInterrupt(True).skip_sync is True
    assert issubclass(exceptions.HostsUpdatedInterrupt, RuntimeError)
    with pytest.warns(DeprecationWarning, match="average"):
        hvd.allreduce(torch.ones(1), average=False)
    if hvd.size() > 1:
        with pytest.raises(hvd.HorovodInternalError):
            hvd.allreduce(torch.ones(1 + hvd.rank()), name="not alike")


def test_reduce_operators_have_horovods_numbers():
    assert [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product] == [0, 1, 2, 3, 4, 5]


def test_the_version_is_that_of_horovod():
    assert importlib.metadata.version("horovod") == "0.28.1"


@pytest.mark.parametrize("name", ["tensorflow", "keras", "mxnet", "spark", "ray"])
def test_other_frameworks_name_the_cure(name):
    with pytest.raises(ImportError, match="Tutti; "):
        importlib.import_module(f"horovod.{name}")


def test_variables_of_the_launcher_are_set():
    assert int(os.environ["HOROVOD_RANK"]) == hvd.rank()
    assert int(os.environ["HOROVOD_SIZE"]) == hvd.size()
    assert int(os.environ["HOROVOD_LOCAL_RANK"]) == hvd.local_rank()
    assert int(os.environ["HOROVOD_LOCAL_SIZE"]) == hvd.local_size()
    assert int(os.environ["HOROVOD_CROSS_RANK"]) == hvd.cross_rank()
    assert int(os.environ["HOROVOD_CROSS_SIZE"]) == hvd.cross_size()
    assert os.environ["HOROVOD_HOSTNAME"] == socket.gethostname()
    assert os.environ["HOROVOD_CONTROLLER"] == os.environ["HOROVOD_CPU_OPERATIONS"] == "gloo"


def test_variables_of_horovod_are_honoured_ignored_or_refused(monkeypatch, capsys):
    from tutti.torch import variables

    monkeypatch.delenv("TUTTI_FUSE_BATCH", raising=False)
    monkeypatch.delenv("TUTTI_LOG", raising=False)
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "1048576")
    monkeypatch.setenv("HOROVOD_LOG_LEVEL", "WARNING")
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "5")
    monkeypatch.setenv("HOROVOD_GLOO_TIMEOUT_SECONDS", "1")  # not a limit on late ranks
    hvd.shutdown()
    hvd.init()
    assert os.environ["TUTTI_FUSE_BATCH"] == "1048576" and os.environ["TUTTI_LOG"] == "warn"
    assert "TUTTI_TIMEOUT" not in os.environ
    told = capsys.readouterr().err
    assert ("HOROVOD_CYCLE_TIME" in told) == (hvd.rank() == 0)
    monkeypatch.delenv("TUTTI_FUSE_BATCH")
    monkeypatch.delenv("TUTTI_LOG")
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    with pytest.raises(ValueError, match="HOROVOD_ELASTIC"):
        variables.apply()


def test_the_guide_names_every_variable():
    from tutti.torch import variables

    guide = pathlib.Path(__file__).parents[2] / "docs" / "migrating.md"
    listed = re.findall(r"`(HOROVOD_[A-Z0-9_]+\*?)`", guide.read_text())
    for name in (f"HOROVOD_{each}" for each in VARIABLES):
        assert any(name == each or each.endswith("*") and name.startswith(each[:-1])
                   for each in listed), name
        assert variables.why_ignored(name) != variables.why_ignored("HOROVOD_NO_SUCH_THING"), name


@pytest.mark.skipif(os.environ.get("HOROVOD_RANK") != "0", reason="once is enough")
def test_horovod_run_calls_a_function_on_every_rank():
    import horovod

    assert horovod.run(os.getenv, ("HOROVOD_RANK",), num_proc=2) == ["0", "1"]
    with pytest.raises(RuntimeError, match="rank . raised TypeError"):
        horovod.run(os.getenv, num_proc=2)
    with pytest.raises(ValueError, match="cloudpickle|only allow one"):
        horovod.run(lambda: 0, hosts="a", hostfile="b")
    with pytest.raises(NotImplementedError, match="grow or shrink"):
        horovod.run(os.getenv, min_num_proc=1)


def test_a_training_loop_as_in_horovods_guide():
    torch.manual_seed(42)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for step in range(5):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(torch.randn(8, 4)), torch.zeros(8, 2)).backward()
        optimizer.step()
    assert all(torch.equal(w, model.weight) for w in hvd.allgather_object(model.weight.detach()))


DOCS = pathlib.Path(__file__).parents[2] / "docs"
LOOP = """
    torch.nn.functional.mse_loss(model(data), target).backward()
    optimizer.step()
"""


def sides(page, needle):
    """The diff of the page that has these words: the script before, and after."""
    blocks = re.findall(r"```diff\n(.*?)```", (DOCS / page).read_text(), re.S)
    block = next(block for block in blocks if needle in block)
    lines = block.splitlines()
    return ["\n".join(line[1:] for line in lines if line[:1] != other) for other in "+-"]


def followed(script):
    """The script's variables after its run, from the same start on the same data."""
    torch.manual_seed(5)
    names = {"torch": torch, "Model": lambda: torch.nn.Linear(4, 2), "__name__": "__main__"}
    names["model"] = names["Model"]()
    names["optimizer"] = torch.optim.SGD(names["model"].parameters(), lr=0.1)
    names["loader"] = [(torch.randn(3, 4), torch.randn(3, 2)) for _ in range(3)]
    names["dataset"] = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randn(8, 2))
    names["DataLoader"], names["epochs"] = torch.utils.data.DataLoader, 2
    exec(script, names)
    return names


@pytest.mark.filterwarnings("ignore")
def test_scripts_changed_as_the_guides_say_train_alike(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # they save what they trained
    before, after = sides("migrating.md", "import tutti.torch as hvd\n hvd.init()")
    assert "import horovod.torch as hvd" in before and "import tutti.torch as hvd" in after
    trained = [followed(script + LOOP)["model"] for script in (before, after)]
    assert torch.equal(trained[0].weight, trained[1].weight)
    names = followed(sides("python.md", "model = Model()")[1])
    assert hasattr(names["optimizer"], "skip_synchronize")

    ddp = sides("migrating.md", "init_process_group")[1]
    hooked = sides("migrating.md", "register_comm_hook")[1]
    import tutti.torch.backend  # noqa: F401 (a wheel registers it by entry point)
    names = followed(ddp)
    names["model"](torch.ones(2, 4)).sum().backward()
    exec("import tutti.torch\n" + hooked.replace("(model)", "(model.module)"), names)
    names["model"](torch.ones(2, 4)).sum().backward()
    names["torch"].distributed.destroy_process_group()


def test_elastic_state_is_kept_restored_and_sent():
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (hvd.rank() + 1))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    state = hvd.elastic.TorchState(model, optimizer, epoch=hvd.rank(), schedule=schedule,
                                   sampler=hvd.elastic.ElasticSampler(range(10)))
    begun = model.weight.detach().clone()
    resets = []
    state.register_reset_callbacks([lambda: resets.append(1)])

    @hvd.elastic.run
    def train(state):
        assert state.epoch == 0 and optimizer.param_groups[0]["lr"] == 0.1  # rank 0's
        with torch.no_grad():
            model.weight.fill_(5.0)
        state.epoch = 5
        state.commit()
        state.epoch = 6
        state.restore()
        return state.epoch

    assert train(state) == 5 and not resets
    assert model.weight.eq(5.0).all() and not begun.eq(5.0).all()
    state.model = torch.nn.Linear(2, 2)  # the state handles another object from now on
    state.restore()
    from horovod.common.elastic import ObjectState, State

    with pytest.raises(NotImplementedError):
        State(hvd.broadcast_object, hvd.rank).save()
    plain = ObjectState(hvd.broadcast_object, hvd.rank, batch=hvd.rank())
    plain.sync()
    assert plain.batch == 0


def test_elastic_training_goes_on_from_the_last_commit():
    state = hvd.elastic.TorchState(batch=0, tries=0)
    seen, resets = [], []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    @hvd.elastic.run
    def train(state):
        while state.batch < 4:
            state.batch += 1
            seen.append(state.batch)
            if state.batch == 2 and not resets:
                raise hvd.HorovodInternalError("a call failed on every rank")
            if state.batch == 3 and len(resets) == 1:
                state.on_hosts_updated(0.0)
            state.commit()
        return state.batch

    assert train(state) == 4
    assert seen == [1, 2, 2, 3, 4] and resets == [hvd.size()] * 2
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def test_elastic_training_names_what_it_cannot_do():
    from tutti import errors

    @hvd.elastic.run
    def lose(state):
        raise hvd.HorovodInternalError("rank 1 is down") from errors.PeerDown("rank 1 is down")

    with pytest.raises(hvd.HorovodInternalError, match="rank 1 is down; a job of fixed size"):
        lose(hvd.elastic.TorchState())

    calls = []

    @hvd.elastic.run
    def fail_again(state):
        calls.append(1)
        raise hvd.HorovodInternalError("always")

    with pytest.raises(hvd.HorovodInternalError, match="always"):
        fail_again(hvd.elastic.TorchState())
    assert len(calls) == 3


def test_a_sampler_divides_the_remaining_samples():
    sampler = hvd.elastic.ElasticSampler(range(11), shuffle=False)
    shares = hvd.allgather_object(list(sampler))
    assert sorted({i for share in shares for i in share}) == list(range(11))
    assert {len(share) for share in shares} == {len(sampler)}
    sampler.record_batch(0, 2)
    assert sampler.processed_num == 2 * hvd.size()
    other = hvd.elastic.ElasticSampler(range(11), shuffle=False)
    other.load_state_dict(sampler.state_dict())
    assert other.remaining_indices == list(range(2 * hvd.size(), 11))
    other.set_epoch(1)
    assert other.processed_num == 0
    few = hvd.elastic.ElasticSampler(range(1))
    assert list(few) == [0] and len(list(hvd.elastic.ElasticSampler([]))) == 0
