"""Schedules as JSON."""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii
from typing import Any

from db.schedules.serving import ServingRow
from service.schedules.asked import Asked
from tuner.measure.roofline import roofline_of, roofline_of_work
from tuner.records.candidate import CacheState, Problem
from tuner.records.roofline import Roofline

FILE_LINKS = {
    "object": "object",
    "header": "header",
    "schedule": "schedule.h",
    "loopnest": "loopnest",
    "assembly": "assembly",
}
"""Kinds of an artifact's files, and the last part of the path that each is fetched from."""

_KEY = "kernel_label"
_quoted = encode_basestring_ascii
"""A text as JSON, in a tenth of the time of ``json.dumps``."""


def label_of(provenance: str) -> str:
    """The display name of an upload, by a provenance as stored; empty for other kernels."""
    return str(json.loads(provenance).get(_KEY, "")) if _KEY in provenance else ""


def display_name(problem: Problem, provenance: str) -> str:
    """The display name of a schedule's kernel: the name of an upload, not its digest."""
    return label_of(provenance) or problem.workload.kernel


def schedule_json(row: ServingRow, problem: Problem, cache: CacheState) -> dict[str, Any]:
    """The schedule in ``row``, which is stored under ``problem``, as every route gives it."""
    fields = _fields(row, problem, cache, _params(problem), roofline_of(problem, cache))
    form: dict[str, Any] = json.loads(f"{{{fields}}}")
    return form


def exact_text(row: ServingRow, asked: Asked) -> str:
    """The answer that is a schedule of the very workload, for callers that promise enough."""
    problem = asked.lookup.stored_under(row.contract)
    params = _params(problem)  # what is stored has those that are asked for
    work = asked.kernel.work(problem.workload.params)
    roofline = roofline_of_work(work, problem.target, asked.lookup.cache)
    return (
        f"{{{_fields(row, problem, asked.lookup.cache, params, roofline)},"
        '"match":"exact","distance":null,"confidence":null,"note":null,'
        f'"asked":{{"params":{params},"contract":"{asked.problem.contract.value}"}}}}'
    )


def _fields(
    row: ServingRow, problem: Problem, cache: CacheState, params: str, roofline: Roofline
) -> str:
    """The fields of a schedule as JSON text.

    Put together from the JSON that is stored, which need not be read for it: that is a tenth of
    the time of a best-query.
    """
    share = round(roofline.cycles_at(row.fidelity) / row.cycles, 4)
    base = f"/v1/schedules/{row.public_id}"
    return (
        f'"id":{_quoted(row.public_id)},'
        f'"kernel":{_quoted(problem.workload.kernel)},'
        f'"display_name":{_quoted(display_name(problem, row.provenance))},'
        f'"params":{params},'
        f'"contract":"{problem.contract.value}",'
        f'"target":{_quoted(problem.target.name)},'
        f'"generator":{_quoted(row.generator)},'
        f'"config":{row.config},'
        f'"cycles":{row.cycles},"packets":{_number(row.packets)},"stalls":{_number(row.stalls)},'
        f'"core_cycles":{row.core_cycles},'
        # The database holds no other: a constraint refuses it.
        f'"verified":true,'
        f'"share_of_roofline":{share},'
        f'"fidelity":"{row.fidelity}",'
        f'"device":{_quoted(row.device)},'
        f'"cache":"{cache}",'
        f'"prefer":"{row.prefer}","expected_cycles":{_number(row.expected_cycles)},'
        f'"lowest_cycles":{_number(row.lowest_cycles)},'
        f'"highest_cycles":{_number(row.highest_cycles)},'
        f'"samples":{row.samples},"overhead_cycles":{_number(row.overhead_cycles)},'
        f'"temperature_c":{_number(row.temperature_c)},'
        f'"breakdown":{row.breakdown},'
        f'"code_bytes":{row.code_bytes},"vtcm_bytes":{_number(row.vtcm_bytes)},'
        f'"symbol":{_quoted(row.symbol)},'
        f'"object_digest":"{row.artifact_digest}","object_bytes":{row.object_bytes},'
        f'"toolchain":{row.toolchain},'
        f'"provenance":{row.provenance},'
        f'"links":{{"self":{_quoted(base)},{_FILES.replace("%", base)},'
        f'"provenance":"{base}/provenance"}}'
    )


_FILES = ",".join(f'"{kind}":"%/{path}"' for kind, path in FILE_LINKS.items())


def _number(value: float | None) -> str:
    """A finite number or null, as JSON."""
    return "null" if value is None else repr(value)


def _params(problem: Problem) -> str:
    return "{" + ",".join([f'"{k}":{v}' for k, v in problem.workload.params.items()]) + "}"


def links(public_id: str, *, linkable: bool = True) -> dict[str, str]:
    """Where the files of a schedule are. An object that may not be called is not linked to."""
    base = f"/v1/schedules/{public_id}"
    kinds = {kind: f"{base}/{path}" for kind, path in FILE_LINKS.items()}
    if not linkable:
        for kind in ("object", "header", "assembly"):
            del kinds[kind]
    return {"self": base, **kinds, "provenance": f"{base}/provenance"}


def asked_json(asked: Asked) -> dict[str, Any]:
    """The client's question, with the parameters it left out."""
    problem = asked.problem
    return {"params": dict(problem.workload.params), "contract": problem.contract.value}
