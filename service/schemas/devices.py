"""Bodies and answers of the device routes."""

from __future__ import annotations

from pydantic import BaseModel, Field

from service.schemas.common import PageQuery, Strict
from tuner.measure.farm.roster import DeviceState, Purpose
from tuner.records.candidate import Fidelity


class LeaseForm(BaseModel):
    """The current holder of a device."""

    holder: str = Field(examples=["job 1rt4dqb5ef on lab7"])
    purpose: Purpose
    expires_at: float = Field(description="Unix seconds; renewed while it is used.")


class DeviceForm(BaseModel):
    """A device of the farm."""

    name: str = Field(examples=["pixel-3"])
    kind: str = Field(examples=["phone"], description="simulator, hexagon-sim or phone.")
    fidelity: Fidelity
    tags: list[str] = Field(examples=[["v68", "sm8350", "lab-2"]])
    state: DeviceState
    reason: str = Field(description="Why it is in that state.")
    since: float = Field(description="Unix seconds.")
    lease: LeaseForm | None
    temperature_c: float | None = Field(description="The hottest sensor, when last looked at.")
    trials: int = Field(description="Candidates it ran fairly, good and bad.")
    faults: int = Field(description="Times it failed itself.")
    busy_s: float = Field(description="Seconds it worked.")
    trials_per_minute: float = Field(description="Over the last ten minutes.")
    failure_share: float | None = Field(description="Faults among its latest 20 runs.")
    last_check_at: float | None = Field(description="Unix seconds; null: never.")
    last_check: str = Field(examples=["passed"], description="`passed`, or what failed.")
    gold_cycles: int | None = Field(description="Cycles of the known candidate it is checked by.")
    details: dict[str, str] = Field(examples=[{"build": "TQ3A.230805"}])


class QueueForm(BaseModel):
    """The work that waits for the farm."""

    jobs_queued: int
    trials_pending: int = Field(description="Of jobs that run: compiled, waiting or measured now.")


class DeviceList(BaseModel):
    """All devices, by name."""

    items: list[DeviceForm]
    queue: QueueForm


class DeviceEventForm(BaseModel):
    """A change of a device's state."""

    number: int = Field(description="Rises.")
    at: float = Field(description="Unix seconds.")
    before: DeviceState | None = Field(description="null: it became known.")
    after: DeviceState
    reason: str


class DeviceEventPage(BaseModel):
    """A page of events, newest first."""

    items: list[DeviceEventForm]
    next_cursor: str | None = Field(description="For the next page; null: that was all.")


class ReasonBody(Strict):
    """Why."""

    reason: str = Field("", max_length=500, examples=["new battery"])


class DeviceEventsQuery(PageQuery):
    """Which page of the events."""
