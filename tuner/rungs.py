"""What may stand above what on the ladder of fidelity."""

from __future__ import annotations

from tuner.candidate import FIDELITIES
from tuner.errors import UserError
from tuner.measure import FARM, measurer_names
from tuner.measure.measurer import Measurer
from tuner.promotion import MOST_PROMOTIONS


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
