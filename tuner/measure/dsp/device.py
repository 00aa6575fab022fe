"""A real DSP as a device, whatever way a call takes to it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from tuner.codegen.toolchain import find_toolchain
from tuner.errors import InternalError, UserError
from tuner.measure.cases import CASES_VERSION
from tuner.measure.device import (
    Bundle,
    BundleEntry,
    Device,
    DeviceSettings,
    Limits,
    RunResult,
    targets_of,
)
from tuner.measure.dsp.bundle import PackedEntry, pack, run_packed, slots_of
from tuner.measure.dsp.queue import CallResult, QueuedRun
from tuner.measure.harness import dsp_driver, dsp_harness
from tuner.problem.target import Target


class DspDevice(Device):
    """Runs bundles of shared objects by the driver (harness/dsp_driver.c), which loads them.

    A subclass brings :meth:`call`, the way of one call to the DSP and back; packing, references,
    candidates that die and verification are here. Where runs are all alike (every fidelity but
    ``hardware``), repeats and references add nothing and are not run.
    """

    soc: str = ""
    """The SoC it is part of, if code for one SoC alone may run on it."""

    def __init__(self, settings: DeviceSettings, name: str, limits: Limits) -> None:
        super().__init__(settings, name, limits)
        self._arch = settings.arch

    @abstractmethod
    def call(self, runs: Sequence[QueuedRun]) -> CallResult:
        """Takes ``runs`` to the DSP, runs the driver on them once, and brings back what it wrote.

        Each run may take ``task_s`` of the limits. ``DeviceError`` if the device or the way to it
        failed: then no run counts. Nothing of the call is left there.
        """

    @property
    def max_entries(self) -> int:
        return self._limits.bundle

    def require(self, target: Target) -> None:
        if target.arch == self._arch and target.soc in (None, self.soc or None):
            return
        runs = " ".join(filter(None, (self._arch, self.soc)))
        raise UserError(
            f"{self.kind} {self.name} ({runs}) cannot run code for {target.name}",
            accepted=targets_of(self._arch, self.soc),
            next_step="choose another device, or another target",
        )

    def harness_fingerprint(self) -> Mapping[str, str]:
        """The part of the fingerprint that this machine decides."""
        toolchain = find_toolchain()
        return {
            "harness": dsp_harness(self._arch).digest(toolchain)[:16],
            "driver": dsp_driver(self._arch).digest(toolchain)[:16],
            "linker": toolchain.version,
            "cases": CASES_VERSION,
            "cache": "warm",
        }

    def run(self, bundle: Bundle) -> list[RunResult]:
        packed = [self._packed(entry) for entry in bundle.entries]
        reference = self._reference(bundle)
        run_packed(
            packed,
            lambda pending: slots_of(self.fitting(pending, reference), reference),
            self.call,
            self._limits.task_s,
        )
        return [one.result(self.name, self.fidelity) for one in packed]

    def fitting(
        self, pending: Sequence[PackedEntry], reference: QueuedRun | None
    ) -> Sequence[PackedEntry]:
        """Those of ``pending``, at least the first, that may share a call with ``reference``."""
        return pending[: self.max_entries]

    def _packed(self, entry: BundleEntry) -> PackedEntry:
        self.require(entry.problem.target)
        noisy = self.fidelity == "hardware"
        return pack(entry, self._arch, entry.repeats if noisy else min(entry.repeats, 1))

    def _reference(self, bundle: Bundle) -> QueuedRun | None:
        if bundle.reference is None or self.fidelity != "hardware":
            return None
        packed = self._packed(bundle.reference)
        if packed.run is None:
            raise InternalError(f"the reference candidate cannot be run: {packed.error}")
        return packed.run
