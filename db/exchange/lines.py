"""A schedule as a line, and back, trusting nothing in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.codegen import space_of
from tuner.errors import UserError
from tuner.identity import canonical_json, digest_of
from tuner.kernels import find_kernel
from tuner.problem.contract import find_contract
from tuner.problem.target import find_target
from tuner.records.candidate import CACHE_STATES, FIDELITIES, FIGURES, Measurement, Problem
from tuner.records.trial import Schedule
from tuner.space import Config

KINDS = frozenset({"object", "header", "schedule", "loopnest", "assembly"})
"""Of the files of an object."""

_ID = re.compile(r"[0-9a-z]{1,16}-[0-9]{1,9}p?")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,499}")
_GENERATOR = re.compile(r"[a-z][a-z0-9_-]{0,99}")
_FIELDS = frozenset(
    {
        *("id", "workload", "contract", "target", "problem_digest", "generator", "config"),
        *("config_digest", "measurement", "symbol", "object_digest", "files", "toolchain"),
        "provenance",
    }
)
_COUNTS = ("cycles", "code_bytes", "core_cycles")
_OPTIONAL_COUNTS = ("packets", "stalls", "vtcm_bytes", "ddr_bytes", "overhead_cycles")
_MOST_CELSIUS = 1000.0
_MOST_DOCUMENT = 64 << 10
_MOST_SAMPLES = 10_000


@dataclass(frozen=True)
class Line:
    """A schedule to be stored. ``files`` maps the kinds of its files to their digests, which are
    not yet checked against the bytes."""

    public_id: str
    schedule: Schedule
    files: Mapping[str, str]

    @property
    def toolchain(self) -> Mapping[str, str]:
        """The versions that made and measured it."""
        found: Mapping[str, str] = self.schedule.provenance["toolchain"]
        return found


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


def read_line(text: bytes) -> Line:
    """The schedule in ``text``; ``UserError`` says what is wrong with it.

    The problem must be one that this installation makes itself, and the config a point of the
    space it makes of it.
    """
    try:
        form = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError("it is not JSON", accepted="an object a line") from None
    if not isinstance(form, dict) or set(form) != _FIELDS:
        odd = sorted(set(form) ^ _FIELDS)[:3] if isinstance(form, dict) else []
        raise UserError(
            f"it lacks fields of a schedule, or has others ({', '.join(odd)[:200]})",
            accepted=", ".join(sorted(_FIELDS)),
        )
    problem = _problem(form)
    toolchain, provenance = _documents(form)
    generator = _matching(form, "generator", _GENERATOR)
    schedule = Schedule(
        problem=problem,
        config=_config(form, problem, generator),
        generator=generator,
        measurement=_measurement(form["measurement"]),
        artifact_digest=_matching(form, "object_digest", _DIGEST),
        symbol=_matching(form, "symbol", _SYMBOL),
        provenance={**provenance, "toolchain": toolchain},
    )
    if schedule.symbol != problem.symbol:
        raise UserError(f"symbol={schedule.symbol[:200]}", accepted=problem.symbol)
    public_id = _matching(form, "id", _ID)
    if public_id != schedule.public_id:
        raise UserError(f"id={public_id} is not that of provenance.job and provenance.trial")
    return Line(public_id, schedule, _files(form))


def _matching(form: Mapping[str, Any], name: str, pattern: re.Pattern[str]) -> str:
    value = form[name]
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        raise UserError(f"{name}={str(value)[:60]!r}", accepted=pattern.pattern)
    return value


def _object(form: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = form[name]
    if not isinstance(value, dict):
        raise UserError(f"{name} is not an object")
    return value


def _problem(form: Mapping[str, Any]) -> Problem:
    workload, figures = _object(form, "workload"), _object(form, "target")
    params = workload.get("params")
    if not isinstance(params, dict):
        raise UserError("workload.params is not an object")
    kernel = find_kernel(str(workload.get("kernel"))[:100])
    target = find_target(str(figures.get("name"))[:100])
    if figures != target.as_dict():
        raise UserError(
            f"target {target.name} has other figures there than here",
            next_step="install the same version of hvxtune on both sides",
        )
    problem = kernel.problem(params, find_contract(str(form["contract"])[:20]), target)
    if workload != problem.workload.as_dict():
        raise UserError(
            f"{kernel.name} has version {str(workload.get('version'))[:20]}, other parameters or "
            f"other code there; here it is version {kernel.version}",
            next_step="install the same version of hvxtune on both sides, or tune again",
        )
    if form["problem_digest"] != problem.digest:
        raise UserError("problem_digest is not that of the problem")
    return problem


def _config(form: Mapping[str, Any], problem: Problem, generator: str) -> Config:
    values = _object(form, "config")
    try:
        kernel = find_kernel(problem.workload.kernel)
        config = space_of(generator, kernel, problem).config(values)
    except TypeError:
        raise UserError("config has values that no knob takes") from None
    if config.digest != form["config_digest"]:
        raise UserError("config_digest is not that of the config")
    return config


def _measurement(data: Any) -> Measurement:
    names = set(FIGURES)
    if not isinstance(data, dict) or set(data) != names:
        raise UserError("measurement has other fields", accepted=", ".join(sorted(names)))
    for name in _COUNTS + _OPTIONAL_COUNTS:
        value = data[name]
        unknown = value is None and name in _OPTIONAL_COUNTS
        if not unknown and not _is_count(value):
            raise UserError(f"measurement.{name}={str(value)[:40]}", accepted="0 to 2**63 - 1")
    if not _is_temperature(data.get("temperature_c")):
        raise UserError("measurement.temperature_c", accepted="degrees Celsius or null")
    if data["cycles"] == 0:
        raise UserError("measurement.cycles=0", accepted="at least 1")
    if data["verified"] is not True:
        raise UserError("measurement.verified is not true", accepted="verified schedules only")
    for name, accepted in (("fidelity", FIDELITIES), ("cache", CACHE_STATES)):
        if data[name] not in accepted:
            raise UserError(f"measurement.{name}", accepted=", ".join(accepted))
    device = data["device"]
    if not isinstance(device, str) or len(device) > 200 or not device.isprintable():
        raise UserError("measurement.device is not a short text")
    samples, breakdown = data["samples"], data["breakdown"]
    if not isinstance(samples, list) or len(samples) > _MOST_SAMPLES:
        raise UserError("measurement.samples", accepted=f"a list of at most {_MOST_SAMPLES}")
    if not isinstance(breakdown, dict) or len(breakdown) > 100:
        raise UserError("measurement.breakdown", accepted="an object of at most 100 parts")
    if not all(_is_count(value) for value in [*samples, *breakdown.values()]):
        raise UserError("measurement.samples or .breakdown", accepted="integers")
    return Measurement.from_dict(data)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _is_temperature(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and abs(value) <= _MOST_CELSIUS)


def _documents(form: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    toolchain, provenance = _object(form, "toolchain"), _object(form, "provenance")
    if not toolchain or not all(isinstance(value, str) for value in toolchain.values()):
        raise UserError("toolchain", accepted="an object of texts")
    for name, document in (("toolchain", toolchain), ("provenance", provenance)):
        try:
            text = canonical_json(document)
        except ValueError:
            raise UserError(f"{name} has a number that JSON cannot hold") from None
        if len(text) > _MOST_DOCUMENT or "\\u0000" in text:
            raise UserError(f"{name} is too large", accepted=f"{_MOST_DOCUMENT} bytes of text")
    for name, kind in (("job", str), ("trial", int), ("created_at", (int, float))):
        if not isinstance(provenance.get(name), kind):
            raise UserError(f"provenance.{name} is missing or of another type")
    if "toolchain" in provenance:
        raise UserError("provenance has a toolchain of its own")
    return toolchain, provenance


def _files(form: Mapping[str, Any]) -> dict[str, str]:
    files = _object(form, "files")
    if not {"object", "header"} <= set(files) <= KINDS:
        raise UserError(
            f"files: {', '.join(sorted(files))[:200]}",
            accepted="object, header and of " + ", ".join(sorted(KINDS)),
        )
    for kind in files:
        _matching(files, kind, _DIGEST)
    if files["object"] != form["object_digest"]:
        raise UserError("files.object is not object_digest")
    return files


def toolchain_digest(toolchain: Mapping[str, str]) -> str:
    """Names a toolchain."""
    return digest_of(dict(toolchain))
