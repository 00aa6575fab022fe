"""Every entrance gives the one best: commands, routes and clients, on every database."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from db import open_store
from db.schedules.serving import FirstRows, ServingRow, values_of
from db.sql_store import SqlStore
from service.app import create_app
from service.auth.caller import Scope
from service.cli import main
from service.client import Client, RefusedError
from service.settings import Settings
from tests.conftest import UseDatabase
from tests.service.gates import CallerGate, OpenGate
from tests.service.live import live
from tuner.conformance.best import ROWS, BestConformance, Row
from tuner.keeping.store import TrialStore

BEST = "/v1/schedules/best"
_numbers = itertools.count()


def words(row: Row) -> list[str]:
    """The question on a command line."""
    lookup = row.lookup
    params = [f"-p{name}={value}" for name, value in lookup.problem.workload.params.items()]
    return [
        *("gemm_u8", *params, "--contract", row.contract, "--cache", row.cache),
        *("--min-fidelity", row.min_fidelity, "--prefer", row.prefer, "--json"),
    ]


def query(row: Row) -> dict[str, Any]:
    """The question in a URL."""
    params = ",".join(f"{k}={v}" for k, v in row.lookup.problem.workload.params.items())
    return {
        "kernel": "gemm_u8",
        "param": params,
        "contract": row.contract,
        "cache": row.cache,
        "min_fidelity": row.min_fidelity,
        "prefer": row.prefer,
    }


class AtEntrance(BestConformance):
    """An entrance over a new database."""

    @pytest.fixture
    def store(
        self, tmp_path: Path, use_database: UseDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[SqlStore]:
        monkeypatch.delenv("HVXTUNE_SERVER", raising=False)
        use_database(tmp_path / "state")
        with closing(open_store()) as opened:
            yield opened


class OfEverybody(AtEntrance):
    """For entrances that ask for no toolchain, and for nobody in particular."""

    @pytest.mark.parametrize(
        "row",
        [row for row in ROWS if not row.audience and row.toolchain is None],
        ids=lambda row: row.name,
    )
    def test_the_best(self, store: TrialStore, row: Row) -> None:
        super().test_the_best(store, row)


@pytest.mark.sqlite
class TestFirstRow(AtEntrance):
    """The look-up on SQLite that the service's fast way begins with, once it is valid."""

    def answer(self, store: SqlStore, row: Row) -> int | None:
        expected = super().answer(store, row)
        reads = FirstRows(store)
        found = reads.first_now(values_of(row.lookup))
        reads.close()
        assert (None if found is None else ServingRow._make(found).cycles) == expected
        return expected


class TestRest(AtEntrance):
    """The fast way, then the route, then the batch: all agree, asked by an owner too."""

    def answer(self, store: SqlStore, row: Row) -> int | None:
        if row.toolchain is not None:
            return super().answer(store, row)  # the routes have no word for it
        gate = CallerGate(row.audience or "test", Scope.READ)
        client = TestClient(create_app(store, gate, Settings()), raise_server_exceptions=False)
        asked = query(row)
        single = client.get(BEST, params=asked)
        # A plus sign is left to the schema, which reads it as a space.
        slow = client.get(f"{BEST}?{urlencode(asked)}".replace("%2C", "%2C+"))
        lookup = row.lookup
        batch = client.post(
            f"{BEST}:batch",
            json={
                "workloads": [
                    {"kernel": "gemm_u8", "params": dict(lookup.problem.workload.params)}
                ],
                "contract": row.contract,
                "cache": row.cache,
                "min_fidelity": row.min_fidelity,
                "prefer": row.prefer,
            },
        ).json()["items"][0]
        statuses = {single.status_code, slow.status_code, batch["status"]}
        assert statuses in ({200}, {404})
        found = {single.json().get("cycles"), slow.json().get("cycles"), batch.get("cycles")}
        [cycles] = found
        return cycles


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any] | None:
    """What a command printed; ``None`` if it said that nothing is stored."""
    capsys.readouterr()
    status = main(list(arguments))
    out, err = capsys.readouterr()
    if status == 0:
        answer: dict[str, Any] = json.loads(out)
        return answer
    assert "no schedule is stored" in err
    return None


@pytest.mark.slow
class TestCommands(OfEverybody):
    """``best`` and ``fetch`` on this machine and of a service, with the lock file."""

    @pytest.fixture(autouse=True)
    def _here(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.capsys, self.folder = capsys, tmp_path
        monkeypatch.setenv("HVXTUNE_TOKEN", "")

    def answer(self, store: SqlStore, row: Row) -> int | None:
        here = self.asked(row)
        with live(create_app(store, OpenGate(), Settings())) as address:
            there = self.asked(row, "--server", address)
            with Client(address) as client:
                asked = query(row)
                params = dict(row.lookup.problem.workload.params)
                del asked["kernel"], asked["param"]
                try:
                    best = client.best("gemm_u8", params, **asked)
                    python = int(best.document["cycles"])
                except RefusedError:
                    python = None
        assert here == there
        assert here[0] == python
        return here[0]

    def asked(self, row: Row, *where: str) -> tuple[int | None, int | None]:
        best = run(self.capsys, "best", *words(row), *where)
        place = self.folder / f"out{next(_numbers)}"
        place.mkdir()
        lock = place / "hvxtune.lock"
        fetch = ("fetch", *words(row), "-o", str(place), "--lock", str(lock), *where)
        fetched = run(self.capsys, *fetch)
        if fetched is None:
            assert best is None
            return None, None
        assert best is not None
        assert best["object_digest"] == fetched["object_digest"]
        assert f"cycles = {fetched['cycles']}\n" in lock.read_text()
        return best["cycles"], fetched["cycles"]
