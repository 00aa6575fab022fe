"""Answers of the routes of networks and sets."""

from __future__ import annotations

from pydantic import BaseModel, Field

from service.schemas.common import Visibility
from tuner.problem.contract import Contract
from tuner.records.batch import BatchKind


class TotalForm(BaseModel):
    """Cycles of all layers whose textbook schedule and best are both known."""

    textbook_cycles: int
    best_cycles: int
    best_lowest_cycles: int | None = Field(description="Over the timing model's plausible costs.")
    best_highest_cycles: int | None = Field(description="The most over them.")
    speedup: float | None = Field(description="Textbook over best; null while no layer has both.")
    layers: int = Field(description="Layers that count, each as often as it is called.")
    layers_of_set: int


class NetworkForm(BaseModel):
    """The jobs of a network or set as one."""

    batch: str = Field(examples=["1rt4dqb5ef"], description="Its id.")
    kind: BatchKind
    name: str = Field(examples=["mobilenet_v2"], description="Empty if it was given none.")
    state: str = Field(
        examples=["running"],
        description="While jobs are open, the liveliest of running, interrupted, queued and "
        "paused; then done, cancelled or failed.",
    )
    job_count: int
    jobs_by_state: dict[str, int] = Field(
        examples=[{"done": 36, "running": 1}],
        description="Jobs that the budget did not reach are `not reached` here, and `cancelled` "
        "by themselves.",
    )
    finished: int = Field(description="Trials of every outcome.")
    ok: int = Field(description="Trials with a measurement.")
    pending: int = Field(description="Trials handed out and not finished.")
    total: TotalForm
    budget: dict[str, int | float | None] = Field(
        examples=[{"trials": 370, "seconds": None}],
        description="Of all jobs together; both null if each job has its own.",
    )
    created_at: float = Field(examples=[1.8e9], description="Unix seconds.")
    user: str = Field(examples=["ann"], description="User who submitted it; empty: this machine.")
    owner: str = Field(examples=["ann"], description="Its owner; empty: this machine.")
    visibility: Visibility
    priority: int


class MemberForm(BaseModel):
    """A job of a network or set."""

    job: str
    state: str
    kernel: str
    params: dict[str, int]
    contract: Contract
    target: str
    layers: list[str] = Field(description="The layers it is for, once for each call.")
    occurrences: int
    finished: int
    textbook_cycles: int | None
    best_cycles: int | None


class LayerForm(BaseModel):
    """A layer of a network, or all layers of one job of a set. Cycles are those of all calls."""

    name: str
    operator: str | None = Field(description="null in a set.")
    kernel: str | None = Field(description="null: no kernel has its shape.")
    calls: int
    macs: int | None = Field(description="Multiply-accumulates; null in a set.")
    share_of_macs: float | None
    steps_apart: int | None = Field(
        description="How far the kernel is from the layer at most; null: it does not take its "
        "numbers, or this is a set."
    )
    on_host: bool
    note: str
    reads: list[int] = Field(
        description="Positions of the layers whose outputs it reads; empty in a set."
    )
    output_bytes: int | None = Field(description="Bytes of its outputs; null in a set.")
    within: str = Field(description="The layer in whose call it is done; empty: in its own.")
    job: str | None
    textbook_cycles: int | None
    best_cycles: int | None
    share: float | None = Field(description="Of the best cycles of all layers.")
    speedup: float | None
    left_cycles: int | None = Field(description="Estimate of what more search could save at most.")


class NextForm(BaseModel):
    """The job whose next trials are expected to save most."""

    job: str
    kernel: str
    params: dict[str, int]
    contract: Contract
    target: str
    layers: list[str]
    left_cycles: int | None = Field(description="null: it has no valid schedule yet.")


class NetworkDetail(NetworkForm):
    """A network or set by itself."""

    jobs: list[MemberForm]
    layers: list[LayerForm]
    next: NextForm | None = Field(description="null: the estimate leaves nothing to gain.")
