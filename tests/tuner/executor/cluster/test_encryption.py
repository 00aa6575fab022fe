"""TLS in a cluster: certificates of one's own authority, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import tuner
from tests.rig.certificates import certificate
from tests.tuner.executor.cluster.started import started_cluster
from tuner.errors import UserError
from tuner.executor import EXECUTOR_VARIABLE, examine_executor
from tuner.executor.cluster.encryption import (
    CA_VARIABLE,
    CERTIFICATE_VARIABLE,
    KEY_VARIABLE,
    certificates,
)
from tuner.records.trial import JobState


def use(monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path, Path]) -> None:
    names = (CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE)
    for name, file in zip(names, files, strict=True):
        monkeypatch.setenv(name, str(file))


@pytest.mark.slow
def test_a_job_runs_encrypted_and_strangers_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, certificate(tmp_path / "lab"))
    with started_cluster(tmp_path, "worker") as cluster:
        assert cluster.executor.startswith("dask+tls://")
        monkeypatch.setenv(EXECUTOR_VARIABLE, cluster.executor)
        done = tuner.tune("add_u8", {"width": 256, "height": 8}, contract="static", trials=2)
        assert done.job.state is JobState.DONE
        use(monkeypatch, certificate(tmp_path / "elsewhere"))
        # Another address of the same scheduler: this process is connected to the first already.
        other = cluster.executor.replace("127.0.0.1", "localhost")
        monkeypatch.setenv(EXECUTOR_VARIABLE, other)
        [lack] = examine_executor().lacks
        assert lack.part == "executor"
        assert "certificate" in lack.reason.lower()


def test_a_part_of_the_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{CERTIFICATE_VARIABLE} is not set"):
        certificates(
            {CA_VARIABLE: str(tmp_path / "ca.pem"), KEY_VARIABLE: "key.pem"}
            | {CA_VARIABLE: __file__}
        )


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    given = dict.fromkeys((CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE), "/nowhere.pem")
    with pytest.raises(UserError, match=r"cannot read /nowhere.pem"):
        certificates(given)
