"""A network or set as pages show it."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.batch_progress import BatchProgress, Totals
from tuner.records.batch import Batch


@dataclass(frozen=True)
class NetworkView:
    """The state of a network or set, and what can be asked of it."""

    progress: BatchProgress

    @property
    def batch(self) -> Batch:
        """Its record."""
        return self.progress.batch

    @property
    def id(self) -> str:
        """Its id."""
        return self.batch.id

    @property
    def state(self) -> str:
        """The state in a word."""
        return self.progress.state

    @property
    def open(self) -> bool:
        """Whether a job of it can still make progress."""
        return self.progress.open

    @property
    def totals(self) -> Totals:
        """Its cycles against textbook."""
        return self.progress.totals

    @property
    def ended(self) -> int:
        """Jobs that have ended."""
        return sum(one.state.ended for one in self.progress.members)

    @property
    def share_of_budget(self) -> float | None:
        """Share of the trials of the whole that are used; ``None`` without such a budget."""
        trials = self.batch.trials
        return min(1.0, self.progress.finished / trials) if trials else None

    @property
    def actions(self) -> list[str]:
        """The actions that make sense in its state. The command that runs a set with one budget
        alone can pause it."""
        if not self.open:
            return []
        if self.batch.shares_budget:
            return ["cancel"]
        return ["resume", "cancel"] if self.state == "paused" else ["pause", "cancel"]
