"""The embedded simulator: qemu-hexagon with a timing model, for every machine without hardware."""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tuner.codegen.toolchain import find_toolchain
from tuner.errors import ToolchainError, UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import find_kernel
from tuner.kernels.kernel import Array
from tuner.kernels.sources import canonical_python
from tuner.measure.cases import CASES_VERSION, CaseSet, case_of, far_cases_of
from tuner.measure.harness import linux_user_harness
from tuner.measure.image import ImageCache, image_of
from tuner.measure.measurer import Measurer, Timed
from tuner.measure.qemu.condensed import condensed
from tuner.measure.qemu.model import find_model
from tuner.measure.qemu.session import Orders
from tuner.measure.qemu.simulation import Runs, Simulation, simulate
from tuner.measure.qemu.simulator import PLUGIN, find_simulator
from tuner.measure.qemu.sources import buildable_archs
from tuner.measure.qemu.uncertain import plausible_cycles
from tuner.problem.objectives import OBJECTIVES
from tuner.problem.target import TARGETS, Target
from tuner.records.candidate import (
    CACHE_STATES,
    Artifact,
    CacheState,
    Fidelity,
    Measurement,
    Problem,
)

if TYPE_CHECKING:
    from tuner.measure.explanation import Explanation

_NAMED_ARCH = "v66"
"""The arch whose harness and rules the fingerprint names: those of others change with them."""
_RULES = ("cycles.py", "events.py", "model.py", "simulation.py")
"""The code here that makes cycles of what the plugin counted."""
NEEDED_ADDRESSES = 6 << 30
"""Of memory that a limit must leave: QEMU reserves all 4 GiB that its guest could address."""
TIMEOUT_S = 60.0
"""Wall time of one run of all cases."""


@cache
def _rules_digest() -> str:
    """Names that code, without its comments and layout."""
    here = Path(__file__).parent
    code = [canonical_python((here / name).read_bytes()) for name in _RULES]
    return digest_of_bytes("\0".join(code).encode())[:16]


class QemuMeasurer(Measurer):
    """Runs candidates under qemu-hexagon and times them with the in-order pipeline model.

    Deterministic: the same object gives the same cycles everywhere. ``cache`` says in which state
    caches are when the timed call begins: ``warm``, as the same call before left them, or
    ``cold``, empty. ``timeout_s`` bounds the wall time of one run.
    """

    name: ClassVar[str] = "qemu"
    fidelity: Fidelity = "model"
    counted = frozenset(OBJECTIVES)

    def __init__(self, *, cache: CacheState = "warm", timeout_s: float = TIMEOUT_S) -> None:
        if cache not in CACHE_STATES:
            raise UserError(f"cache '{cache}'", accepted=", ".join(CACHE_STATES))
        self._cache: CacheState = cache
        self._timeout_s = timeout_s
        self._runs = Runs()
        self._images = ImageCache()

    def fingerprint(self) -> Mapping[str, str]:
        toolchain = find_toolchain()
        return {
            "simulator": find_simulator().version,
            "plugin": PLUGIN.digest(toolchain)[:16],
            "harness": linux_user_harness(_NAMED_ARCH).digest(toolchain)[:16],
            "timing model": find_model(_NAMED_ARCH).digest[:16],
            "timing rules": _rules_digest(),
            "cache": self._cache,
            "linker": toolchain.version,
            "cases": CASES_VERSION,
        }

    def require(self, target: Target) -> None:
        simulator = find_simulator()
        if simulator.runs(target.arch):
            return
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY and not simulator.runs(_NAMED_ARCH):
            raise ToolchainError(
                f"the embedded simulator does not run within {limit:,} bytes, the limit of memory",
                accepted=f"no limit, or {NEEDED_ADDRESSES >> 30} GiB or more",
                next_step="run `ulimit -v unlimited`, or raise the limit of the service's unit",
            )
        release = ".".join(map(str, simulator.release))
        instead = (
            f"run `hvxtune setup --target {target.arch}`, which builds a newer one"
            if target.arch in buildable_archs()
            else "measure with Qualcomm's simulator or a phone: no QEMU built here runs it"
        )
        raise UserError(
            f"the embedded simulator (QEMU {release}) cannot run {target.arch} code",
            accepted=", ".join(t.name for t in TARGETS.values() if simulator.runs(t.arch)),
            next_step=f"{instead}, or choose another target",
        )

    def measure(
        self, problem: Problem, artifact: Artifact, *, budget_cycles: int | None = None
    ) -> Timed:
        simulation = self.simulate(problem, artifact, budget_cycles=budget_cycles)
        return Timed(self._measurement(problem, simulation), simulation.link_s, simulation.run_s)

    def _measurement(self, problem: Problem, simulation: Simulation) -> Measurement:
        timing, target = simulation.timing, problem.target
        costs = find_model(target.arch).parameters
        events = condensed(timing.events, costs, target.hvx_contexts)
        plausible = plausible_cycles(events, target.arch, target.hvx_contexts)
        return Measurement(
            cycles=timing.cycles,
            core_cycles=timing.core_cycles,
            packets=timing.packets,
            stalls=max(timing.cycles - timing.packets, 0),
            verified=True,
            fidelity=self.fidelity,
            device=self.name,
            samples=(timing.cycles,),
            breakdown=timing.breakdown,
            code_bytes=simulation.code_bytes,
            cache=self._cache,
            vtcm_bytes=simulation.results.vtcm_used_bytes,
            ddr_bytes=timing.ddr_bytes,
            expected_cycles=plausible.expected,
            lowest_cycles=plausible.lowest,
            highest_cycles=plausible.highest,
            event_counts=events.as_dict(),
        )

    def simulate(
        self,
        problem: Problem,
        artifact: Artifact,
        *,
        budget_cycles: int | None = None,
        keep_text: bool = False,
    ) -> Simulation:
        """As :meth:`measure`, but gives all that was counted: events, blocks, packets.

        ``keep_text`` keeps the disassembly of each packet. Raises as :meth:`measure` does.
        """
        self.require(problem.target)
        orders = Orders(
            find_model(problem.target.arch),
            problem.target,
            caches=self._cache,
            timed_cycles=budget_cycles or 0,
            cpu_seconds=int(self._timeout_s) + 1,
            keep_text=keep_text,
        )
        image = self._images.of(problem, practice_calls=orders.timed_call - 1)
        return simulate(artifact, image, orders, self._timeout_s, self._runs)

    def confirm(self, problem: Problem, artifact: Artifact) -> None:
        image = self._images.of(problem, cases=far_cases_of)
        if not image.calls:
            return
        orders = Orders(
            find_model(problem.target.arch),
            problem.target,
            caches="none",
            untimed_slack=1 << 40,  # these calls differ in size: time limits them
            cpu_seconds=int(self._timeout_s) + 1,
        )
        simulate(artifact, image, orders, self._timeout_s, self._runs)

    def measure_on(self, problem: Problem, artifact: Artifact, inputs: Sequence[Array]) -> Timed:
        """Runs ``artifact`` on one call with ``inputs``, in the order of the kernel's buffers, and
        times it. Its outputs are then those of the kernel's reference: every byte is compared.

        Raises as :meth:`measure` does.
        """
        self.require(problem.target)
        kernel, params = find_kernel(problem.workload.kernel), problem.workload.params
        elements = [*inputs, *kernel.reference(params, inputs)]
        specs, scalars = kernel.buffers(params), kernel.scalars(params)
        case = case_of("given values", specs, elements, problem.contract, problem.target, scalars)
        orders = Orders(
            find_model(problem.target.arch),
            problem.target,
            caches=self._cache,
            cpu_seconds=int(self._timeout_s) + 1,
        )
        cases = CaseSet((replace(case, poison=1),))
        image = image_of(cases, problem.target, practice_calls=orders.timed_call - 1)
        simulation = simulate(artifact, image, orders, self._timeout_s, self._runs)
        return Timed(self._measurement(problem, simulation), simulation.link_s, simulation.run_s)

    def explain(self, problem: Problem, artifact: Artifact) -> Explanation:
        from tuner.measure.qemu.explain import explanation_of

        simulation = self.simulate(problem, artifact, keep_text=True)
        measurement = self._measurement(problem, simulation)
        return explanation_of(problem, measurement, simulation, find_model(problem.target.arch))

    def close(self) -> None:
        self._runs.end()
        self._images.clear()
