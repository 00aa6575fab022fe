"""Schedules as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from db.serving import ServingRow
from service.json_forms import measurement_json, peak_cycles, problem_json
from service.schedules.asked import Asked
from tuner.candidate import CacheState, Measurement, Problem

FILE_LINKS = {
    "object": "object",
    "header": "header",
    "schedule": "schedule.h",
    "loopnest": "loopnest",
    "assembly": "assembly",
}
"""Kinds of an artifact's files, and the last part of the path that each is fetched from."""


@lru_cache(maxsize=256)
def _toolchain(text: str) -> Mapping[str, str]:
    fingerprint: dict[str, str] = json.loads(text)
    return fingerprint


def schedule_json(row: ServingRow, problem: Problem, cache: CacheState) -> dict[str, Any]:
    """The schedule in ``row``, which is stored under ``problem``, as every route gives it."""
    measurement = Measurement(
        cycles=row.cycles,
        packets=row.packets,
        stalls=row.stalls,
        verified=True,  # the database holds no other
        fidelity=row.fidelity,
        device=row.device,
        breakdown=json.loads(row.breakdown),
        code_bytes=row.code_bytes,
        core_cycles=row.core_cycles,
        cache=cache,
    )
    return {
        "id": row.public_id,
        **problem_json(problem),
        "generator": row.generator,
        "config": json.loads(row.config),
        **measurement_json(measurement, peak_cycles(problem)),
        "code_bytes": row.code_bytes,
        "symbol": row.symbol,
        "object_digest": row.artifact_digest,
        "object_bytes": row.object_bytes,
        "toolchain": _toolchain(row.toolchain),
        "provenance": json.loads(row.provenance),
        "links": links(row.public_id),
    }


def links(public_id: str, *, linkable: bool = True) -> dict[str, str]:
    """Where the files of a schedule are. An object that may not be called is not linked to."""
    base = f"/v1/schedules/{public_id}"
    kinds = {kind: f"{base}/{path}" for kind, path in FILE_LINKS.items()}
    if not linkable:
        for kind in ("object", "header", "assembly"):
            del kinds[kind]
    return {"self": base, **kinds, "provenance": f"{base}/provenance"}


def exact_json(row: ServingRow, problem: Problem, asked: Asked) -> dict[str, Any]:
    """The answer that is a schedule of the very workload, for callers that promise enough."""
    return {
        **schedule_json(row, problem, asked.cache),
        "match": "exact",
        "distance": None,
        "confidence": None,
        "asked": asked_json(asked),
    }


def asked_json(asked: Asked) -> dict[str, Any]:
    """What the client asked for, with the parameters it left out."""
    problem = asked.problem
    return {"params": dict(problem.workload.params), "contract": problem.contract.value}
