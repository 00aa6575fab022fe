"""Candidates on a real scheduler with real workers: the suite of executors, and what a cluster can
do to a job."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tuner
from tests.tuner.executor.cluster.started import ROOT, Started, started_cluster
from tuner.conformance.executors import ExecutorConformance
from tuner.conformance.patience import PATIENCE_S, until
from tuner.errors import ToolchainError, UserError
from tuner.executor import EXECUTOR_VARIABLE, examine_executor
from tuner.executor.cluster import connection
from tuner.executor.cluster.tasks import Answer
from tuner.keeping.memory_store import MemoryStore
from tuner.packages.files import read_folder
from tuner.packages.kernel import kept_here
from tuner.records.trial import JobState

SMALL = {"width": 256, "height": 8}


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with started_cluster(tmp_path_factory.mktemp("workers"), "one", "two") as cluster:
        yield cluster


@pytest.mark.slow
class TestDask(ExecutorConformance):
    name = "dask"

    @pytest.fixture(autouse=True)
    def use(self, two_workers: Started, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(EXECUTOR_VARIABLE, two_workers.executor)


def test_an_error_names_its_worker_once_however_often_it_is_asked_for() -> None:
    answer = Answer[None]("two", error=ToolchainError("no linker"))
    for _ in range(2):
        with pytest.raises(ToolchainError, match=r"^no linker \(on two\)\.$"):
            answer.result()


def _packaged(name: str) -> str:
    """The kernel of a package that is kept here, and on no worker."""
    return kept_here(read_folder(ROOT / "examples/packages" / name)).name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "params"),
    [
        (lambda: "add_u8", SMALL),
        (lambda: _packaged("stencil3x3"), SMALL),
        (lambda: _packaged("unsharp"), {}),
    ],
    ids=["kernel", "package in C", "package of a Generator"],
)
def test_a_job_has_the_same_cycles_as_here(
    two_workers: Started,
    monkeypatch: pytest.MonkeyPatch,
    kernel: Callable[[], str],
    params: dict[str, int],
) -> None:
    def tuned() -> tuner.JobResult:
        return tuner.tune(kernel(), params, contract="static", trials=4, seed=3, sampler="random")

    here = tuned()
    monkeypatch.setenv(EXECUTOR_VARIABLE, two_workers.executor)
    there = tuned()
    assert there.job.toolchain == here.job.toolchain
    assert there.job.state is JobState.DONE
    assert there.best is not None
    assert here.best is not None
    assert there.best.measurement == here.best.measurement
    assert there.best.artifact_digest == here.best.artifact_digest


@pytest.mark.slow
def test_workers_are_lost_join_and_leave_while_a_job_loses_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started_cluster(tmp_path, "lost", "leaves") as cluster:
        monkeypatch.setenv(EXECUTOR_VARIABLE, cluster.executor)
        store = MemoryStore()
        job = tuner.submit(
            "add_u8", SMALL, store=store, contract="static", trials=12, workers=4, sampler="random"
        )
        leaving = cluster.processes["leaves"]
        told: list[int] = []

        def look(progress: tuner.Progress) -> None:
            if progress.finished >= 3 and "lost" in cluster.processes:
                cluster.kill("lost")
                cluster.add("joins")
            elif progress.finished >= 6 and not told:
                cluster.until_there("joins")
                leaving.send_signal(signal.SIGTERM)
                told.append(progress.finished)

        done = tuner.run(job.id, store, on_progress=look)
        assert leaving.wait(PATIENCE_S) == 0
    assert "lost" not in cluster.processes
    assert done.job.state is JobState.DONE
    trials = store.trials(job.id)
    assert [trial.number for trial in trials] == list(range(12))
    assert len({trial.config for trial in trials}) == 12
    assert not [trial for trial in trials if trial.outcome.value == "device_error"]
    assert store.pending(job.id) == []


@pytest.mark.slow
def test_a_worker_without_a_simulator_is_listed_and_given_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started_cluster(tmp_path) as cluster:
        monkeypatch.setenv(EXECUTOR_VARIABLE, cluster.executor)
        assert "there are no workers" in examine_executor().lacks[0].text
        cluster.add("bare", more={"HVXTUNE_QEMU": "/bin/false"})
        cluster.until_there("bare")
        until(lambda: "bare: qemu" in examine_executor().lacks[0].text)
        with pytest.raises(ToolchainError, match=r"no worker of dask://.* has qemu"):
            tuner.tune("add_u8", SMALL, contract="static", trials=1)
        cluster.add("able")
        until(lambda: not examine_executor().lacks)
        assert examine_executor().abilities.measurers == ("qemu",)
        done = tuner.tune("add_u8", SMALL, contract="static", trials=2)
    assert done.job.state is JobState.DONE


@pytest.mark.slow
def test_a_scheduler_that_ends_gives_the_job_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    with started_cluster(tmp_path, "only") as cluster:
        monkeypatch.setenv(EXECUTOR_VARIABLE, cluster.executor)
        job = tuner.submit("add_u8", SMALL, store=store, contract="static", trials=10)

        ended: list[int] = []

        def look(progress: tuner.Progress) -> None:
            if progress.finished >= 2 and not ended:  # several may finish together
                ended.append(progress.finished)
                connection.cluster(cluster.executor).client.shutdown()

        with pytest.raises(ToolchainError, match=r"the scheduler dask://"):
            tuner.run(job.id, store, on_progress=look)
    assert store.job(job.id).state is JobState.QUEUED
    kept = len(store.trials(job.id))
    assert kept >= 2
    with started_cluster(tmp_path, "only") as again:
        monkeypatch.setenv(EXECUTOR_VARIABLE, again.executor)
        done = tuner.run(job.id, store)
    assert done.job.state is JobState.DONE
    assert [trial.number for trial in store.trials(job.id)] == list(range(10))


@pytest.mark.parametrize("address", ["dask://lab", "dask://lab:0", "dask+tcp://lab:1"])
def test_a_wrong_address_is_named(address: str) -> None:
    with pytest.raises(UserError, match=r"accepted: threads, or dask://HOST:PORT"):
        connection.find_place(address)


def test_nobody_at_the_address_is_told_with_the_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "CONNECT_S", 0.5)
    monkeypatch.setenv(EXECUTOR_VARIABLE, "dask://127.0.0.1:9")
    [lack] = examine_executor().lacks
    assert lack.part == "executor"
    assert "hvxtune cluster scheduler" in lack.reason
