"""A database with a million schedules, for the benchmark ``service``.

The rows are what tuning leaves behind: a kernel in all kinds of shapes, problems under two
contracts, bests of two toolchains. Only the objects are few and made up, because a million of them
would fill a disk; the best-query reads none. The database is kept in the state directory and made
anew when this file, a kernel or the tables change.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import insert

from benchmarks.harness import tell
from db import open_store
from db.catalogue import target_id
from db.files.artifacts import ArtifactFiles, StoredArtifact
from db.files.folder import LocalFolder
from db.models import (
    ArtifactRow,
    MeasurementRow,
    ProblemRow,
    ScheduleRow,
    ToolchainRow,
    WorkloadRow,
)
from db.schedules.validation import seal_of
from tuner.codegen.judged import judge
from tuner.identity import canonical_json, digest_of, digest_of_bytes
from tuner.kernels import find_kernel
from tuner.paths import writable
from tuner.problem.contract import Contract
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact, Problem
from tuner.space import Config

KERNEL = "gaussian5x5_u8"
CONTRACTS = (Contract.STATIC, Contract.NONE)
TOOLCHAINS = 2
WORKLOADS = 250_000
SCHEDULES = WORKLOADS * len(CONTRACTS) * TOOLCHAINS
OBJECTS = 256
CHUNK = 2_500

_ROOT = Path(__file__).parents[1]
_MADE_BY = (
    "benchmarks/million_schedules.py",
    "db/models.py",
    "db/schedules/validation.py",
    "tuner",
)
Rows = dict[str, list[dict[str, Any]]]


def folder() -> Path:
    """The state directory of the benchmark, below the usual one."""
    return writable("bench-service")


def prepared() -> Path:
    """The folder with the database and its artifacts, made unless it is there."""
    place = folder()
    mark = place / "made-by"
    wanted = _fingerprint()
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(place)
        place = folder()
        began = time.monotonic()
        _make(place)
        mark.write_text(wanted)
        tell(f"made {SCHEDULES:,} schedules in {time.monotonic() - began:.0f} s")
    return place


def _fingerprint() -> str:
    paths = [_ROOT / name for name in _MADE_BY]
    files = [f for p in paths for f in (sorted(p.rglob("*.py")) if p.is_dir() else [p])]
    return digest_of([digest_of_bytes(file.read_bytes()) for file in files])


def _make(place: Path) -> None:
    os.environ["HVXTUNE_STATE_DIR"] = str(place)
    database = place / "hvxtune.sqlite"
    with open_store(f"sqlite:///{database}") as store, store.writing() as session:
        target = target_id(session, find_target(DEFAULT_TARGET))
        for number in range(TOOLCHAINS):
            fingerprint = _toolchain(number)
            values = {"digest": digest_of(fingerprint), "fingerprint": fingerprint}
            session.execute(insert(ToolchainRow).values(**values, last_used_at=1e9 + number))
    objects = _objects(place)
    connection = sqlite3.connect(database, isolation_level=None)
    # It may be made again at any time, so it need not survive a power cut while it is made.
    for pragma in ("synchronous = OFF", "cache_size = -400000", "foreign_keys = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN")
    _insert(connection, ArtifactRow.__table__, [_artifact_row(one) for one in objects])
    indexes = _drop_indexes(connection)
    digests = [one.digest for one in objects]
    chunks = [(start, target, digests) for start in range(0, WORKLOADS, CHUNK)]
    with multiprocessing.get_context("spawn").Pool(min(4, os.cpu_count() or 1)) as pool:
        for rows in pool.imap_unordered(_chunk, chunks):
            for row in (WorkloadRow, ProblemRow, MeasurementRow, ScheduleRow):
                _insert(connection, row.__table__, rows[row.__tablename__])
    for statement in indexes:
        connection.execute(statement)
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _drop_indexes(connection: sqlite3.Connection) -> list[str]:
    """Takes away the indexes that are no constraints (made faster in the end), and says how."""
    tables = ("workloads", "problems", "measurements", "schedules")
    found = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        " AND tbl_name IN (?, ?, ?, ?)",
        tables,
    ).fetchall()
    for name, _ in found:
        connection.execute(f'DROP INDEX "{name}"')
    return [sql for _, sql in found]


def _insert(connection: sqlite3.Connection, table: Any, rows: list[dict[str, Any]]) -> None:
    """Rows into a table of the models. Its columns are the model's; JSON is text here already."""
    names = [column.name for column in table.columns if column.name in rows[0]]
    places = ",".join("?" * len(names))
    statement = f"INSERT INTO {table.name} ({','.join(names)}) VALUES ({places})"  # noqa: S608
    connection.executemany(statement, [[row[name] for name in names] for row in rows])


def _toolchain(number: int) -> dict[str, str]:
    return {
        "hvxtune": f"0.{number}.0",
        "generator": "halide 21.0.0",
        "llvm": f"20.1.{number}",
        "linker": "ziglang 0.17.0",
        "simulator": "qemu 7.2",
        "timing_model": digest_of(number),
    }


def _objects(place: Path) -> list[StoredArtifact]:
    files = ArtifactFiles(LocalFolder(place / "artifacts"))
    made = []
    for number in range(OBJECTS):
        code = b"\x7fELF" + Random(number).randbytes(4000)
        header = b"int kernel(struct halide_buffer_t *, struct halide_buffer_t *);\n"
        made.append(
            files.write(
                Artifact(digest_of_bytes(code), "kernel", {"object": code, "header": header})
            )
        )
    return made


def _artifact_row(stored: StoredArtifact) -> dict[str, Any]:
    return {
        "digest": stored.digest,
        "symbol": stored.symbol,
        "toolchain_id": 1,
        "files": canonical_json(dict(stored.files)),
        "file_digest": stored.file_digest,
        "object_bytes": stored.object_bytes,
        "stored_bytes": stored.stored_bytes,
        "created_at": 1e9,
    }


def params_of(number: int) -> dict[str, int]:
    """The shape of workload ``number``: each number gives another."""
    return {"width": 64 + number % 1021, "height": 8 + number // 1021}


def _chunk(task: tuple[int, int, list[str]]) -> Rows:
    start, target, objects = task
    rows: Rows = {"workloads": [], "problems": [], "measurements": [], "schedules": []}
    for number in range(start, min(start + CHUNK, WORKLOADS)):
        _add_workload(number, target, objects, rows)
    return rows


def _add_workload(number: int, target: int, objects: list[str], rows: Rows) -> None:
    kernel, params = find_kernel(KERNEL), params_of(number)
    for level, contract in enumerate(CONTRACTS):
        problem = kernel.problem(params, contract, find_target(DEFAULT_TARGET))
        workload = problem.workload
        if level == 0:
            rows["workloads"].append(
                {
                    "id": number + 1,
                    "digest": workload.digest,
                    "kernel": workload.kernel,
                    "version": workload.version,
                    "params": _text(dict(workload.params)),
                    "source": workload.source,
                }
            )
        place = number * len(CONTRACTS) + level
        rows["problems"].append(
            {
                "id": place + 1,
                "digest": problem.digest,
                "workload_id": number + 1,
                "target_id": target,
                "contract": contract.value,
            }
        )
        config = kernel.textbook_config(problem)
        judged = judge(problem, "halide", config)  # as whoever stores a schedule does
        for toolchain in range(TOOLCHAINS):
            cycles = 20_000 + (number * 7919 + level * 104_729 + toolchain * 1299) % 500_000
            row_id = place * TOOLCHAINS + toolchain + 1
            digest = objects[row_id % len(objects)]
            rows["measurements"].append(_measurement(row_id, digest, cycles))
            rows["schedules"].append(
                _schedule(row_id, place + 1, toolchain, problem, config, judged, cycles, digest)
            )


def _text(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


def _measurement(row_id: int, digest: str, cycles: int) -> dict[str, Any]:
    issue, cache = cycles * 3 // 4, cycles // 8
    return {
        "id": row_id,
        "artifact_digest": digest,
        "fidelity": "model",
        "device": "qemu-7.2",
        "cycles": cycles,
        "packets": issue,
        "stalls": cycles - issue,
        "verified": 1,
        "samples": f"[{cycles}]",
        "breakdown": _text({"issue": issue, "l1": cache, "l2": cycles - issue - cache}),
        "code_bytes": 640 + cycles % 3000,
        "core_cycles": cycles - cache,
        "cache": "warm",
    }


def _schedule(
    row_id: int,
    problem_id: int,
    toolchain: int,
    problem: Problem,
    config: Config,
    judged: str,
    cycles: int,
    digest: str,
) -> dict[str, Any]:
    job = f"bench{row_id:08x}"
    provenance = {
        "job": job,
        "trial": row_id % 100,
        "space_digest": digest,
        "sampler": "tpe",
        "seed": 0,
        "created_at": 1.6e9 + row_id,
    }
    return {
        "id": row_id,
        "problem_id": problem_id,
        "fidelity": "model",
        "toolchain_id": toolchain + 1,
        "cycles": cycles,
        "config": _text(config.as_dict()),
        "config_digest": config.digest,
        "generator": "halide",
        "measurement_id": row_id,
        "artifact_digest": digest,
        "symbol": problem.symbol,
        "job_id": None,  # as of schedules that came from elsewhere
        "trial_number": None,
        "provenance": _text(provenance),
        "updated_at": 1.6e9 + row_id,
        "public_id": f"{job}-{row_id % 100}",
        "quarantined_at": None,
        "quarantine_reason": "",
        "seal": seal_of(
            problem,
            config_digest=config.digest,
            generator="halide",
            symbol=problem.symbol,
            artifact_digest=digest,
        ),
        "cache": "warm",
        "judged": judged,
    }


def requests(kind: str, count: int, seed: int) -> Iterator[tuple[Mapping[str, int], Contract]]:
    """Workloads to ask for: ``first``, each at most once, or ``popular``, where the n-th most
    popular is asked for with a probability that falls as 1/n (Zipf's law)."""
    random = Random(seed)
    if kind == "first":
        numbers = random.sample(range(WORKLOADS), count)
    else:
        numbers = [int(WORKLOADS ** random.random()) * 7919 % WORKLOADS for _ in range(count)]
    for number in numbers:
        yield (
            params_of(number),
            random.choice((Contract.STATIC,) * 3 + (Contract.HOST, Contract.NONE)),
        )
