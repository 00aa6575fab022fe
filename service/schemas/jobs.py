"""Bodies and queries of the job routes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from service.schemas.common import PageQuery, Strict, Visibility
from tuner.objectives import DEFAULT_OBJECTIVES, OBJECTIVES
from tuner.problem.contract import Contract
from tuner.problem.target import DEFAULT_TARGET
from tuner.records.outcome import Outcome
from tuner.records.trial import DEFAULT_PROMOTIONS, MOST_PROMOTIONS, JobState
from tuner.search.samplers import DEFAULT_FOR_SEVERAL, DEFAULT_SAMPLER

MOST_WORKLOADS = 256
LARGEST_SEED = 2**32 - 1
"""NumPy's generators, and so Optuna's samplers, take 32 bits."""
DEFAULT_TRIALS = 100

Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[ -~]+$")]
Params = dict[Name, Annotated[int, Field(ge=-(2**62), le=2**62)]]


class WorkloadBody(Strict):
    """What to tune."""

    model_config = ConfigDict(strict=True)

    kernel: Name = Field(examples=["gemm_u8"])
    params: Params = Field(default={}, examples=[{"m": 256, "n": 256, "k": 256}])


class BudgetBody(Strict):
    """When a job stops: at the first limit reached. Without any, after 100 trials."""

    model_config = ConfigDict(strict=True)

    trials: int | None = Field(default=None, ge=1, le=10_000_000, description="Of any outcome.")
    seconds: float | None = Field(
        default=None,
        gt=0,
        le=10_000_000,
        allow_inf_nan=False,
        description="Over all sessions of the job.",
    )
    patience: int | None = Field(
        default=None, ge=1, le=10_000_000, description="Trials without a better one."
    )
    until_gain: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        allow_inf_nan=False,
        description="Share of the cycles: the job stops once more search is likely worth less.",
    )


class SubmitBody(Strict):
    """One workload (`kernel`, `params`), or several (`workloads`) that become a job each."""

    model_config = ConfigDict(
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "kernel": "gemm_u8",
                    "params": {"m": 256, "n": 256, "k": 256},
                    "budget": {"trials": 100},
                },
                {
                    "workloads": [
                        {"kernel": "gemm_u8", "params": {"m": 64}},
                        {"kernel": "add_u8"},
                    ],
                    "target": "hexagon-v66",
                    "budget": {"trials": 50, "patience": 20},
                    "priority": 5,
                },
            ]
        },
    )

    kernel: Name | None = Field(None, description="`GET /v1/kernels` lists them.")
    params: Params | None = Field(None, description="Those left out have the kernel's defaults.")
    workloads: list[WorkloadBody] | None = Field(None, min_length=1, max_length=MOST_WORKLOADS)
    target: Name = Field(DEFAULT_TARGET, description="`GET /v1/targets` lists them.")
    contract: Name = Field(
        "static",
        description="What callers promise about their buffers: none, host, stride, extent, static.",
    )
    cache: Literal["warm", "cold"] = Field(
        "warm", description="State of the caches when the timed call begins."
    )
    budget: BudgetBody = BudgetBody()
    goals: list[Name] = Field(
        list(DEFAULT_OBJECTIVES),
        min_length=1,
        max_length=len(OBJECTIVES),
        description=f"What is to be small, of {', '.join(OBJECTIVES)}; cycles are always among them.",
        examples=[["cycles", "code_bytes"]],
    )
    sampler: Name | None = Field(
        None,
        description="How to search; docs/search.md lists the samplers. null: "
        f"{DEFAULT_SAMPLER}, or {DEFAULT_FOR_SEVERAL} for several goals.",
    )
    transfer: bool = Field(True, description="Begin with what jobs on near problems found best.")
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Repeats a search, given one worker.")
    measurer: Name = Field(
        "qemu", description="What measures the candidates: qemu, or farm for the devices."
    )
    on: str = Field(
        "",
        max_length=200,
        pattern=r"^[A-Za-z0-9._, -]*$",
        description="Which devices of the farm: tags they must have, with commas; empty: all.",
        examples=["phone"],
    )
    promote_to: str = Field(
        "",
        max_length=200,
        pattern=r"^[A-Za-z0-9._, -]*$",
        description="Where the most promising trials are measured again: a measurer, or tags of "
        "devices of a higher fidelity; empty: nowhere.",
        examples=["phone"],
    )
    promote: int = Field(
        DEFAULT_PROMOTIONS, ge=1, le=MOST_PROMOTIONS, description="How many of them, at most."
    )
    generator: Name = Field("halide", description="What makes objects of them.")
    workers: int | None = Field(
        None, ge=1, le=256, description="Candidates in flight; null for the service's setting."
    )
    priority: int = Field(0, ge=-100, le=100, description="Higher goes first.")
    visibility: Visibility | None = Field(
        None,
        description="`private`: the owner of the token alone sees the job and what comes of it."
        " null: as private as the upload that is tuned; `shared` for kernels.",
    )

    @model_validator(mode="after")
    def _one_or_many(self) -> SubmitBody:
        if (self.kernel is None) == (self.workloads is None):
            raise ValueError("give either kernel (with params) or workloads")
        if self.workloads is not None and self.params is not None:
            raise ValueError("params belong to kernel; each of workloads has its own")
        return self


class RemainingGainForm(BaseModel):
    """An estimate: shares of the cycles of the best so far."""

    expected: float = Field(examples=[0.02])
    bound: float = Field(examples=[0.05], description="At most so much, with 95 %.")


class JobForm(BaseModel):
    """A job."""

    job: str = Field(examples=["1rt4dqb5ef"], description="Its id.")
    state: JobState
    kernel: str = Field(examples=["gemm_u8"], description="Its name, which never means another.")
    display_name: str = Field(
        examples=["gemm_u8"], description="What people call it: for an upload, its given name."
    )
    params: dict[str, int] = Field(examples=[{"m": 256, "n": 256, "k": 256}])
    contract: Contract
    target: str = Field(examples=["hexagon-v66"])
    cache: str = Field(examples=["warm"])
    measurer: str = Field(examples=["qemu"])
    on: str = Field(examples=["phone"], description="Which devices of the farm; empty: all.")
    promote_to: str = Field(examples=["phone"], description="Where trials are promoted to.")
    promote: int = Field(examples=[10], description="How many are, at most.")
    goals: list[str] = Field(examples=[["cycles"]], description="What is to be small.")
    sampler: str = Field(examples=[DEFAULT_SAMPLER])
    seed: int
    workers: int
    budget: dict[str, int | float | None] = Field(
        examples=[{"trials": 100, "seconds": None, "patience": None, "until_gain": None}]
    )
    transfer: bool = Field(description="Whether it begins with what near problems' jobs found.")
    created_at: float = Field(examples=[1.8e9], description="Unix seconds.")
    spent_s: float = Field(description="Seconds of all sessions so far.")
    remaining_gain: RemainingGainForm | None = Field(
        description="What more search is likely to save; null while too little is known."
    )
    note: str = Field(description="Why it failed, stopped or waits; else empty.")
    paused: bool = Field(description="A queued job that waits until somebody resumes it.")
    user: str = Field(examples=["ann"], description="Who submitted it; empty: this machine.")
    owner: str = Field(examples=["ann"], description="Whose it is; empty: this machine.")
    visibility: Visibility
    priority: int
    batch: str | None = Field(description="Shared by jobs that were submitted together.")
    request_id: str = Field(
        examples=["5d1c0f2ab9e34c77"], description="Of the request that submitted it; else empty."
    )


class JobStandingForm(JobForm):
    """A job with its trials counted."""

    interrupted: bool = Field(description="It says running, but nobody works on it just now.")
    outcomes: dict[Outcome, int] = Field(examples=[{"ok": 95, "wrong_output": 1}])
    finished: int = Field(description="Trials of every outcome.")
    pending: int = Field(description="Trials handed out and not finished.")
    best_cycles: int | None
    default_cycles: int | None
    textbook_cycles: int | None
    share_of_peak: float | None = Field(description="By the best, of the contexts it may use.")
    rate_trials_per_s: float | None
    eta_s: float | None = Field(description="Seconds to go, while it runs.")


class TrialForm(BaseModel):
    """One candidate's way through a job."""

    model_config = ConfigDict(extra="allow")

    trial: int = Field(description="Its number in the job.")
    origin: str = Field(
        examples=[DEFAULT_SAMPLER], description="default, textbook, or the sampler."
    )
    outcome: Outcome
    config: dict[str, Any]
    cycles: int | None
    share_of_peak: float | None
    object_digest: str | None
    duplicate_of: int | None = Field(description="The trial whose object was identical.")
    error: str | None
    started_at: float = Field(description="Unix seconds.")
    finished_at: float = Field(description="Unix seconds.")
    timings: dict[str, float]


class PromotionForm(BaseModel):
    """A trial's object measured again at a higher fidelity."""

    model_config = ConfigDict(extra="allow")

    trial: int
    outcome: Outcome | None = Field(description="null while it is under way.")
    cycles: int | None
    fidelity: str | None
    device: str | None
    trial_cycles: int | None = Field(description="What the trial took where it was searched.")
    trial_fidelity: str | None
    error: str | None


class AgreementForm(BaseModel):
    """How far two fidelities agree (docs/fidelity.md)."""

    pairs: int
    factor: float | None = Field(description="Median of higher over lower cycles.")
    tau: float | None = Field(description="Kendall's tau-b of both orders.")
    fitted_tau: float | None = Field(description="Of the refit ranking, each pair left out once.")
    error: float | None = Field(description="Median share by which that is off.")


class LadderForm(BaseModel):
    """The promotions of a job."""

    promote_to: str
    promote: int
    promotions: list[PromotionForm]
    agreement: AgreementForm


class JobDetail(JobStandingForm):
    """A job by itself."""

    default: TrialForm | None
    textbook: TrialForm | None
    best: TrialForm | None
    pareto: list[TrialForm] = Field(
        description="Those that no other trial beats in every goal, the fastest first."
    )
    peak_cycles: float | None = Field(description="At the HVX peak of the contexts it may use.")
    toolchain: dict[str, str] = Field(description="All that decides objects and cycles.")
    space_digest: str
    ladder: LadderForm | None = Field(description="Its promotions; null: it has none to make.")


class Submitted(BaseModel):
    """The jobs a request made."""

    batch: str | None = Field(description="null for a single `kernel`.")
    jobs: list[JobForm]


class JobPage(BaseModel):
    """Jobs, newest first."""

    items: list[JobStandingForm]
    next_cursor: str | None = Field(description="For the next page; null: that was all.")


class TrialPage(BaseModel):
    """Trials, by number."""

    items: list[TrialForm]
    next_cursor: str | None = Field(description="For the next page; null: that was all.")


class ConductorForm(BaseModel):
    """A process that runs jobs now."""

    host: str = Field(examples=["lab7"])
    pid: int = Field(examples=[4711])
    started_at: float = Field(examples=[1.8e9], description="Unix seconds.")
    jobs: list[str] = Field(examples=[["1rt4dqb5ef"]])


class ConductorList(BaseModel):
    """Those that have a job; idle ones are not known to the database."""

    items: list[ConductorForm]


Text = Annotated[str, StringConstraints(max_length=100, pattern=r"^[ -~]*$")]


class JobsQuery(PageQuery):
    """Which jobs; all given conditions hold."""

    state: JobState | None = Field(None, description="Where they stand.")
    kernel: Text | None = Field(None, description="A kernel's name.")
    target: Text | None = Field(None, description="A target's name.")
    contract: Contract | None = Field(None, description="What callers promise.")
    user: Text | None = Field(None, description="Who submitted them.")
    batch: Text | None = Field(None, description="Submitted together under this name.")
    interrupted: bool | None = Field(
        None, description="Whether they say running, but nobody works on them just now."
    )


class TrialsQuery(PageQuery):
    """Which trials, and in which form."""

    outcome: Outcome | None = Field(None, description="Only those that ended so.")
    format: Literal["json", "csv", "jsonl"] | None = Field(
        None, description="`csv` and `jsonl` give all of them at once, as does `Accept`."
    )


class EventsQuery(Strict):
    """From where on."""

    after: int | None = Field(
        None, ge=0, le=2**62, description="The last event seen; as `Last-Event-ID`, which wins."
    )
