# SPDX-License-Identifier: Apache-2.0
"""What a script for Horovod imports and reads; run under `tutti run --as-horovod`."""

import importlib
import importlib.metadata
import os

import pytest
import torch

import horovod.torch as hvd

MODULES = ["horovod", "horovod.torch", "horovod.torch.mpi_ops", "horovod.torch.compression",
           "horovod.torch.functions", "horovod.torch.optimizer", "horovod.torch.elastic",
           "horovod.torch.elastic.sampler", "horovod.torch.elastic.state",
           "horovod.torch.sync_batch_norm", "horovod.common.util", "horovod.common.exceptions",
           "horovod.common.process_sets", "horovod.common.basics", "horovod.runner"]
NAMES = """init shutdown is_initialized rank size local_rank local_size cross_rank cross_size
    start_timeline stop_timeline mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built
    nccl_built ddl_built ccl_built cuda_built rocm_built Average Sum Adasum Min Max Product
    allreduce allreduce_async allreduce_ allreduce_async_ grouped_allreduce grouped_allreduce_async
    grouped_allreduce_ grouped_allreduce_async_ sparse_allreduce_async allgather allgather_async
    grouped_allgather grouped_allgather_async broadcast broadcast_async broadcast_ broadcast_async_
    alltoall alltoall_async reducescatter reducescatter_async grouped_reducescatter
    grouped_reducescatter_async join barrier poll synchronize ProcessSet global_process_set
    add_process_set remove_process_set broadcast_parameters broadcast_optimizer_state
    broadcast_object allgather_object DistributedOptimizer SyncBatchNorm Compression
    HorovodInternalError elastic""".split()


@pytest.fixture(scope="module", autouse=True)
def started():
    hvd.init()
    yield
    hvd.shutdown()


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_found(module):
    importlib.import_module(module)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_there(name):
    assert hasattr(hvd, name)


def test_reduce_operators_have_horovods_numbers():
    assert [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product] == [0, 1, 2, 3, 4, 5]


def test_the_version_answers():
    assert importlib.metadata.version("horovod") == "0.28.1"


@pytest.mark.parametrize("name", ["tensorflow", "keras", "mxnet", "spark", "ray"])
def test_other_frameworks_name_the_cure(name):
    with pytest.raises(ImportError, match="Tutti; "):
        importlib.import_module(f"horovod.{name}")


def test_variables_of_the_launcher_are_set():
    assert int(os.environ["HOROVOD_RANK"]) == hvd.rank()
    assert int(os.environ["HOROVOD_SIZE"]) == hvd.size()
    assert int(os.environ["HOROVOD_LOCAL_RANK"]) == hvd.local_rank()


def test_variables_of_horovod_are_honoured_ignored_or_refused(monkeypatch, capsys):
    from tutti.torch import variables

    monkeypatch.delenv("TUTTI_FUSE_BATCH", raising=False)
    monkeypatch.delenv("TUTTI_LOG", raising=False)
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "1048576")
    monkeypatch.setenv("HOROVOD_LOG_LEVEL", "WARNING")
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "5")
    hvd.shutdown()
    hvd.init()
    assert os.environ["TUTTI_FUSE_BATCH"] == "1048576" and os.environ["TUTTI_LOG"] == "warn"
    told = capsys.readouterr().err
    assert ("HOROVOD_CYCLE_TIME" in told) == (hvd.rank() == 0)
    monkeypatch.delenv("TUTTI_FUSE_BATCH")
    monkeypatch.delenv("TUTTI_LOG")
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    with pytest.raises(ValueError, match="HOROVOD_ELASTIC"):
        variables.apply()


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


def test_elastic_state_and_sampler_on_a_fixed_job():
    model = torch.nn.Linear(2, 2)
    state = hvd.elastic.TorchState(model=model, epoch=hvd.rank())
    sampler = hvd.elastic.ElasticSampler(range(10), shuffle=False)

    @hvd.elastic.run
    def train(state):
        assert state.epoch == 0  # rank 0's
        state.epoch = 5
        state.commit()
        state.epoch = 6
        state.restore()
        return state.epoch

    assert train(state) == 5
    seen = sorted({i for part in hvd.allgather_object(list(sampler)) for i in part})
    assert seen == list(range(10))
    sampler.record_batch(0, 1)
    assert len(sampler.processed_indices) == 1
