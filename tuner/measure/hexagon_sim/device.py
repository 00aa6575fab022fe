"""Qualcomm's simulator as a device of the farm: one slot, one process at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tuner.codegen.toolchain import find_toolchain
from tuner.errors import CandidateError, DeviceError, ToolchainError, UserError
from tuner.identity import digest_of_bytes
from tuner.measure.cases import CASES_VERSION
from tuner.measure.dsp.bundle import boarding, carry, seats
from tuner.measure.dsp.shared_object import driver
from tuner.measure.dsp.turn import Called, Turn
from tuner.measure.farm.device import Batch, Device, DeviceReport, Sampled
from tuner.measure.farm.settings import HexagonSimSettings, Limits
from tuner.measure.harness import dsp_driver, dsp_harness
from tuner.measure.hexagon_sim.call import CallSettings, SimulatorCalls, remove_leftovers
from tuner.measure.hexagon_sim.sdk import SimulatorParts, find_parts
from tuner.problem.target import TARGETS, Target
from tuner.records.candidate import Fidelity

_MOST_COUNTERS = 20


def open_hexagon_sim(settings: HexagonSimSettings, name: str, limits: Limits) -> HexagonSim:
    """One slot of the simulator that a farm file's table names. Nothing is started yet."""
    return HexagonSim(settings, name, limits)


class HexagonSim(Device):
    """Runs batches of shared objects under QuRT in hexagon-sim, with timing.

    A process runs the whole batch: booting is dear. Where a candidate dies in it, those after it
    run in another. It is deterministic: repeats and references add nothing, and are not run.
    """

    kind: ClassVar[str] = "hexagon-sim"
    fidelity: ClassVar[Fidelity] = "cycle_accurate"

    def __init__(self, settings: HexagonSimSettings, name: str, limits: Limits) -> None:
        self._settings = settings
        self._name = name
        self._limits = limits
        self._calls: SimulatorCalls | None = None
        self._closed = False
        self._counters: Mapping[str, int] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def most_tasks(self) -> int:
        return self._limits.bundle

    def _parts(self) -> SimulatorParts:
        return find_parts(Path(self._settings.root).expanduser(), self._settings.arch)

    def fingerprint(self) -> Mapping[str, str]:
        parts, toolchain, arch = self._parts(), find_toolchain(), self._settings.arch
        return {
            "simulator": f"hexagon-sim {parts.version}, timing",
            "boot": digest_of_bytes(parts.boot.read_bytes())[:16],
            "loader": digest_of_bytes(parts.loader.read_bytes())[:16],
            "arch": arch,
            "harness": dsp_harness(arch).digest(toolchain)[:16],
            "driver": dsp_driver(arch).digest(toolchain)[:16],
            "linker": toolchain.version,
            "cases": CASES_VERSION,
            "cache": "warm",
        }

    def require(self, target: Target) -> None:
        if target.arch != self._settings.arch:
            raise UserError(
                f"the simulator {self._name} runs {self._settings.arch} code, not {target.name}'s",
                accepted=", ".join(
                    t.name for t in TARGETS.values() if t.arch == self._settings.arch
                ),
                next_step="name another device with --on, or choose another --target",
            )

    def probe(self, nonce: str) -> DeviceReport:
        """Nothing runs that could give a nonce back: it answers if all its parts are there."""
        try:
            parts = self._parts()
        except ToolchainError as error:
            raise DeviceError(error.message, next_step=error.next_step) from None
        return DeviceReport(details={"simulator": f"hexagon-sim {parts.version}"})

    def run(self, batch: Batch) -> list[Sampled | CandidateError | DeviceError]:
        for task in batch.tasks:
            self.require(task.problem.target)
        arch = self._settings.arch
        passengers = [boarding(task, arch, min(task.repeats, 1)) for task in batch.tasks]
        carry(
            passengers,
            lambda pending: seats(pending[: self.most_tasks], None),
            self._call,
            self._limits.task_s,
        )
        return [one.result(self._name, self.fidelity) for one in passengers]

    def _caller(self) -> SimulatorCalls:
        if self._closed:
            raise DeviceError(f"{self._name} was closed")
        if self._calls is None:
            settings = self._settings
            made = CallSettings(
                self._parts(), settings.arch, settings.stack_bytes, settings.heap_bytes
            )
            self._calls = SimulatorCalls(made, driver(settings.arch))
        return self._calls

    def _call(self, turns: Sequence[Turn]) -> Called:
        called = self._caller().call(turns, self._limits.task_s)
        self._counters = called.counters
        return called

    def noticed(self) -> Mapping[str, str]:
        """What its counters said of the latest run. They count from boot on and over the whole
        batch: nobody can book them to one candidate's cycles."""
        shown = [f"{name} {count:,}" for name, count in self._counters.items()]
        return {"PMU": ", ".join(shown[:_MOST_COUNTERS])} if shown else {}

    def clean(self) -> DeviceReport:
        """Processes end with their calls and with whoever made them; folders are left by those
        who were killed."""
        remove_leftovers()
        return self.probe("")

    def close(self) -> None:
        self._closed = True
        if self._calls is not None:
            self._calls.close()
