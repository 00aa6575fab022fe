"""Reports of a long set-up about its steps."""

from __future__ import annotations

from typing import Protocol


class Steps(Protocol):
    """Is told what is being done."""

    def begin(self, step: str) -> None:
        """``step`` begins; the one before has ended."""

    def reached(self, percent: float) -> None:
        """That much of the step is done. Called from another thread."""
