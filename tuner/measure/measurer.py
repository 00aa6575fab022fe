"""The contract of a measurer."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from tuner.errors import HvxtuneError, OutOfTimeError, UserError
from tuner.problem.target import Target
from tuner.records.candidate import Artifact, CacheState, Fidelity, Measurement, Problem

if TYPE_CHECKING:
    from tuner.measure.explanation import Explanation
    from tuner.measure.farm.roster import Roster
    from tuner.problem.target import Target
    from tuner.records.candidate import Artifact, Problem


DEVICE_ATTEMPTS = 3
"""Attempts on any devices before a candidate's outcome is ``device_error``."""


@dataclass(frozen=True)
class Timed:
    """A measurement with the wall seconds its parts took, for the overhead report."""

    measurement: Measurement
    link_s: float
    run_s: float


@dataclass(frozen=True)
class DeviceAccess:
    """Which devices a measurer may use, and with whom it shares them.

    ``on`` are tags with commas between; a device must have all (empty: all devices). ``roster`` is
    shared by all who use the devices; without one, nobody else may. ``holder`` tells people who
    uses them.
    """

    on: str = ""
    roster: Roster | None = None
    holder: str = ""


ALL_DEVICES = DeviceAccess()
"""Every device, shared with nobody."""


class Measurer(ABC):
    """Runs artifacts, checks every output against the reference, and times them.

    One instance serves several threads at once. The instance owns its processes and files;
    :meth:`close` ends and removes them. A candidate is untrusted: whatever it does must end as a
    :class:`Timed` value or a ``CandidateError``, and never as a wrong number.
    """

    name: ClassVar[str]
    uses_devices: ClassVar[bool] = False
    """Whether its constructor also takes ``access``, a :class:`DeviceAccess`."""
    fidelity: Fidelity
    counted: frozenset[str] = frozenset({"cycles", "code_bytes"})
    """The objectives (:data:`tuner.problem.objectives.OBJECTIVES`) that each of its measurements
    counts."""

    @abstractmethod
    def __init__(self, *, cache: CacheState = "warm") -> None:
        """``cache`` is the condition to measure under; ``UserError`` if it is not available here.

        Cheap: starts no process.
        """

    @abstractmethod
    def fingerprint(self) -> Mapping[str, str]:
        """Versions and parameters of everything that decides the numbers.

        Raises ``ToolchainError`` if a part is missing, naming the command that installs it.
        """

    @abstractmethod
    def require(self, target: Target) -> None:
        """Raises ``UserError`` if code for ``target`` cannot run here, naming what can."""

    @abstractmethod
    def measure(
        self, problem: Problem, artifact: Artifact, *, budget_cycles: int | None = None
    ) -> Timed:
        """Runs ``artifact`` on every verification case of ``problem`` and times the first.

        ``budget_cycles`` is the early-termination budget: once the timed call certainly needs
        more, it is stopped. Raises ``CandidateError`` with outcome ``infeasible``, ``cutoff``,
        ``timeout``, ``wrong_output`` or ``run_error``; ``DeviceError`` if the device failed;
        ``ToolchainError`` if the installation is broken.
        """

    def confirm(self, problem: Problem, artifact: Artifact) -> None:
        """Runs ``artifact``, which :meth:`measure` found right, on cases that take too long to run
        for each candidate (:func:`tuner.measure.cases.far_cases_of`). Raises as :meth:`measure`.

        By default it runs nothing.
        """
        del problem, artifact

    def useful_workers(self) -> int | None:
        """How many candidates in flight keep it busy; ``None`` for one a processor."""
        return None

    def explain(self, problem: Problem, artifact: Artifact) -> Explanation:
        """Runs ``artifact`` like :meth:`measure` and says where the cycles of that run go.

        Raises what :meth:`measure` raises, and ``UserError`` if this measurer cannot look inside
        a run.
        """
        raise UserError(
            f"measurer '{self.name}' cannot tell where cycles go",
            next_step="use one that can, such as qemu",
        )

    @abstractmethod
    def close(self) -> None:
        """Ends processes and removes temporary files. Safe to call twice, and from another thread:
        a call under way then raises ``DeviceError``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AbandonableMeasurer(Measurer):
    """Measures with ``inner``, which it owns, until :meth:`abandon`."""

    name: ClassVar[str] = "abandonable"

    def __init__(self, inner: Measurer) -> None:
        self._inner = inner
        self._abandoned = threading.Event()
        self.fidelity = inner.fidelity
        self.counted = inner.counted

    def abandon(self) -> None:
        """Ends runs under way: these calls, and all that follow, raise ``OutOfTimeError``."""
        self._abandoned.set()
        self._inner.close()

    def fingerprint(self) -> Mapping[str, str]:
        return self._inner.fingerprint()

    def require(self, target: Target) -> None:
        self._inner.require(target)

    def useful_workers(self) -> int | None:
        return self._inner.useful_workers()

    def measure(
        self, problem: Problem, artifact: Artifact, *, budget_cycles: int | None = None
    ) -> Timed:
        with self._unless_abandoned():
            return self._inner.measure(problem, artifact, budget_cycles=budget_cycles)

    def confirm(self, problem: Problem, artifact: Artifact) -> None:
        with self._unless_abandoned():
            self._inner.confirm(problem, artifact)

    @contextmanager
    def _unless_abandoned(self) -> Iterator[None]:
        if self._abandoned.is_set():
            raise OutOfTimeError("abandoned before it was run")
        try:
            yield
        except HvxtuneError:
            if self._abandoned.is_set():  # whatever it looks like: the run was killed
                raise OutOfTimeError("abandoned while it ran") from None
            raise

    def close(self) -> None:
        self._inner.close()
