"""The layout of a backup: a plain tar, which any program opens. Members, in this order:

- ``tables/NAME.jsonl.gz``: a table. The first line has the names of its columns, each further one
  the values of a row;
- ``artifacts/..``, ``pipelines/..``, ``packages/..``: files, named by their keys and as they lie in
  the state directory;
- ``manifest.json``: last, so that a file that was cut off has none. Size and SHA-256 of every other
  member, the schema of the tables, and the files that were missing when the backup was made.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from tuner.errors import UserError

FORMAT = "hvxtune-backup"
VERSION = 1
MANIFEST = "manifest.json"
NOT_KEPT = frozenset(
    {"alembic_version", "sessions", "heartbeats", "artifact_bytes", "artifact_marks", "conductors"}
)
"""Tables that are left out: the manifest has the schema; a restore must not bring back a session
that has ended since; heartbeats and conductors belong to machines; and artifacts are files of the
backup wherever they lay, so that it can be restored to another storage."""

MOST_MANIFEST_BYTES = 1 << 30
CHUNK_BYTES = 1 << 20
_TABLE = re.compile(r"tables/([a-z_]{1,60})\.jsonl\.gz")
_FILE = re.compile(
    r"artifacts/([0-9a-f]{2})/\1[0-9a-f]{62}-(?P<start>[0-9a-f]{16})\.zip"
    r"|pipelines/([0-9a-f]{2})/(?P<whole>\3[0-9a-f]{62})\.halide"
    r"|packages/([0-9a-f]{2})/(?P<package>\5[0-9a-f]{62})\.json"
)
_SCHEMA = re.compile(r"[0-9]{4}")
_AGAIN = "make another backup with `hvxtune db backup`, or use an earlier one"

Note = Callable[[int, int], object]
"""Receives the bytes done and the bytes in all, which grow while they are found out."""


@dataclass(frozen=True)
class Member:
    """Size and SHA-256 of a member."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """A backup's description of itself. ``tables`` has the number of rows of each."""

    schema: str
    made_at: float
    made_by: str
    tables: Mapping[str, int] = field(hash=False)
    members: Mapping[str, Member] = field(hash=False)
    missing: list[str] = field(hash=False)

    def as_bytes(self) -> bytes:
        """The member :data:`MANIFEST`."""
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        return json.dumps(document, indent=1, sort_keys=True).encode()


def read_manifest(data: bytes) -> Manifest:
    """The manifest in ``data``; ``UserError`` for anything else."""
    try:
        found: dict[str, Any] = json.loads(data)
        if (found.pop("format"), found.pop("version")) != (FORMAT, VERSION):
            raise ValueError("of another format or version")
        members = {name: Member(**about) for name, about in found.pop("members").items()}
        manifest = Manifest(**found, members=members)
        if not _SCHEMA.fullmatch(manifest.schema):
            raise ValueError(f"schema {manifest.schema[:40]!r}")
        for name in manifest.tables:
            if table_member(name) not in members:
                raise ValueError(f"table {name[:60]!r} has no member")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(f"its {MANIFEST} cannot be read: {error}") from None
    return manifest


def table_member(table: str) -> str:
    """The member with the rows of ``table``."""
    return f"tables/{table}.jsonl.gz"


def require_known(name: str, sha256: str | None = None) -> None:
    """Refuses members that no backup has, whose names could lead anywhere, and files whose digest
    differs from their names."""
    file = _FILE.fullmatch(name)
    if file is None and not (_TABLE.fullmatch(name) or name == MANIFEST):
        raise damaged(f"a member called {name[:100]!r}")
    if file is not None and sha256 is not None:
        named = file["whole"] or file["package"] or file["start"]
        if not sha256.startswith(named):
            raise damaged(f"{name} has another digest than its name says")


def damaged(what: str) -> UserError:
    """The error for a file that is not a whole backup."""
    return UserError(
        f"the file is not a backup, or a damaged or cut-off one: {what}",
        accepted="a file that `hvxtune db backup` wrote",
        next_step=f"nothing was changed; {_AGAIN}",
    )


class Hashing:
    """Reads a file for tarfile, in pieces, and keeps size and digest of what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._bytes = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = self._file.read(size)
        self._digest.update(data)
        self._bytes += len(data)
        return data

    @property
    def member(self) -> Member:
        """Size and digest of what was read so far."""
        return Member(self._bytes, self._digest.hexdigest())
