"""A kernel's file that is edited between two runs, without a new version: its old object is served
by no entrance, and a new search still learns from what the old one found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx import Response
from starlette.testclient import TestClient

from db.sql_store import SqlStore
from service.app import create_app
from service.cli import main
from service.cli.statuses import Exit
from service.fetching.sources import LocalSource
from service.settings import Settings
from tests.service.gates import OpenGate
from tests.service.stored import problem, store_schedule
from tests.tuner.kernels.test_sources import another_process
from tuner.errors import UserError
from tuner.keeping.best import lookup_of
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.records.trial import JobSpec

pytestmark = pytest.mark.sqlite

KERNEL = """
from tests.rig.scale_u8 import ScaleU8


class Shifted(ScaleU8):
    name = "shifted_u8"
"""


@pytest.fixture
def module(store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "shifted.py"
    place.write_text(KERNEL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, "shifted_u8=shifted:Shifted")
    another_process()
    yield place
    another_process()


def answer(store: SqlStore, **asked: str) -> Response:
    """Of a service that begins now."""
    client = TestClient(create_app(store, OpenGate(), Settings()))
    return client.get("/v1/schedules/best", params={"kernel": "shifted_u8", **asked})


def test_no_entrance_serves_the_object_of_a_file_that_changed(
    store: SqlStore, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = problem("shifted_u8")
    stored = store_schedule(store, of, 1000)
    assert answer(store).json()["id"] == stored
    assert LocalSource(store).best(lookup_of(of)).schedule == stored
    assert main(["best", "shifted_u8"]) == 0

    module.write_text(KERNEL + "\n    reference = None\n")
    another_process()
    changed = problem("shifted_u8")
    assert changed.workload.version == of.workload.version
    assert answer(store).status_code == 404
    assert answer(store, allow_nearest="true").status_code == 404
    with pytest.raises(UserError, match="no schedule is stored"):
        LocalSource(store).best(lookup_of(changed))
    capsys.readouterr()
    assert main(["best", "shifted_u8"]) == Exit.NOT_STORED
    assert "no schedule is stored" in capsys.readouterr().err
    [found] = store.near_jobs(
        JobSpec(problem=changed, generator="halide"), before=3.0, least=1, most=1
    )
    assert f"{found.id}-0" == stored, "a search may learn from it"

    module.write_text(KERNEL)
    another_process()
    assert answer(store).json()["id"] == stored
