"""A schedule as a line, and back, trusting nothing in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from tuner.codegen import space_of
from tuner.errors import UserError
from tuner.identity import canonical_json, digest_of
from tuner.kernels import find_kernel
from tuner.problem.contract import find_contract
from tuner.problem.target import find_target
from tuner.records.candidate import CacheState, Fidelity, Measurement, Problem
from tuner.records.trial import Schedule
from tuner.space import Config

KINDS = frozenset({"object", "header", "schedule", "loopnest", "assembly"})
"""Of the files of an object."""

_MOST_DOCUMENT = 64 << 10
_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class _Measured(_Strict):
    """The figures of a schedule."""

    cycles: Annotated[int, Field(ge=1, lt=1 << 63)]
    packets: _Count | None
    stalls: _Count | None
    verified: Literal[True]
    fidelity: Fidelity
    device: Annotated[str, Field(max_length=200)]
    samples: Annotated[list[_Count], Field(max_length=10_000)]
    breakdown: Annotated[dict[str, _Count], Field(max_length=100)]
    code_bytes: _Count
    core_cycles: _Count
    cache: CacheState
    temperature_c: Annotated[float, Field(ge=-1000.0, le=1000.0)] | None
    vtcm_bytes: _Count | None
    ddr_bytes: _Count | None
    overhead_cycles: _Count | None
    # Exports from before ranges have none: such a schedule ranks by its cycles.
    expected_cycles: _Count | None = None
    lowest_cycles: _Count | None = None
    highest_cycles: _Count | None = None

    @field_validator("device")
    @classmethod
    def _one_line(cls, device: str) -> str:
        if not device.isprintable():
            raise ValueError("it is not printable")
        return device


class _Form(_Strict):
    """A line, as :func:`line_of` makes it."""

    id: Annotated[str, Field(pattern=r"^[0-9a-z]{1,16}-[0-9]{1,9}p?$")]
    workload: dict[str, Any]
    contract: Annotated[str, Field(max_length=20)]
    target: dict[str, Any]
    problem_digest: _Digest
    generator: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,99}$")]
    config: dict[str, Any]
    config_digest: _Digest
    measurement: _Measured
    symbol: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,499}$")]
    object_digest: _Digest
    files: dict[Literal["object", "header", "schedule", "loopnest", "assembly"], _Digest]
    toolchain: Annotated[dict[str, str], Field(min_length=1)]
    provenance: dict[str, Any]


class OtherInstallationError(UserError):
    """A line that is sound, but of a kernel, a target or a space that are not the same here, as
    another version of hvxtune wrote it."""


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
    space it makes of it; else ``OtherInstallationError``.
    """
    try:
        form = _Form.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "it"
        raise UserError(f"{place}={first['input']!r:.60}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise UserError("it is not JSON", accepted="an object a line") from None
    problem = _problem(form)
    _require_documents(form)
    figures = form.measurement.model_dump()
    schedule = Schedule(
        problem=problem,
        config=_config(form, problem),
        generator=form.generator,
        measurement=Measurement.from_dict(figures),
        artifact_digest=form.object_digest,
        symbol=form.symbol,
        provenance={**form.provenance, "toolchain": form.toolchain},
    )
    if form.symbol != problem.symbol:
        raise UserError(f"symbol={form.symbol[:200]}", accepted=problem.symbol)
    if form.id != schedule.public_id:
        raise UserError(f"id={form.id} is not that of provenance.job and provenance.trial")
    if not {"object", "header"} <= form.files.keys():
        raise UserError("files lacks the object or its header")
    if form.files["object"] != form.object_digest:
        raise UserError("files.object is not object_digest")
    return Line(form.id, schedule, {str(kind): digest for kind, digest in form.files.items()})


def _problem(form: _Form) -> Problem:
    workload, figures = form.workload, form.target
    params = workload.get("params")
    if not isinstance(params, dict):
        raise UserError("workload.params is not an object")
    try:
        kernel = find_kernel(str(workload.get("kernel"))[:100])
        target = find_target(str(figures.get("name"))[:100])
        problem = kernel.problem(params, find_contract(form.contract), target)
    except UserError as error:
        raise _elsewhere(error) from None
    if figures != target.as_dict():
        raise OtherInstallationError(
            f"target {target.name} has other figures there than here",
            next_step="install the same version of hvxtune on both sides",
        )
    if workload != problem.workload.as_dict():
        raise OtherInstallationError(
            f"{kernel.name} of version {str(workload.get('version'))[:20]} has other code there "
            f"than version {kernel.version} here",
            next_step="install the same version of hvxtune on both sides, or tune again",
        )
    if form.problem_digest != problem.digest:
        raise UserError("problem_digest is not that of the problem")
    return problem


def _config(form: _Form, problem: Problem) -> Config:
    try:
        kernel = find_kernel(problem.workload.kernel)
        config = space_of(form.generator, kernel, problem).config(form.config)
    except TypeError:
        raise UserError("config has values that no knob takes") from None
    except UserError as error:
        raise _elsewhere(error) from None
    if config.digest != form.config_digest:
        raise UserError("config_digest is not that of the config")
    return config


def _elsewhere(error: UserError) -> OtherInstallationError:
    return OtherInstallationError(error.message, accepted=error.accepted, next_step=error.next_step)


def _require_documents(form: _Form) -> None:
    for name, document in (("toolchain", form.toolchain), ("provenance", form.provenance)):
        try:
            text = canonical_json(document)
        except ValueError:
            raise UserError(f"{name} has a number that JSON cannot hold") from None
        if len(text) > _MOST_DOCUMENT or "\\u0000" in text:
            raise UserError(f"{name} is too large", accepted=f"{_MOST_DOCUMENT} bytes of text")
    for name, kind in (("job", str), ("trial", int), ("created_at", (int, float))):
        if not isinstance(form.provenance.get(name), kind):
            raise UserError(f"provenance.{name} is missing or of another type")
    if "toolchain" in form.provenance:
        raise UserError("provenance has a toolchain of its own")


def toolchain_digest(toolchain: Mapping[str, str]) -> str:
    """Names a toolchain."""
    return digest_of(dict(toolchain))
