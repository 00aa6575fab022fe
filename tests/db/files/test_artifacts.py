"""Artifacts on disk: whole or reported, never half."""

from __future__ import annotations

import os
import time
import zipfile
from pathlib import Path

import pytest

from db.files.artifacts import ArtifactFiles, StoredArtifact
from db.files.folder import LocalFolder
from tuner.conformance.records import artifact
from tuner.errors import StoreError
from tuner.records.candidate import Artifact

MADE = artifact(5, loopnest=b"produce output:\n" * 200)


@pytest.fixture
def files(tmp_path: Path) -> ArtifactFiles:
    return ArtifactFiles(LocalFolder(tmp_path / "artifacts"))


def read(files: ArtifactFiles, stored: StoredArtifact) -> Artifact:
    return files.read(stored.digest, stored.symbol, stored.file_digest)


def path_of(files: ArtifactFiles, stored: StoredArtifact) -> Path:
    return Path(files.storage.path_of(files.key(stored.digest, stored.file_digest)))


def test_an_artifact_is_a_zip_that_anybody_can_open(files: ArtifactFiles) -> None:
    stored = files.write(MADE)
    path = path_of(files, stored)
    assert stored.digest in path.name
    with zipfile.ZipFile(path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == MADE.files
    assert stored.stored_bytes == path.stat().st_size < sum(map(len, MADE.files.values())) / 2
    assert stored.object_bytes == len(MADE.object_bytes)


def test_the_same_artifact_is_one_file(files: ArtifactFiles) -> None:
    first = files.write(MADE)
    path = path_of(files, first)
    before = path.stat()
    assert files.write(MADE) == first
    assert path.stat().st_ino == before.st_ino, "a whole file is left alone"


@pytest.mark.parametrize("where", [0, 40, -30, -1])
def test_any_changed_byte_is_found_and_the_file_named(files: ArtifactFiles, where: int) -> None:
    stored = files.write(MADE)
    path = path_of(files, stored)
    data = bytearray(path.read_bytes())
    data[where] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged") as refused:
        read(files, stored)
    assert str(path) in str(refused.value)
    files.write(MADE)
    assert read(files, stored) == MADE, "writing it again mends it"


def test_a_file_that_is_gone_is_named(files: ArtifactFiles) -> None:
    stored = files.write(MADE)
    path = path_of(files, stored)
    path.unlink()
    with pytest.raises(StoreError, match="gone") as refused:
        read(files, stored)
    assert str(path) in str(refused.value)


def test_what_killed_writers_left_is_swept_but_not_what_a_live_one_writes(
    files: ArtifactFiles,
) -> None:
    unfinished = files.storage.root / "unfinished"
    unfinished.mkdir(parents=True)
    for name, age_s in (("old", 7200), ("new", 10)):
        (unfinished / name).write_bytes(b"half")
        os.utime(unfinished / name, (time.time() - age_s,) * 2)
    files.write(MADE)
    assert [path.name for path in unfinished.iterdir()] == ["new"]
