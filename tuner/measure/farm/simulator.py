"""The embedded simulator as a device: one slot, one candidate at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from tuner.errors import CandidateError, DeviceError, ToolchainError
from tuner.measure.farm.device import Batch, Device, DeviceReport, Sampled, Task
from tuner.measure.farm.settings import Limits, SimulatorSettings
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.measure.qemu.simulator import find_simulator
from tuner.problem.target import Target
from tuner.records.candidate import Fidelity


def open_simulator(settings: SimulatorSettings, name: str, limits: Limits) -> SimulatorDevice:
    """One slot of the embedded simulator."""
    return SimulatorDevice(name, timeout_s=limits.task_s)


class SimulatorDevice(Device):
    """qemu-hexagon with its timing model. It keeps nothing between runs: each starts a process of
    its own, which its time limit ends. Repeats and references add nothing, as runs are alike."""

    kind: ClassVar[str] = "simulator"
    fidelity: ClassVar[Fidelity] = "model"

    def __init__(self, name: str, *, timeout_s: float) -> None:
        self._name = name
        self._measurer = QemuMeasurer(timeout_s=timeout_s)
        self._closed = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def most_tasks(self) -> int:
        return 1

    def fingerprint(self) -> Mapping[str, str]:
        return self._measurer.fingerprint()

    def require(self, target: Target) -> None:
        self._measurer.require(target)

    def probe(self, nonce: str) -> DeviceReport:
        """There is nothing that could give a nonce back: it answers if its program is found and
        loads plugins."""
        try:
            return DeviceReport(details={"simulator": find_simulator().version})
        except ToolchainError as error:
            raise DeviceError(error.message, next_step=error.next_step) from None

    def run(self, batch: Batch) -> list[Sampled | CandidateError | DeviceError]:
        return [self._run(task) for task in batch.tasks]

    def _run(self, task: Task) -> Sampled | CandidateError | DeviceError:
        if self._closed:
            raise DeviceError(f"{self._name} was closed")
        try:
            timed = self._measurer.measure(
                task.problem, task.artifact, budget_cycles=task.budget_cycles
            )
        except (CandidateError, DeviceError) as error:
            if self._closed:
                raise DeviceError(f"{self._name} was closed during a call") from None
            return error
        measured = replace(timed.measurement, device=self._name)
        return Sampled(measured, link_s=timed.link_s, run_s=timed.run_s)

    def clean(self) -> DeviceReport:
        return self.probe("")

    def close(self) -> None:
        self._closed = True
        self._measurer.close()
