"""Qualcomm's simulator as a measurer, without a farm: one process at a time and thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import ClassVar

from tuner.errors import CandidateError, DeviceError, ToolchainError, UserError
from tuner.measure.farm.device import Batch, Task
from tuner.measure.farm.settings import HexagonSimSettings, Limits
from tuner.measure.hexagon_sim.device import HexagonSim
from tuner.measure.hexagon_sim.sdk import SDK_VARIABLES, archs_of, find_parts, sdk_root
from tuner.measure.measurer import Measurer, Timed
from tuner.problem.target import TARGETS, Target
from tuner.records.candidate import Artifact, CacheState, Fidelity, Problem

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
                "of which arch Qualcomm's simulator is to be is not known yet",
                next_step="ask it whether it can run a target first",
            )
        return self._device(self._arch).fingerprint()

    def require(self, target: Target) -> None:
        root = sdk_root()
        if root is None:
            raise UserError(
                f"no Hexagon SDK is named, which Qualcomm's simulator for {target.arch} is part of",
                accepted=f"its folder in {SDK_VARIABLES[0]}",
                next_step="install the SDK and set it; `hvxtune doctor` says what is missing",
            )
        try:
            find_parts(root, target.arch)
        except ToolchainError as error:
            archs = archs_of(root)
            runnable = [known.name for known in TARGETS.values() if known.arch in archs]
            raise UserError(
                f"Qualcomm's simulator cannot run {target.arch} code: {error.message}",
                accepted=", ".join(runnable) or "no target with what is installed",
                next_step=error.next_step,
            ) from None
        self._arch = target.arch

    def _device(self, arch: str) -> HexagonSim:
        root = sdk_root()
        settings = HexagonSimSettings(self.name, "" if root is None else str(root), arch)
        return HexagonSim(settings, self.name, self._limits)

    def measure(
        self, problem: Problem, artifact: Artifact, *, budget_cycles: int | None = None
    ) -> Timed:
        self.require(problem.target)
        device = self._device(problem.target.arch)
        with self._lock:
            if self._closed:
                raise DeviceError("the measurer was closed")
            self._open.add(device)
        try:
            (found,) = device.run(Batch([Task(problem, artifact, budget_cycles=budget_cycles)]))
        finally:
            with self._lock:
                self._open.discard(device)
        if isinstance(found, CandidateError | DeviceError):
            raise found
        return Timed(found.measurement, found.link_s, found.run_s)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            running = list(self._open)
        for device in running:
            device.close()
