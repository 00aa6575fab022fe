"""Stand-ins for devices of a farm: they run nothing. An object is a text that says its cycles,
``"1234"``, and whether it is bad, ``"1234 wrong_output"``, or on far cases alone,
``"1234 far wrong_output"``; faults come from a seed.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from tests.rig.scale_u8 import ScaleU8
from tests.rig.stand_ins import stand_in_artifact, text_of
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError, DeviceError
from tuner.measure import device as devices
from tuner.measure.android.call import PhoneSettings
from tuner.measure.device import (
    Bundle,
    BundleEntry,
    Confirmed,
    Device,
    DeviceReport,
    DeviceSettings,
    DiskRoom,
    Limits,
    Member,
    RunResult,
    Sampled,
)
from tuner.measure.farm.farm_file import Farm
from tuner.measure.qemu.device import SimulatorSettings
from tuner.problem.contract import Contract
from tuner.problem.target import Target, find_target
from tuner.records.candidate import Artifact, Fidelity, Measurement, Problem
from tuner.records.outcome import Outcome

GOLD_CYCLES = 1000
SHORT = Limits(
    cool_down_s=0.02, recheck_s=0.01, task_s=5.0, turn_s=0.5, wait_s=4.0, bundle=4, repeats=6
)
"""Limits for tests that do not wait."""


def problem(contract: Contract = Contract.STATIC) -> Problem:
    """Something to measure; stand-ins do not look at it."""
    return ScaleU8().problem({"h": 4, "n": 512}, contract, find_target("hexagon-v66"))


def candidate(text: str) -> Artifact:
    """A stand-in for a compiled candidate: ``"1234"`` or ``"1234 run_error"``."""
    return stand_in_artifact(text)


def gold(_member: Member | None = None, _limits: Limits | None = None) -> BundleEntry:
    """A stand-in for the gold candidate."""
    return BundleEntry(problem(), candidate(f"{GOLD_CYCLES} gold"), repeats=3)


@dataclass
class Script:
    """What a stand-in does wrong, each with a probability a task (or a call)."""

    refuses: float = 0.0
    """A task without a fair run."""
    breaks: float = 0.0
    """The whole call fails."""
    excuses_every: int = 0
    """One in so many of jobs' calls fails as a whole, and not by the device's fault."""
    condemns: float = 0.0
    """A good candidate is said to be wrong."""
    wrong: bool = False
    """So is the gold candidate."""
    slow: float = 1.0
    """Everything takes so many times as long."""
    noise: float = 0.0
    """Samples are up to this share above what is true."""
    silent: bool = False
    """Answers no probe and no call."""
    hangs: bool = False
    """A call does not end before it is closed."""
    hot_c: float | None = None
    free_bytes: int = 1 << 30
    """What is left on its disk once it was cleaned."""
    fingerprint: Mapping[str, str] = field(default_factory=lambda: {"build": "1"})
    task_s: float = 0.0
    held: threading.Event | None = None
    """A candidate's run does not end before it is set."""


class StandInDevice(Device):
    """A stand-in for a phone. ``runs`` counts the candidates it was given, by object text."""

    kind: ClassVar[str] = "phone"
    fidelity: ClassVar[Fidelity] = "hardware"

    def __init__(self, name: str, script: Script, seed: int, limits: Limits = SHORT) -> None:
        super().__init__(None, name, limits)
        self.script = script
        self._random = random.Random(f"{seed} {name}")
        self._closed = threading.Event()
        self._driven = threading.Lock()
        self.runs: Counter[str] = Counter()
        self.most_at_once = 0
        self.calls = self.for_jobs = 0
        self.cleans = 0

    @property
    def max_entries(self) -> int:
        return self._limits.bundle

    def fingerprint(self) -> Mapping[str, str]:
        return self.script.fingerprint

    def require(self, target: Target) -> None:
        pass

    def probe(self, nonce: str) -> DeviceReport:
        if self.script.silent:
            raise DeviceError("no answer in 3 s")
        return DeviceReport(self.script.hot_c, details={"build": "stand-in"})

    def clean(self) -> DeviceReport:
        self.cleans += 1
        room = DiskRoom("/data", self.script.free_bytes, needed_bytes=1 << 20)
        return DeviceReport(self.script.hot_c, room, {"build": "stand-in"})

    def reopened(self) -> StandInDevice:
        """The same device, as an opener gives it after it was closed."""
        self._closed.clear()
        return self

    def close(self) -> None:
        self._closed.set()

    def run(self, batch: Bundle) -> list[RunResult]:
        assert self._driven.acquire(blocking=False), "driven by two threads at once"
        try:
            self.calls += 1
            self.most_at_once = max(self.most_at_once, len(batch.entries))
            if self.script.hangs and self._closed.wait(PATIENCE_S):
                raise DeviceError("closed while it hung")
            if self.script.silent or self._random.random() < self.script.breaks:
                raise DeviceError("the connection was lost")
            self.for_jobs += batch.reference is not None
            often = self.script.excuses_every
            if batch.reference is not None and often and self.for_jobs % often == 0:
                raise DeviceError("the server ended", attempts=0)
            return [self._one(task, batch.reference) for task in batch.entries]
        finally:
            self._driven.release()

    def _one(self, task: BundleEntry, reference: BundleEntry | None) -> RunResult:
        text = text_of(task.artifact)
        self.runs[text] += 1
        time.sleep(self.script.task_s)
        true_cycles, _, what = text.partition(" ")
        if self.script.held is not None and what != "gold":
            assert self.script.held.wait(PATIENCE_S)
        if self._random.random() < self.script.refuses:
            return DeviceError("no result for this one")
        if what.startswith("far "):
            what = what.removeprefix("far ") if task.is_far else ""
        if what and what != "gold":
            return CandidateError(Outcome(what), "it is bad")
        condemns = self.script.wrong if what == "gold" else self.script.condemns
        if self._random.random() < condemns:
            return CandidateError(Outcome.WRONG_OUTPUT, "a bit fell over")
        beside = () if reference is None else (self._sample(GOLD_CYCLES),) * 2
        if task.is_far:
            return Confirmed(beside)
        samples = tuple(self._sample(int(true_cycles)) for _ in range(task.repeats))
        measurement = Measurement(
            cycles=sorted(samples)[len(samples) // 2],
            packets=None,
            stalls=None,
            verified=True,
            fidelity=self.fidelity,
            device=self.name,
            samples=samples,
        )
        return Sampled(measurement, beside, link_s=0.001, run_s=0.001)

    def _sample(self, true_cycles: int) -> int:
        noisy = 1 + self.script.noise * self._random.random()
        return round(true_cycles * self.script.slow * noisy)


class StandInSimulator(StandInDevice):
    """A stand-in for a slot of a simulator."""

    kind: ClassVar[str] = "simulator"
    fidelity: ClassVar[Fidelity] = "model"


class StandInFarm:
    """Stand-in devices by name, and the farm file they would be in."""

    def __init__(
        self, scripts: Mapping[str, Script], seed: int = 0, limits: Limits = SHORT
    ) -> None:
        self.devices = {
            name: (StandInSimulator if name.startswith("sim") else StandInDevice)(
                name, script, seed, limits
            )
            for name, script in scripts.items()
        }
        self.farm = Farm(
            tuple(
                Member(
                    name,
                    type(device),
                    SimulatorSettings(name=name)
                    if name.startswith("sim")
                    else PhoneSettings(name=name, arch="v66", serial=name),
                    (device.kind, name),
                )
                for name, device in self.devices.items()
            ),
            limits,
        )

    def open(self, member: Member, _limits: Limits) -> StandInDevice:
        """For ``FarmMeasurer(open_device=...)``."""
        return self.devices[member.name].reopened()


SCRIPTS: dict[str, Script] = {}
"""What devices that are :class:`StandInPhone` do wrong, by name; nothing without an entry."""


class StandInPhone(StandInDevice):
    """A stand-in that is opened by its table of a farm file; see :func:`stand_in_phones`."""

    Settings: ClassVar[type[DeviceSettings]] = PhoneSettings

    def __init__(self, settings: PhoneSettings, name: str, limits: Limits) -> None:
        super().__init__(name, SCRIPTS.setdefault(name, Script()), seed=0, limits=limits)


def stand_in_phones(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on phones of farm files, and their gold candidate, are stand-ins."""
    monkeypatch.setitem(devices._KINDS._found, "phone", StandInPhone)
    monkeypatch.setattr("tuner.measure.farm.health.gold_task", lambda arch, repeats: gold())
    SCRIPTS.clear()
