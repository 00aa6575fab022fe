"""Devices: the contract of one place that runs candidates, and the kinds of device by name.

A kind of device is one class: the table that describes it in a farm file (:attr:`Device.Settings`),
how it is opened, probed and driven, its fidelity, and what it needs of this machine
(:meth:`Device.doctor`). One line in ``_KINDS`` makes it known, or in a package an entry point of
the group ``hvxtune.devices``. :mod:`tuner.conformance.devices` is the suite that each must pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from tuner.errors import CandidateError, DeviceError
from tuner.measure.finding import Finding
from tuner.problem.target import TARGETS, Target
from tuner.records.candidate import Artifact, Fidelity, Measurement, Problem
from tuner.registry import Registry


@dataclass(frozen=True)
class BundleEntry:
    """One candidate to run: verified on every case of its problem, then timed.

    ``warm_ups`` untimed calls come before ``repeats`` timed ones, all inside one run of the
    candidate. ``budget_cycles`` is the early-termination budget of one call. One that ``is_far``
    runs on :func:`tuner.measure.cases.far_cases_of` instead, and is not timed.
    """

    problem: Problem
    artifact: Artifact
    warm_ups: int = 1
    repeats: int = 1
    budget_cycles: int | None = None
    is_far: bool = False


@dataclass(frozen=True)
class Bundle:
    """The candidates of one call of a device: calls of a phone are expensive.

    ``reference`` is a known good candidate that a device with a clock runs before, between and
    after the entries, to notice that it has become slow. A deterministic simulator ignores it.
    """

    entries: Sequence[BundleEntry]
    reference: BundleEntry | None = None


@dataclass(frozen=True)
class Sampled:
    """One verified run of a candidate.

    ``measurement`` holds every timed repeat in ``samples`` (cycles) and their median, without the
    harness's ``overhead_cycles``, in ``cycles``. ``reference_cycles`` are the reference's next to
    it, likewise without, oldest first; empty where none ran. ``link_s`` and ``run_s`` are this
    entry's share of wall seconds.
    """

    measurement: Measurement
    reference_cycles: Sequence[int] = ()
    link_s: float = 0.0
    run_s: float = 0.0


@dataclass(frozen=True)
class Confirmed:
    """One run of a candidate that is right on far cases; ``reference_cycles`` as of
    :class:`Sampled`."""

    reference_cycles: Sequence[int] = ()


RunResult = Sampled | Confirmed | CandidateError | DeviceError


@dataclass(frozen=True)
class DiskRoom:
    """Free space in the folder where a device puts the files of a bundle, and the most that a
    bundle may need there, both in bytes."""

    folder: str
    free_bytes: int
    needed_bytes: int

    @property
    def shortage(self) -> str:
        """The complaint, for the lab's owner; empty if a bundle has room."""
        if self.free_bytes >= self.needed_bytes:
            return ""
        free, needed = (
            f"{count / (1 << 20):.1f} MiB" for count in (self.free_bytes, self.needed_bytes)
        )
        return (
            f"{self.folder} has {free} free, a bundle may need {needed}: free space on the device"
        )


@dataclass(frozen=True)
class DeviceReport:
    """The answer to a probe.

    ``temperature_c`` is the hottest sensor in degrees Celsius, ``None`` without sensors.
    ``room`` is ``None`` where bundles need no disk of the device, or where it does not say.
    ``details`` are words for people: build, clock limits, free space.
    """

    temperature_c: float | None = None
    room: DiskRoom | None = None
    details: Mapping[str, str] = field(default_factory=dict, hash=False)


def about(text: str, least: float | None = None, most: float | None = None) -> dict[str, Any]:
    """Metadata of a field that is a key of the farm file: its help, and a number's bounds."""
    bounds = {} if least is None else {"least": least, "most": most}
    return {"help": text, **bounds}


def key(default: Any, text: str, least: float | None = None, most: float | None = None) -> Any:
    """A field that is a key with a default; see :func:`about`."""
    return field(default=default, metadata=about(text, least, most))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The table ``[limits]``, which holds for every device of a farm. Times are wall seconds."""

    max_temperature_c: float = key(
        70.0, "a device whose hottest sensor exceeds this rests", 20, 150
    )
    cool_down_s: float = key(
        30.0, "the rest of a hot or throttled device before its next check", 0, 3600
    )
    gold_interval_s: float = key(600.0, "the longest time between checks of a device", 1, 86400)
    recheck_s: float = key(
        5.0,
        "the pause before a device that failed a check is checked again; it doubles each time, "
        "up to a minute",
        0.01,
        3600,
    )
    bundle: int = key(16, "the most candidates in one call", 1, 256)
    task_s: float = key(60.0, "the time limit of one candidate", 0.1, 3600)
    repeats: int = key(7, "timed calls of a candidate at first, on a device with noise", 1, 1000)
    most_repeats: int = key(
        101, "timed calls in all, if a candidate cannot be told from the best", 1, 10000
    )
    faults_to_quarantine: int = key(
        3, "the faults among the latest 20 runs that quarantine a device", 1, 20
    )
    checks_to_quarantine: int = key(3, "the failed checks in a row that do the same", 1, 100)
    turn_s: float = key(
        10.0,
        "the time after which a job gives a device back, for others to have their turn",
        0.1,
        3600,
    )
    wait_s: float = key(
        120.0, "the time a job waits for a device to come back before it stops", 0.1, 86400
    )


@dataclass(frozen=True, kw_only=True)
class DeviceSettings:
    """A table ``[[KIND]]`` of the farm file: each field is a key, with its type, its default (none:
    the key must be given), and help and bounds by :func:`about`. Kinds add fields of their own."""

    name: str = field(metadata=about("unique in its farm"))
    arch: str = field(metadata=about("the arch whose code it runs, such as v68"))
    tags: tuple[str, ...] = key((), "words that `--on` chooses it by, besides name, kind and arch")
    slots: ClassVar[int] = 1
    """How many devices the table stands for. A kind may make a field of it."""

    @property
    def implied_tags(self) -> set[str]:
        """Tags that follow from the other keys."""
        return {self.name, self.arch}

    @property
    def hardware(self) -> str:
        """The one piece of hardware that the table names, for people; empty where several tables
        may share what they use."""
        return ""

    def conflict(self) -> tuple[str, str] | None:
        """Values that do not go together, and what is accepted; ``None`` if all do."""
        return None


class Device(ABC):
    """One place that runs candidates, one bundle at a time.

    A device is driven by one thread at a time, that of its lease's holder; :meth:`close` may come
    from another thread and makes a call under way end soon with ``DeviceError``. The instance
    owns its connections, remote processes and remote directories: after every call nothing is
    left on the device, or :meth:`clean` removes it. It keeps no health state and never retries a
    candidate by itself; a transport fault may be retried inside a call only if nothing of the
    candidate can have started.
    """

    kind: ClassVar[str]
    """The name it is registered under, which is that of its table in the farm file."""
    fidelity: ClassVar[Fidelity]
    Settings: ClassVar[type[DeviceSettings]] = DeviceSettings
    """Its table in the farm file."""
    is_local: ClassVar[bool] = False
    """Whether :meth:`fingerprint` works while the device is unreachable."""

    def __init__(self, settings: Any, name: str, limits: Limits) -> None:
        """``settings`` is a :attr:`Settings`; ``name`` is unique in the farm, and stored with every
        measurement made here. Nothing is connected or started yet. ``UserError`` for settings
        that cannot work."""
        self.name = name
        self._limits = limits

    @classmethod
    def doctor(cls) -> Sequence[Finding]:
        """The parts that this kind needs of this machine, for ``hvxtune doctor``. A missing
        one is a finding, not an error."""
        return ()

    @property
    def max_entries(self) -> int:
        """The most entries of a bundle; 1 where calls are cheap."""
        return 1

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
    def run(self, bundle: Bundle) -> list[RunResult]:
        """Runs every entry of ``bundle``; one result an entry, in their order.

        A bad candidate (``CandidateError`` with outcome ``infeasible``, ``cutoff``, ``timeout``,
        ``wrong_output`` or ``run_error``) loses only itself: those after it still run.
        ``DeviceError`` as a result means that this entry did not get a fair run and may be tried
        elsewhere. Raises ``DeviceError`` if the device failed as a whole: then no entry of the
        bundle has a result, whatever the device did.
        """

    @abstractmethod
    def clean(self) -> DeviceReport:
        """Ends leftovers of earlier calls and removes their files, then probes the device without
        them. ``DeviceError`` if it cannot.

        Called after every fault, before the device is trusted again. Safe to call any time.
        """

    def noticed(self) -> Mapping[str, str]:
        """Details of the device that the latest call showed, in words, such as granted clocks;
        a check adds it to its report's details."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Lets go of connections and processes of this side. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def targets_of(arch: str, soc: str = "") -> str:
    """The names of the targets whose code a device of this arch and SoC runs, for messages."""
    return ", ".join(
        target.name
        for target in TARGETS.values()
        if target.arch == arch and target.soc in (None, soc or None)
    )


@dataclass(frozen=True)
class Member:
    """One device of a farm as its file describes it: a phone, or one slot of a simulator."""

    name: str
    kind: type[Device]
    settings: DeviceSettings
    tags: tuple[str, ...] = ()
    """Its own tags, and its kind, arch, SoC and name: what ``--on`` may name."""

    def open(self, limits: Limits) -> Device:
        """The device, for one driver. Nothing is connected yet."""
        return self.kind(self.settings, self.name, limits)


_KINDS: Registry[Device] = Registry(
    "kind of device",
    "hvxtune.devices",
    {
        "simulator": "tuner.measure.qemu.device:SimulatorSlot",
        "hexagon-sim": "tuner.measure.hexagon_sim.device:HexagonSim",
        "phone": "tuner.measure.android.phone:Phone",
    },
    Device,
    choose_with="`hvxtune farm kinds` shows them",
)


def device_kinds() -> list[str]:
    """The names of all kinds of devices."""
    return _KINDS.names()


def find_kind(name: str) -> type[Device]:
    """The class of the kind called ``name``. Raises what :meth:`Registry.find` raises."""
    return _KINDS.find(name)
