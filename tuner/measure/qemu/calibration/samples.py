"""Samples: lines of JSON that say which schedule took how many cycles on a real machine.

A file is refused at its first bad line, by number: a sample that is silently left out, or
silently taken for another schedule, would move every parameter.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.codegen import generator_names
from tuner.errors import UserError
from tuner.kernels import find_kernel
from tuner.problem.contract import find_contract
from tuner.problem.target import find_target
from tuner.records.candidate import (
    CACHE_STATES,
    FIDELITIES,
    CacheState,
    Candidate,
    Fidelity,
    Problem,
)
from tuner.space import Config

CLOCK_CYCLES_A_PACKET_TIME = 2
"""A hardware thread issues a packet every two clock cycles at most (``v66.toml``, first lines)."""
MOST_CYCLES = 1e15
MEASURED = tuple(fidelity for fidelity in FIDELITIES if fidelity != "model")
"""Fidelities of samples. The model's own cycles tell nothing about a machine."""
_REQUIRED = ("kernel", "contract", "target", "config", "cache", "device")
_OPTIONAL = ("params", "cycles", "pcycles", "fidelity", "generator", "object_digest")
_MOST_NAME_CHARACTERS = 100


@dataclass(frozen=True)
class Sample:
    """One measured schedule. ``cycles`` are packet times of one hardware thread.

    ``line`` is where it stands in its file, counted from 1. ``object_digest`` names the object
    that was measured, if the file says so.
    """

    line: int
    candidate: Candidate
    cache: CacheState
    cycles: float
    device: str
    fidelity: Fidelity
    object_digest: str | None


@dataclass(frozen=True)
class SampleSet:
    """The samples of a file, all of one target and one fidelity."""

    path: Path
    samples: tuple[Sample, ...]

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.samples[0].candidate.problem.target.name

    @property
    def fidelity(self) -> Fidelity:
        """Fidelity of the measured cycles."""
        return self.samples[0].fidelity

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices that were measured on, sorted."""
        return tuple(sorted({sample.device for sample in self.samples}))

    @property
    def arch(self) -> str:
        """Arch of the target, such as ``v66``."""
        return self.samples[0].candidate.problem.target.arch

    @property
    def origin(self) -> str:
        """Where the numbers come from, for the source of what is fitted to them."""
        return f"{self.target}, {self.fidelity}, measured on {', '.join(self.devices)}"

    def error(self, line: int, message: str, *, accepted: str = "") -> UserError:
        """The error to raise for a line that cannot be used."""
        return _line_error(self.path, line, UserError(message, accepted=accepted))


def read_samples(path: Path, target: str | None = None) -> SampleSet:
    """The samples in ``path``, which must be of ``target`` if that is given.

    Raises ``UserError`` naming the line for anything else than a JSON object with the fields that
    docs/simulator.md lists, for names and configs nobody knows, and for mixed targets and
    fidelities.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror}", accepted="a file of samples, a line each"
        ) from None
    samples: list[Sample] = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            sample = _sample(number, line)
            _require_alike(sample, samples[0] if samples else None, target)
        except UserError as error:
            raise _line_error(path, number, error) from None
        samples.append(sample)
    if not samples:
        raise UserError(f"{path} holds no samples", accepted="lines of JSON, a sample each")
    return SampleSet(path, tuple(samples))


def _line_error(path: Path, line: int, error: UserError) -> UserError:
    return UserError(
        f"line {line} of {path}: {error.message}",
        accepted=error.accepted,
        next_step=error.next_step,
    )


def _sample(number: int, line: bytes) -> Sample:
    fields = _fields(line)
    problem = _problem(fields)
    generator = _one_of(fields, "generator", generator_names(), default="halide")
    fidelity = _one_of(fields, "fidelity", MEASURED, default="hardware")
    cache = _one_of(fields, "cache", CACHE_STATES)
    digest = fields.get("object_digest")
    if digest is not None and not isinstance(digest, str):
        raise UserError(f"object_digest {digest!r}", accepted="hexadecimal digits, or leave it out")
    return Sample(
        line=number,
        candidate=Candidate(problem, _config(problem, fields["config"]), generator),
        cache=cache,
        cycles=_cycles(fields),
        device=_text(fields, "device"),
        fidelity=fidelity,
        object_digest=digest,
    )


def _fields(line: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(line, object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        raise UserError(f"no JSON: {error}", accepted="one JSON object") from None
    if not isinstance(fields, dict):
        raise UserError(f"a {type(fields).__name__}", accepted="one JSON object")
    for name in fields:
        if name not in (*_REQUIRED, *_OPTIONAL):
            near = difflib.get_close_matches(name, (*_REQUIRED, *_OPTIONAL), n=1)
            meant = f" (did you mean {near[0]}?)" if near else ""
            raise UserError(
                f"unknown field '{name}'{meant}", accepted=", ".join((*_REQUIRED, *_OPTIONAL))
            )
    for name in _REQUIRED:
        if name not in fields:
            raise UserError(f"field '{name}' is missing", accepted=", ".join(_REQUIRED))
    return fields


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of ``pairs``; JSON itself would take the last of two with one name."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"field '{name}' stands there twice", accepted="each field once")
    return dict(pairs)


def _problem(fields: Mapping[str, Any]) -> Problem:
    params = fields.get("params", {})
    if not isinstance(params, dict):
        raise UserError(f"params {params!r}", accepted='an object, such as {"m": 256}')
    kernel = find_kernel(_text(fields, "kernel"))
    contract = find_contract(_text(fields, "contract"))
    target = find_target(_text(fields, "target"))
    with _inside("params"):
        return kernel.problem(params, contract, target)


def _config(problem: Problem, given: Any) -> Config:
    kernel = find_kernel(problem.workload.kernel)
    if given == "default":
        return kernel.default_config(problem)
    if given == "textbook":
        return kernel.textbook_config(problem)
    if not isinstance(given, dict):
        raise UserError(
            f"config {given!r}", accepted="default, textbook, or an object of knobs and values"
        )
    with _inside("config"):
        return kernel.space(problem).config(given)


@contextmanager
def _inside(field: str) -> Iterator[None]:
    """Puts ``field`` before errors that name only what is in it."""
    try:
        yield
    except UserError as error:
        error.message = f"{field}: {error.message}"
        raise


def _cycles(fields: Mapping[str, Any]) -> float:
    given = [name for name in ("cycles", "pcycles") if name in fields]
    if len(given) != 1:
        raise UserError(
            "both cycles and pcycles" if given else "field 'cycles' is missing",
            accepted="one of cycles (packet times of a thread) and pcycles (clock cycles)",
        )
    value = fields[given[0]]
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value <= MOST_CYCLES  # nor NaN
    ):
        raise UserError(
            f"{given[0]} {str(value)[:40]}", accepted=f"a number above 0, at most {MOST_CYCLES:g}"
        )
    return value / CLOCK_CYCLES_A_PACKET_TIME if given[0] == "pcycles" else float(value)


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise UserError(f"{name} {value!r}", accepted="a name")
    if len(value) > _MOST_NAME_CHARACTERS:
        raise UserError(
            f"{name} '{value[:20]}...'", accepted=f"at most {_MOST_NAME_CHARACTERS} characters"
        )
    return value


def _one_of(
    fields: Mapping[str, Any], name: str, choices: Any, *, default: str | None = None
) -> Any:
    value = fields.get(name, default)
    if value not in tuple(choices):
        raise UserError(f"{name} {value!r}", accepted=", ".join(choices))
    return value


def _require_alike(sample: Sample, first: Sample | None, target: str | None) -> None:
    """One parameter file describes one machine, as seen by one kind of measurement."""
    own = sample.candidate.problem.target.name
    wanted = first.candidate.problem.target.name if first else target
    if own != (target or wanted or own):
        raise UserError(f"target {own}", accepted=f"{target or wanted}, one target a calibration")
    if first is not None and sample.fidelity != first.fidelity:
        raise UserError(
            f"fidelity {sample.fidelity}",
            accepted=f"{first.fidelity}, as line {first.line} has: they are never mixed",
        )
