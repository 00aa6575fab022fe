"""Shapes of what is told about how far a best rests on assumed costs (docs/simulator.md)."""

from __future__ import annotations

from pydantic import BaseModel, Field

from tuner.search.doubt import Hinge, Rival, Robust

_UNKNOWN = "null where nothing is known."


class DoubtForm(BaseModel):
    """How the best fares where the costs that the timing model assumes are others."""

    known: bool
    reason: str = Field(
        examples=["the job has not ended"], description="Why nothing is known; else empty."
    )
    sentence: str = Field(description="All that matters, for people; empty where unknown.")
    trial: int | None = Field(None, description=f"The best. {_UNKNOWN}")
    schedules: int | None = Field(None, description=f"Different objects compared. {_UNKNOWN}")
    points: int | None = Field(None, description=f"Points of the box looked at. {_UNKNOWN}")
    costs: list[str] | None = Field(None, description=f"Those that are varied. {_UNKNOWN}")
    best_share: float | None = Field(
        None, examples=[0.83], description=f"Share of points where none is faster. {_UNKNOWN}"
    )
    near_share: float | None = Field(
        None, description=f"Share of points where the fastest saves at most 2 %. {_UNKNOWN}"
    )
    mean_loss: float | None = Field(
        None, description=f"Mean share by which it is slower than the fastest. {_UNKNOWN}"
    )
    worst_loss: float | None = Field(None, description=f"The largest. {_UNKNOWN}")
    tied: list[int] | None = Field(
        None, description=f"Trials within 2 % of it at nearly all points. {_UNKNOWN}"
    )
    rivals: list[Rival] | None = Field(
        None, description=f"Fastest at 5 % of the points or more. {_UNKNOWN}"
    )
    hinge: Hinge | None = Field(
        None, description="null: no cost alone makes it lose more than 2 %."
    )
    robust: Robust | None = Field(None, description=_UNKNOWN)


class DoubtAnswer(BaseModel):
    """The doubt about one schedule."""

    doubt: DoubtForm | None = Field(description="null: nothing is assumed.")
