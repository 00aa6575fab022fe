"""The kinds of artifact storages, by their common suite, and what each refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from db import open_store
from db.files.folder import LocalFolder
from db.files.rows import DatabaseRows
from db.files.storages import ARTIFACTS_VARIABLE, open_storage
from tests.db.postgres_server import NEEDS_POSTGRES, databases
from tuner.conformance.artifact_storages import ArtifactStorageConformance
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.keeping.artifact_storage import ArtifactStorage

DIGEST = digest_of_bytes(b"")


class TestLocalFolder(ArtifactStorageConformance):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> ArtifactStorage:
        return open_storage(f"folder:{tmp_path / 'objects'}", None)

    def again(self, storage: ArtifactStorage) -> ArtifactStorage:
        return open_storage(storage.place, None)

    def put_behind(self, storage: ArtifactStorage, key: str, data: bytes) -> None:
        Path(storage.path_of(key)).write_bytes(data)


class _InADatabase(ArtifactStorageConformance):
    def again(self, storage: ArtifactStorage) -> ArtifactStorage:
        assert isinstance(storage, DatabaseRows)
        return open_storage("database:", storage._database)

    def put_behind(self, storage: ArtifactStorage, key: str, data: bytes) -> None:
        assert isinstance(storage, DatabaseRows)
        storage._put(key, data)


@pytest.mark.usefixtures("database")
class TestRowsOfSqlite(_InADatabase):
    @pytest.fixture
    def storage(self) -> Iterator[ArtifactStorage]:
        with closing(open_store(artifacts="database:")) as store:
            yield store.files.storage


@pytest.fixture(scope="module")
def new_database() -> Iterator[Callable[..., str]]:
    with databases() as make:
        yield make


@NEEDS_POSTGRES[0]
@NEEDS_POSTGRES[1]
class TestRowsOfPostgres(_InADatabase):
    @pytest.fixture
    def storage(self, new_database: Callable[..., str]) -> Iterator[ArtifactStorage]:
        with closing(open_store(new_database(), artifacts="database:")) as store:
            yield store.files.storage


def test_the_setting_chooses_and_unknown_kinds_are_refused(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_storage(None, None).place == f"folder:{state / 'artifacts'}"
    monkeypatch.setenv(ARTIFACTS_VARIABLE, f"folder:{tmp_path}")
    assert open_storage(None, None).place == f"folder:{tmp_path}"
    assert open_storage("folder:", None).place == f"folder:{state / 'artifacts'}"
    with pytest.raises(UserError, match="unknown kind of artifact storage 'ftp'") as refused:
        open_storage("ftp://x", None)
    assert "database" in refused.value.accepted
    with pytest.raises(UserError, match="has no kind") as refused:
        open_storage("/some/folder", None)
    assert "folder:/some/folder" in refused.value.next_step
    with pytest.raises(UserError, match="database:x"):
        open_storage("database:x", None)


def test_a_wrong_setting_is_refused_before_a_store_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ARTIFACTS_VARIABLE, "nowhere")
    with pytest.raises(UserError, match=ARTIFACTS_VARIABLE):
        open_store()


def test_a_package_adds_a_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere.py").write_text(
        "from db.files.folder import LocalFolder\nclass Elsewhere(LocalFolder):\n    pass\n"
    )
    info = tmp_path / "elsewhere-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[hvxtune.artifacts]\naway = elsewhere:Elsewhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import db.files.storages as storages

    registry = storages._REGISTRY
    monkeypatch.setattr(
        storages,
        "_REGISTRY",
        type(registry)(registry.kind, registry.group, {}, ArtifactStorage),
    )
    assert isinstance(open_storage(f"away:{tmp_path}", None), LocalFolder)
