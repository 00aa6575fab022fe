"""Reads a file of schedules that came from elsewhere: all of it is checked, then all is stored."""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.exchange import layout
from db.exchange.lines import Line, read_line, toolchain_digest
from db.files.artifacts import ArtifactFiles, StoredArtifact, defines
from db.jobs.results import import_schedule
from db.models import ToolchainRow
from db.sql_store import SqlStore
from tuner.errors import UserError
from tuner.identity import digest_of
from tuner.records.candidate import Artifact

_BATCH = 100
_REASONS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)
"""What zipfile raises for a broken or an odd file (RuntimeError: an encrypted member)."""


@dataclass(frozen=True)
class Imported:
    """What became of a file: ``schedules`` in it, ``stored`` of them, and ``kept``, where what
    was stored before is as fast, or the same."""

    schedules: int
    stored: int
    kept: int


def import_schedules(
    store: SqlStore,
    file: Path | IO[bytes],
    *,
    installed: Sequence[Mapping[str, str]] = (),
    any_toolchain: bool = False,
    note: Callable[[Imported], object] = lambda so_far: None,
) -> Imported:
    """Stores the schedules of ``file``; once more changes nothing.

    Only those of toolchains that jobs here ran with, or that are ``installed``, unless
    ``any_toolchain``: then others rank behind all of ours. Raises ``UserError``, naming line or
    member, before anything is stored, if anything in the file is wrong.

    Schedules are stored some at a time. In each of these transactions, and at least once,
    ``note`` is given what has become of the file so far: what it writes is written with them,
    and nothing of them is if it raises.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return _import(store, archive, installed, note, any_toolchain=any_toolchain)
    except _REASONS as error:
        raise UserError(
            f"the file is damaged, cut off or no zip: {error}",
            accepted="what `hvxtune export` writes",
            next_step="export or send it again",
        ) from None


def _import(
    store: SqlStore,
    archive: zipfile.ZipFile,
    installed: Sequence[Mapping[str, str]],
    note: Callable[[Imported], object],
    *,
    any_toolchain: bool,
) -> Imported:
    members = _members(archive)
    expected = _manifest(archive, members)
    ours = _our_toolchains(store) | {digest_of(dict(one)) for one in installed}
    count = 0
    checked: set[bytes] = set()
    for number, line in _lines(archive, members):
        if not any_toolchain and toolchain_digest(line) not in ours:
            raise _foreign(number, line)
        for kind, digest in line.files.items():
            symbol = line.schedule.symbol.encode() if kind == "object" else b""
            if (seen := bytes.fromhex(digest) + symbol) not in checked:
                data = _file(archive, members, digest, f"line {number}, {kind}")
                if symbol and not defines(data, symbol):
                    raise UserError(f"line {number}: its object is not one of {symbol.decode()}")
                checked.add(seen)
        count += 1
    if count != expected:
        raise UserError(f"{layout.LINES} has {count} schedules, the manifest says {expected}")
    so_far = Imported(count, 0, 0)
    for batch in _batches(archive, members):
        written = [_written(store, archive, members, line) for line in batch]
        with store.transaction() as session:
            stored = _store(session, store.files, batch, written, ours)
            so_far = replace(
                so_far, stored=so_far.stored + stored, kept=so_far.kept + len(batch) - stored
            )
            note(so_far)
    if count == 0:
        note(so_far)
    return so_far


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > layout.MOST_MEMBERS:
        raise UserError(f"{len(infos)} members", accepted=f"at most {layout.MOST_MEMBERS}")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        digest = info.filename.removeprefix(layout.FILES)
        known = info.filename in (layout.MANIFEST, layout.LINES)
        is_digest = len(digest) == 64 and set(digest) <= set("0123456789abcdef")
        if not known and not (is_digest and digest != info.filename):
            raise UserError(
                f"a member called {info.filename[:100]!r}",
                accepted=f"{layout.MANIFEST}, {layout.LINES} and {layout.FILES}SHA256",
            )
        if info.filename in members:
            raise UserError(f"two members called {info.filename}")
        members[info.filename] = info
    for name in (layout.MANIFEST, layout.LINES):
        if name not in members:
            raise UserError(f"it has no {name}", accepted="what `hvxtune export` writes")
    return members


def _bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int, where: str) -> bytes:
    """What a member holds. What it says of its size is not believed: at most ``limit`` bytes are
    unpacked."""
    with archive.open(info) as member:
        data = member.read(limit + 1)
    if len(data) > limit:
        raise UserError(
            f"{where}: {info.filename} has more than {limit} bytes", accepted=f"{limit} bytes"
        )
    return data


def _manifest(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> int:
    text = _bytes(archive, members[layout.MANIFEST], 10_000, "manifest")
    try:
        about = json.loads(text)
        kind, version, count = about["format"], about["version"], about["schedules"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UserError(f"{layout.MANIFEST} cannot be read") from None
    if kind != layout.FORMAT or version != layout.VERSION:
        raise UserError(
            f"format {str(kind)[:40]} version {str(version)[:20]}",
            accepted=f"{layout.FORMAT} version {layout.VERSION}",
            next_step="import it with the version of hvxtune that wrote it, or a newer one",
        )
    if type(count) is not int or not 0 <= count <= layout.MOST_SCHEDULES:
        raise UserError(f"{str(count)[:40]} schedules", accepted=f"at most {layout.MOST_SCHEDULES}")
    return count


def _lines(
    archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]
) -> Iterator[tuple[int, Line]]:
    """The schedules with the numbers of their lines; errors name the line."""
    with archive.open(members[layout.LINES]) as lines:
        number = 0
        while text := lines.readline(layout.MOST_LINE_BYTES + 1):
            number += 1
            if number > layout.MOST_SCHEDULES:
                raise UserError(f"more than {layout.MOST_SCHEDULES} lines in {layout.LINES}")
            if len(text) > layout.MOST_LINE_BYTES:
                raise UserError(
                    f"{layout.LINES} line {number} is too long",
                    accepted=f"{layout.MOST_LINE_BYTES} bytes",
                )
            try:
                yield number, read_line(text)
            except UserError as error:
                error.message = f"{layout.LINES} line {number}: {error.message}"
                error.args = (error.message,)
                raise


def _file(
    archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], digest: str, where: str
) -> bytes:
    """The file with ``digest``, which is checked."""
    info = members.get(layout.FILES + digest)
    if info is None:
        raise UserError(f"{where}: the file {digest} is missing")
    data = _bytes(archive, info, layout.MOST_FILE_BYTES, where)
    if hashlib.sha256(data).hexdigest() != digest:
        raise UserError(f"{where}: {info.filename} has another digest than its name says")
    return data


def _our_toolchains(store: SqlStore) -> set[str]:
    """Those that jobs here ran with; an imported one was never used."""
    used = select(ToolchainRow.digest).where(ToolchainRow.last_used_at > 0)
    with store.reading() as session:
        return set(session.scalars(used))


def _foreign(number: int, line: Line) -> UserError:
    parts = ", ".join(f"{name} {value}" for name, value in sorted(line.toolchain.items()))
    return UserError(
        f"{layout.LINES} line {number} is of another toolchain ({parts[:400]}): its cycles cannot "
        "be compared with those measured here",
        accepted="toolchains that jobs here ran with",
        next_step="import it all the same with --any-toolchain (any_toolchain=true over REST)",
    )


def _batches(
    archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]
) -> Iterator[list[Line]]:
    batch: list[Line] = []
    for _, line in _lines(archive, members):
        batch.append(line)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _written(
    store: SqlStore, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], line: Line
) -> StoredArtifact:
    """The files of a schedule, put on disk first: a row never refers to one that is not there."""
    files = {k: _file(archive, members, d, line.public_id) for k, d in line.files.items()}
    return store.files.write(Artifact(line.schedule.artifact_digest, line.schedule.symbol, files))


def _store(
    session: Session,
    files: ArtifactFiles,
    batch: Sequence[Line],
    written: Sequence[StoredArtifact],
    ours: set[str],
) -> int:
    """How many of ``batch`` are the stored ones now."""
    return sum(
        import_schedule(
            session,
            files,
            line.schedule,
            line.public_id,
            kept,
            # Others come after all that was measured here, however new they are.
            used_at=time.time() if toolchain_digest(line) in ours else 0.0,
        )
        for line, kept in zip(batch, written, strict=True)
    )
