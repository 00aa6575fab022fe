"""The files among the artifacts of a store: what rows refer to, what is lost, what is spare."""

from __future__ import annotations

import time
from dataclasses import dataclass

from db.files.artifacts import ArtifactFiles
from db.files.kept import Artifacts
from db.files.mark import MARKS
from tuner.errors import StoreError
from tuner.keeping.artifact_storage import LostFileError

UPLOADS = "uploads/"
"""Begins the keys of uploaded pipelines, for machines that do not share a state directory."""
SPARED_S = 86400.0
"""Younger files are never swept: a file is written before the row that refers to it."""


@dataclass(frozen=True)
class Inventory:
    """The files of a storage against the rows of its database.

    ``referred`` counts the artifacts of the database. ``missing`` and ``damaged`` are keys of
    theirs; ``unreferred`` are keys of files that no row needs and that are older than
    :data:`SPARED_S`, with ``unreferred_bytes`` in all; ``other_marks`` counts other databases that
    keep their artifacts in the same place. ``damaged`` is empty unless every file was
    read.
    """

    place: str
    files: int
    bytes: int
    referred: int
    missing: tuple[str, ...]
    damaged: tuple[str, ...]
    unreferred: tuple[str, ...]
    unreferred_bytes: int
    other_marks: int


def take_inventory(artifacts: Artifacts, *, verify: bool = False) -> Inventory:
    """Compares names and sizes, and with ``verify`` the digests of all bytes."""
    storage = artifacts.files.storage
    # Files first: what is written meanwhile is referred to by a later look at the rows.
    files = {one.key: one for one in storage.files()}
    rows, marks = artifacts.rows_and_marks()
    wanted = {ArtifactFiles.key(row.digest, row.file_digest): row for row in rows}
    missing = [key for key in wanted if key not in files and storage.size(key) is None]
    damaged = [
        key for key, row in wanted.items() if key in files and files[key].bytes != row.stored_bytes
    ]
    if verify:
        damaged = [
            key
            for key, row in wanted.items()
            if key in files and not _is_whole(artifacts, key, row.file_digest)
        ]
    before = time.time() - SPARED_S
    spare = [
        one
        for key, one in files.items()
        if key not in wanted and not key.startswith((MARKS, UPLOADS)) and one.modified_at < before
    ]
    return Inventory(
        place=storage.place,
        files=len(files),
        bytes=sum(one.bytes for one in files.values()),
        referred=len(wanted),
        missing=tuple(sorted(missing)),
        damaged=tuple(sorted(damaged)),
        unreferred=tuple(sorted(one.key for one in spare)),
        unreferred_bytes=sum(one.bytes for one in spare),
        other_marks=sum(1 for key in files if key.startswith(MARKS) and key not in marks),
    )


def sweep(artifacts: Artifacts, found: Inventory) -> int:
    """Deletes the files of ``found`` that nothing refers to; returns their number. ``StoreError``
    if the artifacts of the database are somewhere else, or another database keeps its own in the
    same place: theirs would seem to be spare."""
    artifacts.require_here()
    if found.other_marks:
        raise StoreError(
            f"{found.place} has the marks of {found.other_marks} other databases: what this one "
            "does not need may be theirs",
            next_step="give each database a place of its own, by a backup and a restore; or "
            f"delete the files {MARKS}* of databases that are gone",
        )
    for key in found.unreferred:
        artifacts.files.storage.delete(key)
    return len(found.unreferred)


def _is_whole(artifacts: Artifacts, key: str, digest: str) -> bool:
    try:
        artifacts.files.storage.read(key, digest)
    except LostFileError:
        return False
    return True
