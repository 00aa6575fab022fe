"""Schedules as a file for another service (:mod:`tuner.keeping.archive`), and from one: all of it
is checked before any of it is stored. What another version of hvxtune wrote of code that changed
since is left out, and told."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO

from sqlalchemy import select

from db.exchange.lines import (
    KINDS,
    Line,
    OtherInstallationError,
    line_of,
    read_line,
    toolchain_digest,
)
from db.files.artifacts import defines
from db.models import (
    ArtifactRow,
    ProblemRow,
    ScheduleRow,
    TargetRow,
    ToolchainRow,
    WorkloadRow,
)
from db.records import problem_record, schedule_record
from db.schedules.offering import import_schedule
from db.schedules.quarantine import quarantine
from db.schedules.validation import BROKEN, seal_fits
from db.sql_store import SqlStore
from tuner.errors import UserError
from tuner.keeping.archive import LINES, MANIFEST, ArchiveReader, ArchiveWriter
from tuner.machine.whole_files import written_whole
from tuner.records.candidate import Artifact
from tuner.records.trial import Schedule

MOST_SCHEDULES = 50_000
"""In one file. zipfile keeps its list of members in memory, about 500 bytes each."""
MOST_LINE_BYTES = 1 << 20
MOST_FILE_BYTES = 32 << 20
"""Of one file of an object, unpacked. Ours take about 100 kB."""
_MOST_MEMBERS = MOST_SCHEDULES * len(KINDS) + 2
_MOST_REASONS = 5
_WRITTEN, _STORED = 200, 100
"""Schedules in one transaction."""


def export_schedules(
    store: SqlStore,
    place: Path,
    *,
    kernel: str | None = None,
    target: str | None = None,
    owner: str = "",
) -> int:
    """Writes every schedule that is not quarantined, of ``kernel`` and for ``target`` if given, to
    the file ``place``, whole or not at all; returns their number. Of private ones only those of
    ``owner``: the importer shares them."""
    return write_schedules(place, _stored(store, kernel, target, owner))


def write_schedules(place: Path, found: Iterable[tuple[str, Schedule, Artifact]]) -> int:
    """The same of given schedules, each with its id and its artifact."""
    try:
        with (
            tempfile.TemporaryFile(dir=place.parent) as lines,
            written_whole(place) as file,
        ):
            return _write(ArchiveWriter(file), lines, found)
    except OSError as error:
        raise UserError(
            f"cannot write {place}: {error.strerror}",
            accepted="a file in a folder you can write to",
        ) from None


def _write(
    archive: ArchiveWriter, lines: IO[bytes], found: Iterable[tuple[str, Schedule, Artifact]]
) -> int:
    count = 0
    for public_id, schedule, artifact in found:
        count += 1
        if count > MOST_SCHEDULES:
            raise UserError(
                f"more than {MOST_SCHEDULES} schedules",
                accepted=f"at most {MOST_SCHEDULES} in one file",
                next_step="write a file for each kernel or target",
            )
        files = {kind: archive.add_file(artifact.files[kind]) for kind in sorted(artifact.files)}
        form = line_of(public_id, schedule, files)
        lines.write(json.dumps(form, separators=(",", ":"), allow_nan=False).encode() + b"\n")
    lines.seek(0)
    with archive.lines(LINES) as member:
        shutil.copyfileobj(lines, member)
    archive.finish(schedules=count)
    return count


def _stored(
    store: SqlStore, kernel: str | None, target: str | None, owner: str
) -> Iterator[tuple[str, Schedule, Artifact]]:
    wanted = (
        select(ScheduleRow, ProblemRow, ArtifactRow)
        .join(ProblemRow, ScheduleRow.problem_id == ProblemRow.id)
        .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
        .join(TargetRow, ProblemRow.target_id == TargetRow.id)
        .join(ArtifactRow, ScheduleRow.artifact_digest == ArtifactRow.digest)
        .where(ScheduleRow.quarantined_at.is_(None), ScheduleRow.audience.in_(("", owner)))
        .order_by(ScheduleRow.id)
        .limit(_WRITTEN)
    )
    if kernel is not None:
        wanted = wanted.where(WorkloadRow.kernel == kernel)
    if target is not None:
        wanted = wanted.where(TargetRow.name == target)
    last = 0
    while True:
        # In batches with a transaction each: a long one would keep the log from being reused.
        with store.reading() as session:
            found = [
                (s, schedule_record(s, problem_record(p)), a)
                for s, p, a in session.execute(wanted.where(ScheduleRow.id > last))
            ]
        if not found:
            return
        last = found[-1][0].id
        for stored, schedule, row in found:
            public_id = stored.public_id
            if not seal_fits(stored, schedule.problem):
                quarantine(store, public_id, BROKEN)
                continue
            yield public_id, schedule, store.files.read(row.digest, row.symbol, row.file_digest)


@dataclass(frozen=True)
class Imported:
    """The outcome for a file with ``schedules``: those ``stored``, those ``kept`` as they were,
    because what was stored before is as fast, or the same, and those ``left_out``, of kernels,
    targets or spaces that are others here. ``reasons`` are the first few of these."""

    schedules: int
    stored: int
    kept: int
    left_out: int = 0
    reasons: tuple[str, ...] = ()


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
    ``any_toolchain``: then others rank behind all of ours. Those of code that changed since, or is
    not installed here, are left out, unless that leaves nothing. Raises ``UserError``, naming line
    or member, before anything is stored, if anything in the file is wrong.

    Schedules are stored in batches, each in one transaction with what ``note`` writes, which is
    given the outcome so far, at least once. If it raises, its batch is not stored.
    """
    ours = _our_toolchains(store) | {toolchain_digest(one) for one in installed}
    with ArchiveReader(file, most_members=_MOST_MEMBERS, most_bytes=MOST_FILE_BYTES) as archive:
        source = _Source(archive)
        found = source.check(None if any_toolchain else ours)
        return _store(store, source, ours, found, note)


@contextmanager
def opened(file: Path) -> Iterator[SqlStore]:
    """The schedules of ``file``, of any toolchain, as a store of their own that ends with the
    block. Errors as of :func:`import_schedules`, and ``UserError`` if it cannot be read or one of
    its schedules is left out."""
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
                found = import_schedules(store, content, any_toolchain=True)
                if found.left_out:
                    raise UserError(
                        found.reasons[0],
                        next_step="export it again with this version of hvxtune",
                    )
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
    lines = (line for _, line in source.lines() if isinstance(line, Line))
    while batch := list(islice(lines, _STORED)):
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

    def __init__(self, archive: ArchiveReader) -> None:
        self._archive = archive
        count = self._archive.manifest.get("schedules")
        if type(count) is not int or not 0 <= count <= MOST_SCHEDULES:
            raise UserError(
                f"{MANIFEST} says schedules={str(count)[:40]}",
                accepted=f"at most {MOST_SCHEDULES}; `hvxtune db restore` takes backups",
            )
        self._count = count

    def check(self, toolchains: set[str] | None) -> Imported:
        """Reads all of it; nothing is stored yet. Only schedules of ``toolchains`` are accepted;
        ``None`` accepts any."""
        count = 0
        left_out: list[OtherInstallationError] = []
        checked: set[bytes] = set()
        for number, line in self.lines():
            count += 1
            if isinstance(line, OtherInstallationError):
                left_out.append(line)
                continue
            if toolchains is not None and toolchain_digest(line.toolchain) not in toolchains:
                raise _foreign(number, line)
            for kind, digest in line.files.items():
                symbol = line.schedule.symbol.encode() if kind == "object" else b""
                if (seen := bytes.fromhex(digest) + symbol) not in checked:
                    data = self._archive.file(digest, f"line {number}, {kind}")
                    if symbol and not defines(data, symbol):
                        raise UserError(
                            f"line {number}: its object does not define {symbol.decode()}"
                        )
                    checked.add(seen)
        if count != self._count:
            raise UserError(f"{LINES} has {count} schedules, the manifest says {self._count}")
        if left_out and len(left_out) == count:
            raise left_out[0]
        reasons = tuple(error.message for error in left_out[:_MOST_REASONS])
        return Imported(count, 0, 0, len(left_out), reasons)

    def lines(self) -> Iterator[tuple[int, Line | OtherInstallationError]]:
        """The schedules with the numbers of their lines, or why they are none here; errors name
        the line."""
        with self._archive.lines(LINES) as lines:
            for number, text in enumerate(
                iter(lambda: lines.readline(MOST_LINE_BYTES + 1), b""), 1
            ):
                if number > MOST_SCHEDULES:
                    raise UserError(f"more than {MOST_SCHEDULES} lines in {LINES}")
                if len(text) > MOST_LINE_BYTES:
                    raise UserError(
                        f"{LINES} line {number} is too long",
                        accepted=f"{MOST_LINE_BYTES} bytes",
                    )
                try:
                    line: Line | OtherInstallationError = read_line(text)
                except UserError as error:
                    error.message = f"{LINES} line {number}: {error.message}"
                    error.args = (error.message,)
                    if not isinstance(error, OtherInstallationError):
                        raise
                    line = error
                yield number, line

    def artifact(self, line: Line) -> Artifact:
        """The files of a schedule."""
        files = {kind: self._archive.file(one, line.public_id) for kind, one in line.files.items()}
        return Artifact(line.schedule.artifact_digest, line.schedule.symbol, files)


def _foreign(number: int, line: Line) -> UserError:
    parts = ", ".join(f"{name} {value}" for name, value in sorted(line.toolchain.items()))
    return UserError(
        f"{LINES} line {number} is of another toolchain ({parts[:400]}): its cycles cannot "
        "be compared with those measured here",
        accepted="toolchains that jobs here ran with",
        next_step="import it all the same with --any-toolchain (any_toolchain=true over REST)",
    )
