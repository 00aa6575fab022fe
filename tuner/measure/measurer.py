"""The contract of a measurer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from tuner.errors import UserError
from tuner.problem.target import Target
from tuner.records.candidate import Artifact, CacheState, Fidelity, Measurement, Problem

if TYPE_CHECKING:
    from tuner.measure.explanation import Explanation


DEVICE_ATTEMPTS = 3
"""How often a candidate is tried, on whatever devices, before its outcome is ``device_error``."""


@dataclass(frozen=True)
class Timed:
    """A measurement with the wall seconds its parts took, for the overhead report."""

    measurement: Measurement
    link_s: float
    run_s: float


class Measurer(ABC):
    """Runs artifacts, checks every output against the reference, and times them.

    One instance serves several threads at once. The instance owns its processes and files;
    :meth:`close` ends and removes them. A candidate is untrusted: whatever it does must end as a
    :class:`Timed` value or a ``CandidateError``, and never as a wrong number.
    """

    name: ClassVar[str]
    fidelity: Fidelity
    counted: frozenset[str] = frozenset({"cycles", "code_bytes"})
    """The objectives (:data:`tuner.objectives.OBJECTIVES`) that each of its measurements counts."""

    @abstractmethod
    def __init__(self, *, cache: CacheState = "warm") -> None:
        """``cache`` is the condition to measure under; ``UserError`` if it cannot be had here.

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
