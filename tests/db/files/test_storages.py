"""The kinds of artifact storages, by their common suite, and what each refuses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from db import open_store
from db.files.bucket import S3Bucket
from db.files.folder import LocalFolder
from db.files.rows import DatabaseRows
from db.files.storages import ARTIFACTS_VARIABLE, open_storage, storage_kinds
from tests.db.files.stand_in_bucket import NewBucket, bucket_server
from tests.db.postgres_server import NEEDS_POSTGRES, databases
from tuner.conformance.artifact_storages import ArtifactStorageConformance, assert_one_line
from tuner.errors import StoreError, ToolchainError, UserError
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
        return open_storage("database:", storage._store)

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


@pytest.fixture(scope="module")
def new_bucket() -> Iterator[NewBucket]:
    with bucket_server() as make:
        yield make


@pytest.fixture
def bucket(new_bucket: NewBucket, monkeypatch: pytest.MonkeyPatch) -> str:
    name = new_bucket()
    for variable, value in new_bucket.environment.items():
        monkeypatch.setenv(variable, value)
    return name


class TestBucketOfTheStandIn(ArtifactStorageConformance):
    """On moto's server, which stands in for a real one: none is packaged for Debian or Python."""

    @pytest.fixture
    def storage(self, bucket: str) -> ArtifactStorage:
        return open_storage(f"s3://{bucket}/some/prefix", None)

    def again(self, storage: ArtifactStorage) -> ArtifactStorage:
        return open_storage(storage.place, None)

    def put_behind(self, storage: ArtifactStorage, key: str, data: bytes) -> None:
        assert isinstance(storage, S3Bucket)
        storage._put(key, data)

    def test_prefixes_of_one_bucket_are_apart(self, bucket: str) -> None:
        one, other = (open_storage(f"s3://{bucket}{prefix}", None) for prefix in ("/a", "/b/"))
        one.write("x", b"1")
        assert other.size("x") is None
        other.write("x", b"22")
        assert [file.bytes for file in one.files()] == [1]
        assert [file.bytes for file in open_storage(f"s3://{bucket}", None).files()] == [1, 2]

    def test_a_bucket_that_does_not_exist_is_not_a_lost_file(self, bucket: str) -> None:
        absent = open_storage(f"s3://{bucket}-none/prefix", None)
        uses: list[Callable[[], Any]] = [
            lambda: absent.read("x", DIGEST),
            lambda: absent.write("x", b""),
            lambda: list(absent.files()),
            absent.prove_writable,
            absent.require_present,
        ]
        for use in uses:
            with pytest.raises(StoreError, match="NoSuchBucket") as refused:
                use()
            assert type(refused.value) is StoreError
            assert_one_line(refused.value, absent.place)

    def test_an_unreachable_server_is_named_without_credentials(
        self, bucket: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        away = open_storage(f"s3://{bucket}", None)
        with pytest.raises(StoreError, match="cannot be used") as refused:
            away.write("x", b"")
        shown = str(refused.value) + caplog.text + repr(away)
        for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            assert os.environ[variable] not in shown


@pytest.mark.parametrize(
    "setting", ["s3:bucket", "s3://", "s3:///x", "s3://a/../b", "s3://b/x?y=1"]
)
def test_what_names_no_bucket_is_refused(setting: str) -> None:
    with pytest.raises(UserError, match="names no bucket") as refused:
        open_storage(setting, None)
    assert "s3://BUCKET" in refused.value.accepted


def test_a_secret_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(UserError) as refused:
        open_storage("s3://key:secret@bucket/prefix", None)
    assert "secret@" not in str(refused.value)


def test_the_package_for_buckets_is_named_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    with pytest.raises(ToolchainError, match="obstore") as refused:
        open_storage("s3://bucket", None)
    assert "hvxtune[s3]" in refused.value.next_step


def test_the_setting_chooses_and_unknown_kinds_are_refused(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert storage_kinds()[:3] == ["folder", "database", "s3"]
    assert open_storage(None, None).place == f"folder:{state / 'artifacts'}"
    monkeypatch.setenv(ARTIFACTS_VARIABLE, f"folder:{tmp_path}")
    assert open_storage(None, None).place == f"folder:{tmp_path}"
    assert open_storage("folder:", None).place == f"folder:{state / 'artifacts'}"
    with pytest.raises(UserError, match="unknown kind of artifact storage 'ftp'") as refused:
        open_storage("ftp://x", None)
    assert "s3" in refused.value.accepted
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
