"""What may stand above what on the ladder of fidelity."""

from __future__ import annotations

from tuner.errors import UserError
from tuner.measure import FARM, measurer_names
from tuner.measure.measurer import Measurer
from tuner.records.candidate import FIDELITIES, Fidelity
from tuner.records.promotion import MOST_PROMOTIONS

_REACHED_BY: dict[str, Fidelity] = {"hexagon-sim": "cycle_accurate", "phone": "hardware"}
"""Kinds of devices above the model, lowest first, and what they reach: usual ``promote_to``."""


def reaching(fidelity: Fidelity) -> list[str]:
    """The kinds to promote to for ``fidelity`` or more, lowest first; none for the model, which
    every job reaches."""
    least = FIDELITIES.index(fidelity)
    return [kind for kind, one in _REACHED_BY.items() if 0 < least <= FIDELITIES.index(one)]


def upper_of(promote_to: str) -> tuple[str, str]:
    """The measurer that ``promote_to`` means, and the tags of devices if that is a farm."""
    return (promote_to, "") if promote_to in measurer_names() else (FARM, promote_to)


def require_above(upper: Measurer, lower: Measurer, promote_to: str, promote: int) -> None:
    """``UserError`` unless ``promote`` trials measured with ``lower`` can go to ``upper``."""
    if not 1 <= promote <= MOST_PROMOTIONS:
        raise UserError(f"promote={promote}", accepted=f"1 to {MOST_PROMOTIONS}")
    higher = FIDELITIES[FIDELITIES.index(lower.fidelity) + 1 :]
    if upper.fidelity not in higher:
        raise UserError(
            f"promote_to '{promote_to}' is of fidelity {upper.fidelity}, the search of "
            f"{lower.fidelity}: nothing is gained",
            accepted=f"devices of fidelity {' or '.join(higher)}" if higher else "nothing",
        )
