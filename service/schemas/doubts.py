"""Shapes of what is told about how far a best rests on assumed costs (docs/simulator.md)."""

from __future__ import annotations

from pydantic import BaseModel, Field

_UNKNOWN = "null where nothing is known."


class RivalForm(BaseModel):
    """A trial that is the fastest somewhere."""

    trial: int
    share: float = Field(examples=[0.1], description="Of the points at which it is the fastest.")


class HingeForm(BaseModel):
    """The cost that decides more than any other, if it is varied alone."""

    cost: str = Field(examples=["l2_access"], description="As in the model's file.")
    unit: str = Field(examples=["model cycles"])
    assumed: float = Field(examples=[0.0], description="Its value in the model.")
    side: str = Field(examples=["above"], description="above or below.")
    threshold: float = Field(examples=[0.4])
    trial: int = Field(description="It is faster on that side of the threshold.")
    gain: float = Field(examples=[0.11], description="The share of cycles it saves at the bound.")


class RobustForm(BaseModel):
    """The schedule that loses least over the box."""

    trial: int
    mean_loss: float = Field(description="Mean share by which it is slower than the fastest.")
    near_share: float = Field(description="Share of points where that is at most 2 %.")
    more_cycles: float = Field(
        description="Share by which it is slower than the fastest, as assumed."
    )


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
    rivals: list[RivalForm] | None = Field(
        None, description=f"Fastest at 5 % of the points or more. {_UNKNOWN}"
    )
    hinge: HingeForm | None = Field(
        None, description="null: no cost alone makes it lose more than 2 %."
    )
    robust: RobustForm | None = Field(None, description=_UNKNOWN)


class DoubtAnswer(BaseModel):
    """The doubt about one schedule."""

    doubt: DoubtForm | None = Field(description="null: nothing is assumed.")
