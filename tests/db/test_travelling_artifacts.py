"""Artifacts go from one kind of storage to another, by a backup, and none is lost or mixed up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from itertools import permutations
from pathlib import Path

import pytest
from sqlalchemy import select

from db import open_store, pipelines
from db.exchange import restore_backup, write_backup
from db.files.inventory import sweep, take_inventory
from db.models import ArtifactRow
from db.sql_store import SqlStore
from tests.databases import put_database
from tests.db.backup_conformance import contents, fill
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, spec
from tuner.errors import StoreError
from tuner.identity import digest_of
from tuner.paths import STATE_DIR_VARIABLE
from tuner.records.trial import Submission
from tuner.uploaded import files as uploads

KINDS = ("folder", "database")


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str, str], str]:
    """The setting of a new storage of a kind, for the store called so."""

    def make(kind: str, name: str) -> str:
        return {"folder": f"folder:{tmp_path / name / 'objects'}", "database": "database:"}[kind]

    return make


def opened(tmp_path: Path, name: str, artifacts: str) -> SqlStore:
    put_database(tmp_path / name)
    return open_store(f"sqlite:///{tmp_path / name / 'hvxtune.sqlite'}", artifacts=artifacts)


def digest_of_all(store: SqlStore) -> str:
    """Over every row that a backup keeps, and the bytes of every artifact."""
    with store.reading() as session:
        digests = list(session.scalars(select(ArtifactRow.digest).order_by(ArtifactRow.digest)))
    files = {
        digest: {kind: data.hex() for kind, data in store.artifact(digest).files.items()}
        for digest in digests
    }
    assert files
    return digest_of([repr(sorted(contents(store).items())), files])


@pytest.mark.parametrize(("source", "target"), list(permutations(KINDS, 2)))
def test_a_backup_takes_all_to_another_kind(
    source: str,
    target: str,
    place: Callable[[str, str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(opened(tmp_path, "one", place(source, "one"))) as store:
        fill(store)
        before = digest_of_all(store)
        made = write_backup(store, tmp_path / "backup.zip")
        assert made.missing == []
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "two"))
    with closing(opened(tmp_path, "two", place(target, "two"))) as other:
        done = restore_backup(other, tmp_path / "backup.zip")
        assert (done.rows, done.files) == (made.rows, made.files)
        assert digest_of_all(other) == before
        found = take_inventory(other.artifacts, verify=True)
        assert (found.referred, found.missing, found.damaged) == (2, (), ())
        other.mark_artifacts()


@pytest.mark.parametrize("kind", KINDS)
def test_the_inventory_tells_what_is_lost_and_what_is_spare(
    kind: str,
    place: Callable[[str, str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(opened(tmp_path, "one", place(kind, "one"))) as store:
        fill(store)
        storage = store.files.storage
        whole = take_inventory(store.artifacts, verify=True)
        assert (whole.referred, whole.missing, whole.damaged, whole.unreferred) == (2, (), (), ())
        assert whole.files == 4, "two artifacts, an upload and the mark"
        [first, second] = sorted(one.key for one in storage.files() if one.key.endswith(".zip"))
        storage.delete(first)
        storage._put(second, bytes(storage.size(second) or 0))
        storage.write("ff/spare", b"nobody needs it")
        assert take_inventory(store.artifacts).missing == (first,)
        found = take_inventory(store.artifacts, verify=True)
        assert (found.missing, found.damaged, found.unreferred) == ((first,), (second,), ())
        monkeypatch.setattr("db.files.inventory.SPARED_S", -3600.0)
        found = take_inventory(store.artifacts)
        assert (found.unreferred, found.unreferred_bytes) == (("ff/spare",), 15)
        assert sweep(store.artifacts, found) == 1
        assert storage.size("ff/spare") is None
        assert storage.size(second) is not None
        storage.write("marks/" + "0" * 32, b"of another database")
        with pytest.raises(StoreError, match="marks of 1 other databases"):
            sweep(store.artifacts, take_inventory(store.artifacts))


def test_who_looks_elsewhere_takes_no_job_and_can_say_that_it_is_right(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'shared' / 'hvxtune.sqlite'}"
    put_database(tmp_path / "shared")
    here, there = (f"folder:{tmp_path / name}" for name in ("here", "there"))
    with (
        closing(open_store(url, artifacts=here)) as first,
        closing(open_store(url, artifacts=there)) as second,
    ):
        job = first.create_job(spec(), SPACE, TOOLCHAIN)
        token = first.claim(job.id)
        first.commit(job.id, token, artifacts=[artifact(1)])
        other = second.create_job(spec(), SPACE, TOOLCHAIN)
        with pytest.raises(StoreError, match="and not in folder") as refused:
            second.claim(other.id)
        assert here in str(refused.value)
        assert there in str(refused.value)
        assert "HVXTUNE_ARTIFACTS" in refused.value.next_step
        assert "\n" not in str(refused.value)
        assert second.job(other.id).state == "queued"
        second.artifacts.mark.adopt()
        second.claim(other.id)
        first.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann"))
        queue = first.queue()
        assert queue.take_next() is None, "the mark that it knows is no longer the mark"
        with pytest.raises(StoreError, match="and not in folder"):
            queue.take_next()
        with pytest.raises(StoreError, match="and not in folder"):
            first.claim(first.create_job(spec(), SPACE, TOOLCHAIN).id)


def test_uploads_travel_too(
    place: Callable[[str, str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"a serialized pipeline"
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "one"))
    with closing(opened(tmp_path, "one", place("database", "one"))) as store:
        kept, _ = pipelines.keep(store, data, "blur", "ann", {}, owner="vision", private=True)
        monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "two"))
        assert not uploads.path_of(kept.digest).exists()
        pipelines.bring(store, "gemm_u8")
        pipelines.bring(store, "pipeline:000000000000")
        assert uploads.kept() == []
        pipelines.bring(store, kept.kernel)
        assert uploads.read(kept.digest) == data
        monkeypatch.setattr("db.files.inventory.SPARED_S", -3600.0)
        assert take_inventory(store.artifacts).unreferred == ()
        [key] = [one.key for one in store.files.storage.files() if one.key[:7] == "uploads"]
        store.files.storage._put(key, b"other bytes")
        uploads.path_of(kept.digest).unlink()
        with pytest.raises(StoreError, match="damaged"):
            pipelines.bring(store, kept.kernel)
