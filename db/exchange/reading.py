"""Imports a file of schedules from elsewhere: all of it is checked before any of it is stored."""

from __future__ import annotations

import json
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO

from sqlalchemy import select

from db.exchange import layout
from db.exchange.lines import Line, read_line, toolchain_digest
from db.files.artifacts import defines
from db.models import ToolchainRow
from db.schedules.offering import import_schedule
from db.sql_store import SqlStore
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.records.candidate import Artifact

_BATCH = 100
_REASONS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)
"""Raised by zipfile for a broken or an odd file (RuntimeError: an encrypted member)."""


@dataclass(frozen=True)
class Imported:
    """The outcome for a file with ``schedules``: those ``stored``, and those ``kept`` as they were,
    because what was stored before is as fast, or the same."""

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
    """Stores the schedules of ``file``; a second time changes nothing.

    Only those of toolchains that jobs here ran with, or that are ``installed``, unless
    ``any_toolchain``: then others rank behind all of ours. Raises ``UserError``, naming line or
    member, before anything is stored, if anything in the file is wrong.

    Schedules are stored in batches, each in one transaction with what ``note`` writes, which is
    given the outcome so far, at least once. If it raises, its batch is not stored.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            source = _Source(archive)
            ours = _our_toolchains(store) | {toolchain_digest(one) for one in installed}
            count = source.check(None if any_toolchain else ours)
            return _store(store, source, ours, Imported(count, 0, 0), note)
    except _REASONS as error:
        raise UserError(
            f"the file is damaged, cut off or not a zip: {error}",
            accepted="what `hvxtune db export` writes",
            next_step="export or send it again",
        ) from None


@contextmanager
def opened(file: Path) -> Iterator[SqlStore]:
    """The schedules of ``file``, of any toolchain, as a store of their own that ends with the
    block. Errors as of :func:`import_schedules`, and ``UserError`` if it cannot be read."""
    with tempfile.TemporaryDirectory(prefix="hvxtune-schedules-") as name:
        folder = Path(name)
        artifacts = f"folder:{folder / 'artifacts'}"
        try:
            content = file.open("rb")
        except OSError as error:
            raise UserError(
                f"cannot read {file}: {error.strerror}",
                accepted="what `hvxtune db export FILE` wrote",
            ) from None
        with (
            content,
            SqlStore.open(f"sqlite:///{folder / 'schedules.sqlite'}", artifacts=artifacts) as store,
        ):
            try:
                import_schedules(store, content, any_toolchain=True)
            except UserError as error:
                error.message = f"{file}: {error.message}"
                raise
            yield store


def _our_toolchains(store: SqlStore) -> set[str]:
    """Those that jobs here ran with; an imported one was never used."""
    used = select(ToolchainRow.digest).where(ToolchainRow.last_used_at > 0)
    with store.reading() as session:
        return set(session.scalars(used))


def _store(
    store: SqlStore,
    source: _Source,
    ours: set[str],
    so_far: Imported,
    note: Callable[[Imported], object],
) -> Imported:
    store.mark_artifacts()
    lines = (line for _, line in source.lines())
    while batch := list(islice(lines, _BATCH)):
        # Their files first: a row never refers to one that is missing.
        files = [store.files.write(source.artifact(line)) for line in batch]
        with store.transaction() as session:
            stored = sum(
                import_schedule(
                    session,
                    store.files,
                    line.schedule,
                    line.public_id,
                    kept,
                    # Others come after all that was measured here, however new they are.
                    used_at=time.time() if toolchain_digest(line.toolchain) in ours else 0.0,
                )
                for line, kept in zip(batch, files, strict=True)
            )
            so_far = replace(
                so_far, stored=so_far.stored + stored, kept=so_far.kept + len(batch) - stored
            )
            note(so_far)
    if so_far.schedules == 0:
        note(so_far)
    return so_far


class _Source:
    """A file of schedules, which may hold anything."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members = _members(archive)

    def check(self, toolchains: set[str] | None) -> int:
        """Reads all of it and returns the number of schedules. Only those of ``toolchains`` are
        accepted; ``None`` accepts any."""
        expected = self._expected()
        count = 0
        checked: set[bytes] = set()
        for number, line in self.lines():
            if toolchains is not None and toolchain_digest(line.toolchain) not in toolchains:
                raise _foreign(number, line)
            for kind, digest in line.files.items():
                symbol = line.schedule.symbol.encode() if kind == "object" else b""
                if (seen := bytes.fromhex(digest) + symbol) not in checked:
                    data = self._file(digest, f"line {number}, {kind}")
                    if symbol and not defines(data, symbol):
                        raise UserError(
                            f"line {number}: its object does not define {symbol.decode()}"
                        )
                    checked.add(seen)
            count += 1
        if count != expected:
            raise UserError(f"{layout.LINES} has {count} schedules, the manifest says {expected}")
        return count

    def lines(self) -> Iterator[tuple[int, Line]]:
        """The schedules with the numbers of their lines; errors name the line."""
        with self._archive.open(self._members[layout.LINES]) as lines:
            for number, text in enumerate(
                iter(lambda: lines.readline(layout.MOST_LINE_BYTES + 1), b""), 1
            ):
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

    def artifact(self, line: Line) -> Artifact:
        """The files of a schedule."""
        files = {kind: self._file(digest, line.public_id) for kind, digest in line.files.items()}
        return Artifact(line.schedule.artifact_digest, line.schedule.symbol, files)

    def _expected(self) -> int:
        """The number of schedules in the manifest, which is checked."""
        text = self._bytes(self._members[layout.MANIFEST], 10_000, "manifest")
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
        most = layout.MOST_SCHEDULES
        if type(count) is not int or not 0 <= count <= most:
            raise UserError(f"{str(count)[:40]} schedules", accepted=f"at most {most}")
        return count

    def _file(self, digest: str, where: str) -> bytes:
        """The file with ``digest``, which is checked."""
        info = self._members.get(layout.FILES + digest)
        if info is None:
            raise UserError(f"{where}: the file {digest} is missing")
        data = self._bytes(info, layout.MOST_FILE_BYTES, where)
        if digest_of_bytes(data) != digest:
            raise UserError(f"{where}: {info.filename} has another digest than its name says")
        return data

    def _bytes(self, info: zipfile.ZipInfo, limit: int, where: str) -> bytes:
        """A member's content: at most ``limit`` bytes are unpacked, whatever size it states."""
        with self._archive.open(info) as member:
            data = member.read(limit + 1)
        if len(data) > limit:
            raise UserError(
                f"{where}: {info.filename} has more than {limit} bytes", accepted=f"{limit} bytes"
            )
        return data


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
            raise UserError(f"it has no {name}", accepted="what `hvxtune db export` writes")
    return members


def _foreign(number: int, line: Line) -> UserError:
    parts = ", ".join(f"{name} {value}" for name, value in sorted(line.toolchain.items()))
    return UserError(
        f"{layout.LINES} line {number} is of another toolchain ({parts[:400]}): its cycles cannot "
        "be compared with those measured here",
        accepted="toolchains that jobs here ran with",
        next_step="import it all the same with --any-toolchain (any_toolchain=true over REST)",
    )
