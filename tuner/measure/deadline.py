"""A measurer that can be told to give up what it is running, without blame for the candidate."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from tuner.errors import HvxtuneError, OutOfTimeError
from tuner.measure.measurer import Measurer, Timed

if TYPE_CHECKING:
    from tuner.problem.target import Target
    from tuner.records.candidate import Artifact, Problem


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
        if self._abandoned.is_set():
            raise OutOfTimeError("abandoned before it was run")
        try:
            return self._inner.measure(problem, artifact, budget_cycles=budget_cycles)
        except HvxtuneError:
            if self._abandoned.is_set():  # whatever it looks like: the run was killed
                raise OutOfTimeError("abandoned while it ran") from None
            raise

    def close(self) -> None:
        self._inner.close()
