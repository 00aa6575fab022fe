"""Samples: lines of JSON that say which schedule took how many cycles on a real machine.

A file is refused at its first bad line, by number: a sample that is silently left out, or
silently taken for another schedule, would move every parameter. The events of each sample are
found by compiling and simulating it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.codegen import (
    CodeGenerator,
    find_generator,
    generator_names,
    generator_of,
    space_of,
    starts_of,
)
from tuner.errors import CandidateError, UserError
from tuner.kernels import find_kernel
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.measure.qemu.predictor import Observation
from tuner.problem.contract import find_contract
from tuner.problem.target import find_target
from tuner.records.candidate import (
    CacheState,
    Candidate,
    Fidelity,
    Problem,
)
from tuner.space import Config

CLOCK_CYCLES_A_PACKET_TIME = 2
"""A hardware thread issues a packet every two clock cycles at most (``v66.toml``, first lines)."""


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
    docs/calibrating.md lists, for names and configs nobody knows, and for mixed targets and
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


_Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Cycles = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]


class _Line(BaseModel):
    """The fields of a sample, as docs/calibrating.md lists them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kernel: _Name
    params: dict[str, int] = Field(default_factory=dict)
    contract: _Name
    target: _Name
    config: dict[str, int | str] | Literal["default", "textbook"]
    cache: CacheState
    device: _Name
    cycles: _Cycles | None = None
    pcycles: _Cycles | None = None
    fidelity: Literal["cycle_accurate", "hardware"] = "hardware"
    generator: _Name | None = None
    object_digest: str | None = Field(None, pattern=r"^[0-9a-f]+$")


def _sample(number: int, line: bytes) -> Sample:
    told = _told(line)
    problem = _problem(told)
    usual = generator_of(
        find_kernel(told.kernel), told.config if isinstance(told.config, dict) else {}
    )
    generator = told.generator or usual
    if generator not in generator_names():
        raise UserError(f"generator '{generator}'", accepted=", ".join(generator_names()))
    return Sample(
        line=number,
        candidate=Candidate(problem, _config(problem, told.config, generator), generator),
        cache=told.cache,
        cycles=told.cycles or (told.pcycles or 0.0) / CLOCK_CYCLES_A_PACKET_TIME,
        device=told.device,
        fidelity=told.fidelity,
        object_digest=told.object_digest,
    )


def _told(line: bytes) -> _Line:
    try:
        told = _Line.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        given = "" if first["type"] == "missing" else f", not {str(first['input'])[:40]!r}"
        raise UserError(
            f"{field or 'no sample'}: {first['msg']}{given}",
            accepted=f"a JSON object with the fields {', '.join(_Line.model_fields)}",
        ) from None
    if (told.cycles is None) == (told.pcycles is None):
        raise UserError(
            "field 'cycles' is missing" if told.cycles is None else "both cycles and pcycles",
            accepted="one of cycles (packet times of a thread) and pcycles (clock cycles)",
        )
    return told


def _problem(told: _Line) -> Problem:
    kernel = find_kernel(told.kernel)
    contract, target = find_contract(told.contract), find_target(told.target)
    with _inside("params"):
        return kernel.problem(told.params, contract, target)


def _config(problem: Problem, given: Mapping[str, Any] | str, generator: str) -> Config:
    kernel = find_kernel(problem.workload.kernel)
    if isinstance(given, str):
        return starts_of(generator, kernel, problem)[given]
    with _inside("config"):
        return space_of(generator, kernel, problem).config(given)


@contextmanager
def _inside(field: str) -> Iterator[None]:
    """Puts ``field`` before errors that name only what is in it."""
    try:
        yield
    except UserError as error:
        error.message = f"{field}: {error.message}"
        raise


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


def count_events(
    samples: SampleSet,
    *,
    workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Observation]:
    """Each sample with the events of its schedule, in the order of the file.

    ``workers`` candidates are compiled and simulated at a time; ``on_progress`` is called with the
    numbers of samples done and of all. Raises ``UserError`` naming the line of a sample whose
    schedule does not compile or run, or gives another object than the sample was measured with.
    """
    with ExitStack() as stack:
        counter = _Counter(samples, workers, stack)
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        # Left to itself, the pool would work off its queue before an error or Ctrl-C came through.
        stack.callback(pool.shutdown, cancel_futures=True)
        found = []
        for observation in pool.map(counter.observation, samples.samples):
            found.append(observation)
            if on_progress is not None:
                on_progress(len(found), len(samples.samples))
        return found


class _Counter:
    """Generators and measurers, one of each kind."""

    def __init__(self, samples: SampleSet, workers: int, stack: ExitStack) -> None:
        self._set = samples
        target = samples.samples[0].candidate.problem.target
        names = {sample.candidate.generator for sample in samples.samples}
        states = {sample.cache for sample in samples.samples}
        self._generators: dict[str, CodeGenerator] = {
            name: stack.enter_context(find_generator(name)(workers)) for name in sorted(names)
        }
        self._measurers: dict[CacheState, QemuMeasurer] = {}
        for state in sorted(states):
            self._measurers[state] = measurer = QemuMeasurer(cache=state)
            stack.callback(measurer.close)
            measurer.require(target)

    def observation(self, sample: Sample) -> Observation:
        """``sample`` with its events."""
        digest, events = self._count(sample)
        if sample.object_digest is not None and not digest.startswith(sample.object_digest):
            raise self._set.error(
                sample.line,
                f"measured with object {sample.object_digest[:16]}, but here the schedule gives "
                f"{digest[:16]}",
                accepted="samples of objects that this installation compiles",
            )
        contexts = sample.candidate.problem.target.hvx_contexts
        return Observation(sample.line, digest, sample.cycles, events, contexts)

    def _count(self, sample: Sample) -> tuple[str, Events]:
        candidate = sample.candidate
        try:
            artifact = self._generators[candidate.generator].compile(candidate)
            simulation = self._measurers[sample.cache].simulate(candidate.problem, artifact)
        except CandidateError as error:
            raise self._set.error(
                sample.line,
                f"the schedule ends with {error.outcome} here: {error.message}",
                accepted="schedules that `hvxtune kernel measure` finds right",
            ) from None
        return artifact.digest, simulation.timing.events
