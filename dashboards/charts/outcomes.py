"""Trials by outcome as one bar of adjacent pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.records.outcome import Outcome

WIDTH = 1000.0
LEAST = 4.0
"""The least width of a piece, so that one failure among thousands is visible."""


@dataclass(frozen=True)
class Piece:
    """A part of a bar, from ``x`` on; the whole bar is :data:`WIDTH` wide."""

    name: str
    amount: int
    share: float
    x: float
    width: float


def pieces_of(amounts: Mapping[str, int], least: float = LEAST) -> list[Piece]:
    """The parts of a bar of ``amounts``, in their order, without zeros."""
    shown = {name: amount for name, amount in amounts.items() if amount > 0}
    total = sum(shown.values())
    raw = {name: max(least, WIDTH * amount / total) for name, amount in shown.items()}
    scale = WIDTH / sum(raw.values()) if raw else 0.0
    pieces = []
    x = 0.0
    for name, amount in shown.items():
        width = raw[name] * scale
        pieces.append(Piece(name, amount, amount / total, round(x, 2), round(width, 2)))
        x += width
    return pieces


def outcome_strip(outcomes: Mapping[Outcome, int]) -> list[Piece]:
    """``ok`` first, then failures, most frequent first."""
    ranked = sorted(outcomes.items(), key=lambda item: (item[0] is not Outcome.OK, -item[1]))
    return pieces_of({outcome.value: amount for outcome, amount in ranked})
