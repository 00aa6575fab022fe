"""Rows that were changed to point to another kernel's object: noticed before anything is served."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from db.exchange import export_schedules, import_schedules
from db.models import ArtifactRow, ScheduleRow
from db.sql_store import SqlStore
from service.fetching.sources import LocalSource
from tests.service.stored import problem, store_schedule
from tuner.errors import StoreError, UserError
from tuner.keeping.best import lookup_of

pytestmark = pytest.mark.sqlite

SHAPE = {"m": 64, "n": 128, "k": 128}
OF = problem(**SHAPE)
ASKED = {"kernel": "gemm_u8", "param": "m=64,n=128,k=128"}
Swap = Callable[[Session, ArtifactRow, ArtifactRow], object]


def schedule_points_elsewhere(session: Session, own: ArtifactRow, other: ArtifactRow) -> None:
    values = {"artifact_digest": other.digest, "symbol": other.symbol}
    session.execute(update(ScheduleRow).filter_by(artifact_digest=own.digest).values(**values))


def object_elsewhere_and_the_own_symbol(
    session: Session, own: ArtifactRow, other: ArtifactRow
) -> None:
    values = {"artifact_digest": other.digest}
    session.execute(update(ScheduleRow).filter_by(artifact_digest=own.digest).values(**values))
    session.execute(update(ArtifactRow).filter_by(digest=other.digest).values(symbol=own.symbol))


def config_of_another(session: Session, own: ArtifactRow, other: ArtifactRow) -> None:
    config = session.scalars(
        select(ScheduleRow).where(ScheduleRow.artifact_digest == other.digest)
    ).one()
    values = {"config": config.config, "config_digest": config.config_digest}
    session.execute(update(ScheduleRow).filter_by(artifact_digest=own.digest).values(**values))


SWAPS = [schedule_points_elsewhere, object_elsewhere_and_the_own_symbol, config_of_another]


@pytest.fixture
def stored(store: SqlStore) -> str:
    store_schedule(store, problem("add_u8"), 900)
    return store_schedule(store, OF, 1000)


def swapped(store: SqlStore, swap: Swap) -> None:
    with store.writing() as session:
        wanted = select(ArtifactRow).order_by(ArtifactRow.symbol.desc())
        own, other = session.scalars(wanted)
        assert (own.symbol, other.symbol) == (OF.symbol, problem("add_u8").symbol)
        swap(session, own, other)


@pytest.mark.parametrize("swap", SWAPS)
def test_a_service_refuses_it_and_says_why(
    client: TestClient, store: SqlStore, stored: str, swap: Swap
) -> None:
    assert client.get("/v1/schedules/best", params=ASKED).json()["id"] == stored
    swapped(store, swap)
    missed = client.get("/v1/schedules/best", params=ASKED)
    if missed.status_code == 200:  # the trial that was measured took its place
        assert missed.json()["symbol"] == OF.symbol
        assert client.get(f"/v1/schedules/{missed.json()['id']}/object").status_code == 200
    listed = client.get("/v1/schedules", params={"quarantined": "true"}).json()["items"]
    assert "the seal differs" in listed[0]["quarantined"]["reason"]


@pytest.mark.parametrize("swap", SWAPS)
def test_nor_is_its_object_given_to_a_build_that_pinned_it(
    client: TestClient, store: SqlStore, stored: str, swap: Swap
) -> None:
    swapped(store, swap)
    refused = client.get(f"/v1/schedules/{stored}/object")
    assert refused.status_code == 409
    assert "the seal differs" in refused.json()["detail"]


@pytest.mark.parametrize("swap", SWAPS)
def test_nor_to_fetch_and_the_command_line_on_this_machine(
    store: SqlStore, stored: str, swap: Swap
) -> None:
    swapped(store, swap)
    best = store.best(lookup_of(OF))
    assert best is None or best.config == store.trials(stored.partition("-")[0])[0].config
    if best is None:
        with pytest.raises(UserError, match="no schedule is stored"):
            LocalSource(store).best(lookup_of(OF))
    else:  # the trial that was measured took its place
        content = LocalSource(store).file(best.public_id, best.artifact_digest, "object")
        assert OF.symbol.encode() in content


@pytest.mark.parametrize("swap", [SWAPS[0], SWAPS[2]])
def test_nor_to_other_machines(
    client: TestClient, store: SqlStore, stored: str, swap: Swap, tmp_path: Path
) -> None:
    swapped(store, swap)
    assert export_schedules(store, tmp_path / "schedules.zip") == 1
    # What took its place, if anything did, goes out as what it is.
    assert import_schedules(store, tmp_path / "schedules.zip").stored == 0


def test_a_file_in_the_place_of_another_is_refused(
    client: TestClient, store: SqlStore, stored: str
) -> None:
    """The artifact's row names another kernel's file, and the digest of that file."""
    with store.writing() as session:
        own, other = session.scalars(select(ArtifactRow).order_by(ArtifactRow.symbol.desc()))
        root, key = store.files.storage.root, store.files.key
        content = (root / key(other.digest, other.file_digest)).read_bytes()
        values = {"file_digest": other.file_digest, "stored_bytes": len(content)}
        session.execute(update(ArtifactRow).filter_by(digest=own.digest).values(**values))
        (root / key(own.digest, other.file_digest)).write_bytes(content)
    refused = client.get(f"/v1/schedules/{stored}/object")
    assert refused.status_code == 409
    assert "damaged" in refused.json()["detail"]


def test_an_artifact_is_not_read_under_the_symbol_of_another(store: SqlStore, stored: str) -> None:
    with store.writing() as session:
        own = session.scalars(select(ArtifactRow).where(ArtifactRow.symbol == OF.symbol)).one()
        digest, own.symbol = own.digest, problem("add_u8").symbol
    with pytest.raises(StoreError, match="does not define add_u8"):
        store.artifact(digest)
