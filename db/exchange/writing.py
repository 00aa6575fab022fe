"""Writes stored schedules to a file."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from sqlalchemy import select

from db.exchange import layout
from db.models import ArtifactRow, ProblemRow, ScheduleRow, TargetRow, WorkloadRow
from db.records import problem_record, schedule_record
from db.schedules.quarantine import quarantine
from db.schedules.validation import BROKEN, seal_fits
from db.sql_store import SqlStore
from tuner.errors import UserError
from tuner.identity import canonical_json, digest_of_bytes
from tuner.machine.whole_files import written_whole
from tuner.records.candidate import Artifact
from tuner.records.trial import Schedule

_BATCH = 200


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
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            return _write(archive, lines, found)
    except OSError as error:
        raise UserError(
            f"cannot write {place}: {error.strerror}",
            accepted="a file in a folder you can write to",
        ) from None


def _write(
    archive: zipfile.ZipFile, lines: IO[bytes], found: Iterable[tuple[str, Schedule, Artifact]]
) -> int:
    written: set[bytes] = set()
    count = 0
    for public_id, schedule, artifact in found:
        count += 1
        if count > layout.MOST_SCHEDULES:
            raise UserError(
                f"more than {layout.MOST_SCHEDULES} schedules",
                accepted=f"at most {layout.MOST_SCHEDULES} in one file",
                next_step="write a file for each kernel or target",
            )
        digests = {kind: digest_of_bytes(artifact.files[kind]) for kind in sorted(artifact.files)}
        for kind, digest in digests.items():
            if bytes.fromhex(digest) not in written:
                written.add(bytes.fromhex(digest))
                archive.writestr(_member(layout.FILES + digest), artifact.files[kind])
        form = line_of(public_id, schedule, digests)
        lines.write(json.dumps(form, separators=(",", ":"), allow_nan=False).encode() + b"\n")
    lines.seek(0)
    with archive.open(_member(layout.LINES), "w", force_zip64=True) as member:
        shutil.copyfileobj(lines, member)
    about = {"format": layout.FORMAT, "version": layout.VERSION, "schedules": count}
    archive.writestr(_member(layout.MANIFEST), canonical_json(about))
    return count


def _member(name: str) -> zipfile.ZipInfo:
    """With a fixed date, so that the same schedules give the same file."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


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
        .limit(_BATCH)
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


def line_of(public_id: str, schedule: Schedule, files: dict[str, str]) -> dict[str, Any]:
    """A schedule as a line says it; ``files`` maps the kinds of its files to their digests."""
    provenance = dict(schedule.provenance)
    toolchain = provenance.pop("toolchain")
    return {
        "id": public_id,
        **schedule.problem.as_dict(),
        "problem_digest": schedule.problem.digest,
        "generator": schedule.generator,
        "config": schedule.config.as_dict(),
        "config_digest": schedule.config.digest,
        "measurement": schedule.measurement.as_dict(),
        "symbol": schedule.symbol,
        "object_digest": schedule.artifact_digest,
        "files": files,
        "toolchain": toolchain,
        "provenance": provenance,
    }
