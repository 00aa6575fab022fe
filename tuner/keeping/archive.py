"""The one format that carries stored things: some schedules with their objects to another service,
a whole database into a backup, or what a client keeps (there as a folder).

A zip, so that any unzip program opens it. ``files/SHA256`` is a file, named by its digest;
``schedules.jsonl`` has a schedule a line with all its provenance; ``tables/NAME.jsonl`` has the
rows of a table, after a line with its columns; ``hvxtune-schedules.json``, last, says which of
these there are. No name in it could lead elsewhere, and what is read is compared with its digest.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Protocol, Self

from tuner.errors import UserError
from tuner.identity import canonical_json, digest_of_bytes

FORMAT: Final = "hvxtune-schedules"
VERSION: Final = 1
MANIFEST: Final = "hvxtune-schedules.json"
LINES: Final = "schedules.jsonl"
FILES: Final = "files/"

_CHUNK_BYTES = 1 << 20
_FILE = re.compile(r"files/[0-9a-f]{64}")
_TABLE = re.compile(r"tables/[a-z_]{1,60}\.jsonl")
_REASONS = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError),
    *(NotImplementedError, RuntimeError, OSError),
)
"""Raised by zipfile for a broken or an odd file (RuntimeError: an encrypted member)."""


def table_member(table: str) -> str:
    """The member with the rows of ``table``."""
    return f"tables/{table}.jsonl"


def damaged(what: object) -> UserError:
    """The error for a file that is not a whole archive."""
    return UserError(
        f"the file is damaged, cut off or not a zip: {what}",
        accepted="what `hvxtune db export` or `hvxtune db backup` writes",
        next_step="write or send it again; nothing was changed",
    )


class Lines(Protocol):
    """Takes the lines of a member."""

    def write(self, line: bytes, /) -> object: ...


class ArchiveWriter:
    """Writes one to ``file``, which stays the caller's. The same contents make the same bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._archive = zipfile.ZipFile(file, "w")
        self._written: set[bytes] = set()

    def add_file(self, data: bytes, *, packed: bool = False) -> str:
        """Adds a file unless it is there, compressed unless ``packed`` already; its digest."""
        digest = digest_of_bytes(data)
        if (key := bytes.fromhex(digest)) not in self._written:
            self._written.add(key)
            self._archive.writestr(_member(FILES + digest, packed=packed), data)
        return digest

    @contextmanager
    def lines(self, name: str) -> Iterator[Lines]:
        """Adds the member ``name`` with the lines that are written meanwhile."""
        with self._archive.open(_member(name), "w", force_zip64=True) as member:
            yield member

    def finish(self, **about: Any) -> str:
        """Ends it with the manifest, which says ``about`` itself what only its writer knows; the
        digest of that."""
        manifest = canonical_json({"format": FORMAT, "version": VERSION, **about}).encode()
        self._archive.writestr(_member(MANIFEST), manifest)
        self._archive.close()
        return digest_of_bytes(manifest)


def _member(name: str, *, packed: bool = False) -> zipfile.ZipInfo:
    """With a fixed date."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    return info


class ArchiveReader:
    """Reads one that may hold anything. All errors are ``UserError``."""

    def __init__(self, file: Path | IO[bytes], *, most_members: int, most_bytes: int) -> None:
        """``most_bytes`` is how long a file of it, or its manifest, may be when unpacked."""
        self._most_bytes = most_bytes
        try:
            self._archive = zipfile.ZipFile(file)
        except (*_REASONS, ValueError) as error:
            raise damaged(error) from None
        self._members = _members(self._archive, most_members)
        text = self._bytes(MANIFEST)
        self.manifest_sha256 = digest_of_bytes(text)
        try:
            self.manifest: dict[str, Any] = json.loads(text)
            found = (self.manifest["format"], self.manifest["version"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise UserError(f"{MANIFEST} cannot be read") from None
        if found != (FORMAT, VERSION):
            raise UserError(
                f"format {str(found[0])[:40]} version {str(found[1])[:20]}",
                accepted=f"{FORMAT} version {VERSION}",
                next_step="read it with the version of hvxtune that wrote it, or a newer one",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._archive.close()

    @property
    def names(self) -> set[str]:
        """Of all members but the manifest."""
        return self._members.keys() - {MANIFEST}

    def file(self, digest: str, where: str = "") -> bytes:
        """The file with ``digest``, which is checked; ``where`` begins what is said of it."""
        name, where = FILES + digest, where and f"{where}: "
        if name not in self._members:
            raise UserError(f"{where}the file {digest} is missing")
        data = self._bytes(name, where)
        if digest_of_bytes(data) != digest:
            raise UserError(f"{where}{name} has another digest than its name says")
        return data

    @contextmanager
    def lines(self, name: str) -> Iterator[IO[bytes]]:
        """The member ``name``, to be read line by line."""
        if name not in self._members:
            raise UserError(f"it has no {name}", accepted="what `hvxtune db export` writes")
        with _reading(name), self._archive.open(self._members[name]) as member:
            yield member

    def sha256(self, name: str) -> str:
        """The digest of a member, however long it is."""
        with self.lines(name) as member:
            digest = hashlib.sha256()
            while some := member.read(_CHUNK_BYTES):
                digest.update(some)
            return digest.hexdigest()

    def _bytes(self, name: str, where: str = "") -> bytes:
        """A member's content: no more is unpacked than is allowed, whatever size it states."""
        with self.lines(name) as member:
            data = member.read(self._most_bytes + 1)
        if len(data) > self._most_bytes:
            raise UserError(
                f"{where}{name} has more than {self._most_bytes} bytes",
                accepted=f"{self._most_bytes} bytes",
            )
        return data


def _members(archive: zipfile.ZipFile, most: int) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > most:
        raise UserError(f"{len(infos)} members", accepted=f"at most {most}")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename
        if not (name in (MANIFEST, LINES) or _FILE.fullmatch(name) or _TABLE.fullmatch(name)):
            raise UserError(
                f"a member called {name[:100]!r}",
                accepted=f"{MANIFEST}, {LINES}, tables/NAME.jsonl and {FILES}SHA256",
            )
        if name in members:
            raise UserError(f"two members called {name}")
        members[name] = info
    return members


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except _REASONS as error:
        raise damaged(f"{name}: {error or type(error).__name__}") from None
