"""Qualcomm's simulator: a kind of device, and a measurer that needs no farm."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tuner.errors import CandidateError, DeviceError, ToolchainError, UserError
from tuner.measure.cases import far_shapes_of
from tuner.measure.device import (
    Bundle,
    BundleEntry,
    Confirmed,
    DeviceReport,
    DeviceSettings,
    Limits,
    Sampled,
    about,
    key,
)
from tuner.measure.dsp.bundle import PackedEntry
from tuner.measure.dsp.device import DspDevice
from tuner.measure.dsp.queue import CallResult, QueuedRun
from tuner.measure.dsp.sdk import (
    SDK_VARIABLES,
    archs_of,
    find_parts,
    locate,
    sdk_root,
)
from tuner.measure.finding import Finding
from tuner.measure.hexagon_sim.call import Form, SimulatorCalls, remove_leftovers
from tuner.measure.hexagon_sim.qurt import QurtForm
from tuner.measure.hexagon_sim.standalone import (
    StandaloneForm,
    StandaloneTools,
    require_tools,
    tools_at,
)
from tuner.measure.measurer import Measurer, Timed
from tuner.problem.target import BASELINE_TARGET, TARGETS, Target, find_target
from tuner.records.candidate import Artifact, CacheState, Fidelity, Problem

_MOST_COUNTERS = 20


@dataclass(frozen=True, kw_only=True)
class HexagonSimSettings(DeviceSettings):
    """Slots of Qualcomm's simulator."""

    root: str = field(metadata=about("the folder of the SDK, or of Qualcomm's tools alone"))
    slots: int = key(1, "devices NAME-1, NAME-2 and so on", 1, 64)  # type: ignore[misc] # a constant in other kinds
    stack_bytes: int = key(
        1 << 20, "the stack of the thread that runs candidates", 1 << 14, 1 << 28
    )
    heap_bytes: int = key(1 << 25, "the memory a candidate may allocate", 1 << 16, 1 << 30)


class HexagonSim(DspDevice):
    """Runs bundles of shared objects under QuRT in hexagon-sim, with timing.

    A process runs the whole bundle: booting takes long. Where a candidate dies in it, those after
    it run in another. It is deterministic.
    """

    kind: ClassVar[str] = "hexagon-sim"
    fidelity: ClassVar[Fidelity] = "cycle_accurate"
    Settings: ClassVar[type[DeviceSettings]] = HexagonSimSettings
    is_local: ClassVar[bool] = True

    def __init__(self, settings: HexagonSimSettings, name: str, limits: Limits) -> None:
        super().__init__(settings, name, limits)
        self._settings = settings
        self._calls: SimulatorCalls | None = None
        self._closed = False
        self._counters: Mapping[str, int] = {}

    @classmethod
    def doctor(cls) -> Sequence[Finding]:
        """Its parts in the SDK, or among the tools alone, that the environment names."""
        root, arch = sdk_root(), find_target(BASELINE_TARGET).arch
        tools = None if root is None else tools_at(root)
        if tools is not None:
            return (_standalone_finding(tools),)
        archs = set() if root is None else archs_of(root)
        if root is None:
            found = f"neither {' nor '.join(SDK_VARIABLES)} is set"
        elif archs:
            parts = find_parts(root, sorted(archs)[0])
            found = f"{parts.simulator}, for {', '.join(sorted(archs))}"
        else:
            found = f"{root} has no {' and no '.join(locate(root, arch).missing())}"
        return (
            Finding(
                "hexagon-sim",
                bool(archs),
                found,
                "measuring on Qualcomm's simulator, without a farm file",
                f"install the Hexagon SDK, or its tools alone, and set {SDK_VARIABLES[0]} to the "
                "folder; in an SDK lie " + ", ".join(locate(Path("SDK"), arch).missing()),
                required=False,
            ),
        )

    def _form(self) -> Form:
        return form_at(
            Path(self._settings.root).expanduser(), self._arch, self._settings.stack_bytes
        )

    def fingerprint(self) -> Mapping[str, str]:
        return {
            **self._form().fingerprint(),
            "arch": self._arch,
            **self.harness_fingerprint(),
        }

    def probe(self, nonce: str) -> DeviceReport:
        """Nothing runs that could give a nonce back: it answers if it has all its parts."""
        try:
            named = self._form().fingerprint()["simulator"]
        except ToolchainError as error:
            raise DeviceError(error.message, next_step=error.next_step) from None
        return DeviceReport(details={"simulator": named})

    def fitting(
        self, pending: Sequence[PackedEntry], reference: QueuedRun | None
    ) -> Sequence[PackedEntry]:
        most = self._form().most_runs
        found = super().fitting(pending, reference)
        return found[:most] if most else found

    def call(self, runs: Sequence[QueuedRun]) -> CallResult:
        if self._closed:
            raise DeviceError(f"{self.name} was closed")
        if self._calls is None:
            self._calls = SimulatorCalls(self._form(), self._settings.heap_bytes)
        called = self._calls.call(runs, self._limits.task_s)
        self._counters = called.counters
        return called

    def noticed(self) -> Mapping[str, str]:
        """Its counters of the latest run. They count from boot on and over the whole bundle:
        nobody can book them to one candidate's cycles."""
        shown = [f"{name} {count:,}" for name, count in self._counters.items()]
        return {"PMU": ", ".join(shown[:_MOST_COUNTERS])} if shown else {}

    def clean(self) -> DeviceReport:
        """Processes end with their calls and with the process that made them; a killed process
        leaves folders."""
        remove_leftovers()
        return self.probe("")

    def close(self) -> None:
        self._closed = True
        if self._calls is not None:
            self._calls.close()


def form_at(root: Path, arch: str, stack_bytes: int) -> Form:
    """How the simulator at ``root``, of an SDK or of the tools alone, runs code for ``arch``.

    ``ToolchainError`` names the first part that is not there.
    """
    tools = tools_at(root)
    if tools is None:
        return QurtForm(find_parts(root, arch), arch, stack_bytes)
    require_tools(tools, arch)
    return StandaloneForm(tools, arch)


def _standalone_finding(tools: StandaloneTools) -> Finding:
    missing = tools.missing()
    archs = ", ".join(sorted(tools.archs))
    present = bool(archs) and not missing
    found = f"{tools.simulator}, stand-alone, for {archs}: unproven, nobody has run it yet"
    return Finding(
        "hexagon-sim",
        present,
        found if present else f"{tools.root} has no {(missing or ['C library'])[0]}",
        "measuring on Qualcomm's simulator without an SDK, one candidate at a time",
        f"set {SDK_VARIABLES[0]} to the folder of complete tools, or of an SDK",
        required=False,
    )


_TIMEOUT_S = 600.0
"""Wall seconds of one candidate: the simulator runs some hundred thousand cycles a second."""


class HexagonSimMeasurer(Measurer):
    """Runs each candidate in hexagon-sim of the SDK that ``$HVXTUNE_HEXAGON_SDK`` names.

    The arch is that of the first target it is asked for. ``timeout_s`` bounds the wall time of a
    candidate.
    """

    name: ClassVar[str] = "hexagon-sim"
    fidelity: Fidelity = "cycle_accurate"

    def __init__(self, *, cache: CacheState = "warm", timeout_s: float = _TIMEOUT_S) -> None:
        if cache != "warm":
            raise UserError(
                f"cache '{cache}' on Qualcomm's simulator", accepted="warm: it keeps its caches"
            )
        self._limits = Limits(task_s=timeout_s, bundle=1)
        self._arch: str | None = None
        self._open: set[HexagonSim] = set()
        self._lock = threading.Lock()
        self._closed = False

    def fingerprint(self) -> Mapping[str, str]:
        if self._arch is None:
            raise ToolchainError(
                "the arch of Qualcomm's simulator is not chosen yet",
                next_step="ask it whether it can run a target first",
            )
        return self._device(self._arch).fingerprint()

    def require(self, target: Target) -> None:
        root = sdk_root()
        if root is None:
            raise UserError(
                f"neither a Hexagon SDK nor its tools are named: Qualcomm's simulator for "
                f"{target.arch} is part of both",
                accepted=f"the folder in {SDK_VARIABLES[0]}",
                next_step="install either and set it; `hvxtune doctor` says what is missing",
            )
        try:
            form_at(root, target.arch, 0)
        except ToolchainError as error:
            tools = tools_at(root)
            archs = archs_of(root) if tools is None else tools.archs
            runnable = [known.name for known in TARGETS.values() if known.arch in archs]
            raise UserError(
                f"Qualcomm's simulator cannot run {target.arch} code: {error.message}",
                accepted=", ".join(runnable) or "no target with what is installed",
                next_step=error.next_step,
            ) from None
        self._arch = target.arch

    def _device(self, arch: str) -> HexagonSim:
        root = sdk_root()
        settings = HexagonSimSettings(
            name=self.name, root="" if root is None else str(root), arch=arch
        )
        return HexagonSim(settings, self.name, self._limits)

    def measure(
        self, problem: Problem, artifact: Artifact, *, budget_cycles: int | None = None
    ) -> Timed:
        found = self._run(BundleEntry(problem, artifact, budget_cycles=budget_cycles))
        assert isinstance(found, Sampled)  # noqa: S101
        return Timed(found.measurement, found.link_s, found.run_s)

    def confirm(self, problem: Problem, artifact: Artifact) -> None:
        if far_shapes_of(problem):
            self._run(BundleEntry(problem, artifact, is_far=True))

    def _run(self, entry: BundleEntry) -> Sampled | Confirmed:
        target = entry.problem.target
        self.require(target)
        device = self._device(target.arch)
        with self._lock:
            if self._closed:
                raise DeviceError("the measurer was closed")
            self._open.add(device)
        try:
            (found,) = device.run(Bundle([entry]))
        finally:
            with self._lock:
                self._open.discard(device)
        if isinstance(found, CandidateError | DeviceError):
            raise found
        return found

    def close(self) -> None:
        with self._lock:
            self._closed = True
            running = list(self._open)
        for device in running:
            device.close()
