"""The embedded simulator as a kind of device, and what it needs of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tuner.codegen.requirements import SET_UP
from tuner.codegen.toolchain import built
from tuner.errors import CandidateError, DeviceError, HvxtuneError, ToolchainError
from tuner.identity import digest_of_bytes
from tuner.measure.cases import Case, CaseSet
from tuner.measure.device import (
    Bundle,
    BundleEntry,
    Confirmed,
    Device,
    DeviceReport,
    DeviceSettings,
    Limits,
    RunResult,
    Sampled,
    key,
)
from tuner.measure.finding import Finding
from tuner.measure.harness import idle_candidate
from tuner.measure.image import image_of
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.measure.qemu.model import find_model
from tuner.measure.qemu.session import Orders
from tuner.measure.qemu.simulation import simulate
from tuner.measure.qemu.simulator import find_simulator
from tuner.problem.target import BASELINE_TARGET, Target, find_target
from tuner.records.candidate import Artifact, Fidelity

LAYERS = {
    1 << 0: "resource limits",
    1 << 1: "no network",
    1 << 2: "no privileges",
    1 << 3: "an empty root directory",
    1 << 4: "landlock",
    1 << 5: "seccomp",
}
"""``enum sandbox_layer`` of plugin/sandbox.h, for people. They stand behind a first wall that is
always there: the plugin ends a run at the candidate's first system call."""
_EXAMINE_S = 20.0


@dataclass(frozen=True, kw_only=True)
class SimulatorSettings(DeviceSettings):
    """Slots of the embedded simulator."""

    arch: str = key("v66", "a tag; a slot runs all archs that its QEMU knows")
    slots: int = key(1, "devices NAME-1, NAME-2 and so on", 1, 256)  # type: ignore[misc] # a constant in other kinds


class SimulatorSlot(Device):
    """qemu-hexagon with its timing model. It keeps nothing between runs: each starts a process of
    its own, which its time limit ends. Repeats and references add nothing, as runs are alike."""

    kind: ClassVar[str] = "simulator"
    fidelity: ClassVar[Fidelity] = "model"
    Settings: ClassVar[type[DeviceSettings]] = SimulatorSettings
    is_local: ClassVar[bool] = True

    def __init__(self, settings: SimulatorSettings, name: str, limits: Limits) -> None:
        super().__init__(settings, name, limits)
        self._measurer = QemuMeasurer(timeout_s=limits.task_s)
        self._closed = False

    @classmethod
    def doctor(cls) -> Sequence[Finding]:
        return (_program(), _containment())

    def fingerprint(self) -> Mapping[str, str]:
        return self._measurer.fingerprint()

    def require(self, target: Target) -> None:
        self._measurer.require(target)

    def probe(self, nonce: str) -> DeviceReport:
        """Nothing runs that could give a nonce back: it answers if its program is found and loads
        plugins."""
        try:
            return DeviceReport(details={"simulator": find_simulator().version})
        except ToolchainError as error:
            raise DeviceError(error.message, next_step=error.next_step) from None

    def run(self, bundle: Bundle) -> list[RunResult]:
        return [self._run(entry) for entry in bundle.entries]

    def _run(self, entry: BundleEntry) -> RunResult:
        if self._closed:
            raise DeviceError(f"{self.name} was closed")
        try:
            if entry.is_far:
                self._measurer.confirm(entry.problem, entry.artifact)
                return Confirmed()
            timed = self._measurer.measure(
                entry.problem, entry.artifact, budget_cycles=entry.budget_cycles
            )
        except (CandidateError, DeviceError) as error:
            if self._closed:
                raise DeviceError(f"{self.name} was closed during a call") from None
            return error
        measured = replace(timed.measurement, device=self.name)
        return Sampled(measured, link_s=timed.link_s, run_s=timed.run_s)

    def clean(self) -> DeviceReport:
        return self.probe("")

    def close(self) -> None:
        self._closed = True
        self._measurer.close()


def _program() -> Finding:
    purpose = "running, checking and timing candidates"
    try:
        simulator = find_simulator()
    except HvxtuneError as error:
        return Finding("qemu-hexagon", False, error.message, purpose, error.next_step)
    found = f"{simulator.version}, loads plugins ({simulator.command[-1]})"
    return Finding("qemu-hexagon", True, found, purpose, SET_UP)


def _containment() -> Finding:
    """Runs a candidate that does nothing and asks which layers were around it."""
    try:
        active, refused = layers_of(sandbox_bits())
    except HvxtuneError as error:
        present, found = False, error.message
    else:
        present = not refused
        found = ", ".join(active) + (f"; refused here: {', '.join(refused)}" if refused else "")
    return Finding(
        "containment",
        present,
        found,
        "keeping candidates away from files, processes and the network",
        "Linux 5.13 or newer with landlock and CONFIG_SECCOMP_FILTER; for the network, sysctl "
        "kernel.unprivileged_userns_clone=1 and, on Ubuntu, "
        "kernel.apparmor_restrict_unprivileged_userns=0",
        required=False,
    )


def layers_of(bits: int) -> tuple[list[str], list[str]]:
    """The layers that are in place, and those this machine refuses, by ``Results.sandbox_layers``
    of a run."""
    active = [name for bit, name in LAYERS.items() if bits & bit]
    return active, [name for name in LAYERS.values() if name not in active]


def sandbox_bits() -> int:
    """The bits of :data:`LAYERS` that are in place on this machine. Measurements depend on none.

    Raises ``ToolchainError`` without a simulator, ``DeviceError`` if the simulator fails.
    """
    target = find_target(BASELINE_TARGET)
    data = built(idle_candidate(target.arch)).read_bytes()
    artifact = Artifact(digest_of_bytes(data), "hvxtune_nothing", {"object": data})
    orders = Orders(find_model(target.arch), target)
    image = image_of(
        CaseSet((Case("no buffers", ()),)), target, practice_calls=orders.timed_call - 1
    )
    return simulate(artifact, image, orders, _EXAMINE_S).results.sandbox_layers
