"""Set-up whose steps nobody watches."""

from __future__ import annotations


class Silent:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.percents: list[float] = []

    def begin(self, step: str) -> None:
        """A step."""
        self.begun.append(step)

    def reached(self, percent: float) -> None:
        """Its download."""
        self.percents.append(percent)
