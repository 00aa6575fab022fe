"""The contract of a device: one phone, one Qualcomm simulator, one slot of the embedded one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tuner.errors import CandidateError, DeviceError
from tuner.problem.target import Target
from tuner.records.candidate import Artifact, Fidelity, Measurement, Problem


@dataclass(frozen=True)
class Task:
    """One candidate to run: verified on every case of its problem, then timed.

    ``warm_ups`` untimed calls come before ``repeats`` timed ones, all inside one run of the
    candidate. ``budget_cycles`` is the early-termination budget of one call.
    """

    problem: Problem
    artifact: Artifact
    warm_ups: int = 1
    repeats: int = 1
    budget_cycles: int | None = None


@dataclass(frozen=True)
class Batch:
    """What a device gets in one call: calls to a phone are dear.

    ``reference`` is a known good candidate that a device with a clock runs before, between and
    after the tasks, to notice that it has become slow. A deterministic simulator ignores it.
    """

    tasks: Sequence[Task]
    reference: Task | None = None


@dataclass(frozen=True)
class Sampled:
    """One verified run of a candidate.

    ``measurement`` holds every timed repeat in ``samples`` (cycles) and their median, without the
    harness's ``overhead_cycles``, in ``cycles``. ``reference_cycles`` are the reference's next to
    it, likewise without, oldest first; empty where none ran. ``link_s`` and ``run_s`` are this
    task's share of wall seconds.
    """

    measurement: Measurement
    reference_cycles: Sequence[int] = ()
    link_s: float = 0.0
    run_s: float = 0.0


@dataclass(frozen=True)
class DiskRoom:
    """What is free in the folder where a device puts the files of a batch, and what a batch may
    need there at most, both in bytes."""

    folder: str
    free_bytes: int
    needed_bytes: int

    @property
    def shortage(self) -> str:
        """What is wrong, for the lab's owner; empty if a batch has room."""
        if self.free_bytes >= self.needed_bytes:
            return ""
        free, needed = (
            f"{count / (1 << 20):.1f} MiB" for count in (self.free_bytes, self.needed_bytes)
        )
        return f"{self.folder} has {free} free, a batch may need {needed}: free space on the device"


@dataclass(frozen=True)
class DeviceReport:
    """How a device is: the answer to a probe, or what was noticed while it worked.

    ``temperature_c`` is the hottest sensor in degrees Celsius, ``None`` without sensors.
    ``room`` is ``None`` where batches need no disk of the device, or where it does not say.
    ``details`` are words for people: build, clock limits, free space.
    """

    temperature_c: float | None = None
    room: DiskRoom | None = None
    details: Mapping[str, str] = field(default_factory=dict, hash=False)


class Device(ABC):
    """One place that runs candidates, one batch at a time.

    A device is driven by one thread at a time, whoever holds its lease; :meth:`close` may come
    from another thread and makes a call under way end soon with ``DeviceError``. The instance
    owns its connections, remote processes and remote directories: after every call nothing is
    left on the device, or :meth:`clean` removes it. It keeps no health state and never retries a
    candidate by itself; a transport fault may be retried inside a call only if nothing of the
    candidate can have started.
    """

    kind: ClassVar[str]
    """``simulator``, ``hexagon-sim`` or ``phone``."""
    fidelity: ClassVar[Fidelity]

    @property
    @abstractmethod
    def name(self) -> str:
        """Unique in its farm; stored with every measurement made here."""

    @property
    @abstractmethod
    def most_tasks(self) -> int:
        """How many tasks one batch may hold; 1 where calls are cheap."""

    @abstractmethod
    def fingerprint(self) -> Mapping[str, str]:
        """Versions and parameters of all that decides the numbers, without the device's name:
        equal for devices whose numbers may be compared. ``ToolchainError`` if a part is missing,
        naming what to install."""

    @abstractmethod
    def require(self, target: Target) -> None:
        """``UserError`` if code for ``target`` cannot run here, naming what can."""

    @abstractmethod
    def probe(self, nonce: str) -> DeviceReport:
        """Proves that the device answers *now*: it must give ``nonce`` back, within seconds.

        A list of devices proves nothing. ``DeviceError`` says what failed, in words for the lab's
        owner.
        """

    @abstractmethod
    def run(self, batch: Batch) -> list[Sampled | CandidateError | DeviceError]:
        """Runs every task of ``batch``; one result a task, in their order.

        A bad candidate (``CandidateError`` with outcome ``infeasible``, ``cutoff``, ``timeout``,
        ``wrong_output`` or ``run_error``) loses only itself: those after it still run.
        ``DeviceError`` as a result means that this task did not get a fair run and may be tried
        elsewhere. Raises ``DeviceError`` if the device failed as a whole: then no task of the
        batch has a result, whatever the device did.
        """

    @abstractmethod
    def clean(self) -> DeviceReport:
        """Ends leftovers of earlier calls and removes their files, then says how the device is
        without them. ``DeviceError`` if it cannot.

        Called after every fault, before the device is trusted again. Safe to call any time.
        """

    def noticed(self) -> Mapping[str, str]:
        """What the latest call told of the device, in words for people, such as granted clocks;
        a check adds it to its report's details. Nothing where there is nothing to tell."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Lets go of connections and processes of this side. Safe to call twice."""

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
