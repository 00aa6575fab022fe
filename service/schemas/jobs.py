"""Bodies and queries of the job routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    create_model,
    model_validator,
)

from service.schemas.common import PageQuery, Strict, Visibility
from service.schemas.doubts import DoubtForm
from service.schemas.networks import NetworkForm
from tuner.jobs.choices import help_of
from tuner.jobs.headline import Headline
from tuner.machine.fitness import Lack, Worker
from tuner.problem.contract import Contract
from tuner.records.annotation import COMMENT_PATTERN, MOST_CHARACTERS, MOST_TAGS, TAG_PATTERN
from tuner.records.batch import BatchPlan
from tuner.records.outcome import Outcome
from tuner.records.request import (
    BUDGET,
    DEFAULT_SAMPLER,
    JobOptions,
    Option,
    SearchOptions,
    of_group,
    options_of,
    require_known,
)
from tuner.records.trial import JobState, RemainingGain
from tuner.search.ranking import Agreement

MOST_WORKLOADS = 256
MOST_LAYERS = 10_000

Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[ -~]+$")]
Params = dict[Name, Annotated[int, Field(ge=-(2**62), le=2**62)]]


class WorkloadBody(Strict):
    """A workload to tune."""

    model_config = ConfigDict(strict=True)

    kernel: Name = Field(examples=["gemm_u8"])
    params: Params = Field(default={}, examples=[{"m": 256, "n": 256, "k": 256}])
    layers: list[Name] | None = Field(
        None,
        min_length=1,
        max_length=MOST_LAYERS,
        examples=[["conv2_1", "conv2_2"]],
        description="Names of the layers that are it: its cycles count as often.",
    )


def _fields(kind: type[SearchOptions], *, answer: bool = False) -> dict[str, Any]:
    """Pydantic's fields for the options of ``kind`` outside the budget: of a request, or of an
    ``answer``, which has all of them."""
    return {
        one.name: _answer_field(one) if answer else _field(one)
        for one in options_of(kind)
        if one.group != BUDGET
    }


def _field(option: Option) -> Any:
    facts: dict[str, Any] = {"description": _description(option)}
    if option.example is not None:
        facts["examples"] = [option.example]
    default = option.default
    if option.kind == "names":
        default = list(default)
        facts |= {"min_length": 1, "max_length": len(option.choices)}
    elif option.kind == "share":
        facts |= {"gt": 0, "lt": 1, "allow_inf_nan": False}
    elif option.kind == "float":
        facts |= {"gt": option.least, "le": option.most, "allow_inf_nan": False}
    elif option.kind == "int":
        facts |= {"ge": option.least, "le": option.most}
    elif option.kind == "text" and isinstance(option.choices, str):
        facts |= {"max_length": option.longest, "pattern": option.pattern}
    return (_type(option), Field(default, **facts))


def _answer_field(option: Option) -> Any:
    examples = [option.example if option.example is not None else option.default]
    return (_type(option), Field(description=_description(option), examples=examples))


def _type(option: Option) -> Any:
    plain: dict[str, Any] = {
        "bool": bool,
        "float": float,
        "int": int,
        "names": list[Name],
        "share": float,
        "text": str,
    }
    found = plain[option.kind]
    if option.kind == "text" and not isinstance(option.choices, str):
        found = Literal[tuple(option.choices)]
    return found | None if option.optional else found


def _description(option: Option) -> str:
    text = help_of(option)
    if option.switch:
        text = f"`{option.switch}`: {text[0].lower()}{text[1:]}"
    unset = f" {'null' if option.optional else 'Empty'}: {option.unset}." if option.unset else ""
    return text + unset


_BudgetFields: Any = create_model(
    "_BudgetFields",
    __base__=Strict,
    **{one.name: _field(one) for one in of_group(JobOptions, BUDGET)},
)


class BudgetBody(_BudgetFields):  # type: ignore[misc]  # made above
    """When a job stops: at the first limit reached. Without any, after 100 trials, or 10 for each
    of several workloads."""

    model_config = ConfigDict(strict=True)


class _BudgetedBody(Strict):
    budget: BudgetBody = BudgetBody()


_OptionFields: Any = create_model("_OptionFields", __base__=_BudgetedBody, **_fields(JobOptions))


class OptionsBody(_OptionFields):  # type: ignore[misc]  # made above
    """The options of jobs, and their budget: trials and seconds of several are shared out."""


class _WorkloadsBody(OptionsBody):
    kernel: Name | None = Field(None, description="`GET /v1/kernels` lists them.")
    params: Params | None = Field(None, description="Those left out have the kernel's defaults.")
    workloads: list[WorkloadBody] | None = Field(None, min_length=1, max_length=MOST_WORKLOADS)
    name: Name | None = Field(
        None, examples=["mobilenet_v2"], description="Of the set that the workloads are."
    )

    @model_validator(mode="after")
    def _one_or_many(self) -> _WorkloadsBody:
        if (self.kernel is None) == (self.workloads is None):
            raise ValueError("give either kernel (with params) or workloads")
        if self.workloads is not None and self.params is not None:
            raise ValueError("params belong to kernel; each of workloads has its own")
        if self.workloads is None and self.name is not None:
            raise ValueError("a name belongs to workloads; a single job has a label")
        return self


class SubmitBody(_WorkloadsBody):
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

    def options(self) -> dict[str, Any]:
        """The job options, by name."""
        given = self.model_dump(exclude={"kernel", "params", "workloads", "name", "budget"})
        return {**given, **self.budget.model_dump()}

    def place(self, workload: int) -> str:
        """The field that a workload is from."""
        return f"workloads.{workload}"

    def plan(self, _: Sequence[tuple[str, str]]) -> BatchPlan:
        """The record of the set that the workloads are."""
        return BatchPlan(name=self.name or "")

    @classmethod
    def of(cls, options: Mapping[str, Any], **workloads: Any) -> Self:
        """The body that says the same as ``options``."""
        require_known(options)
        flat = dict(options)
        limits = {one.name for one in of_group(JobOptions, BUDGET)}
        budget = {name: flat.pop(name) for name in limits & flat.keys()}
        lists = {name: list(v) if isinstance(v, tuple) else v for name, v in flat.items()}
        made: Self = cls(**workloads, budget=BudgetBody(**budget), **lists)
        return made


class _JobHead(BaseModel):
    job: str = Field(examples=["1rt4dqb5ef"], description="Its id.")
    state: JobState
    kernel: str = Field(examples=["gemm_u8"], description="Its name, which never means another.")
    display_name: str = Field(
        examples=["gemm_u8"], description="The name for people: for an upload, its given name."
    )
    params: dict[str, int] = Field(examples=[{"m": 256, "n": 256, "k": 256}])
    contract: Contract
    target: str = Field(examples=["hexagon-v66"])


_JobFields: Any = create_model(
    "_JobFields", __base__=_JobHead, **_fields(SearchOptions, answer=True)
)


class JobForm(_JobFields):  # type: ignore[misc]  # made above
    """A job."""

    budget: dict[str, int | float | None] = Field(
        examples=[{"trials": 100, "seconds": None, "patience": None, "until_gain": None}]
    )
    created_at: float = Field(examples=[1.8e9], description="Unix seconds.")
    spent_s: float = Field(description="Seconds of all sessions so far.")
    remaining_gain: RemainingGain | None = Field(
        description="The estimated saving of further search; null while too little is known."
    )
    note: str = Field(
        description="Why it failed, waits, or ended before all its trials; else empty."
    )
    paused: bool = Field(description="A queued job that waits until somebody resumes it.")
    user: str = Field(examples=["ann"], description="User who submitted it; empty: this machine.")
    owner: str = Field(examples=["ann"], description="Its owner; empty: this machine.")
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
    best_lowest_cycles: int | None = Field(description="Over the timing model's plausible costs.")
    best_highest_cycles: int | None = Field(description="The most over them.")
    waits: str = Field(
        examples=["no conductor has qemu: process 4711 on lab7: this machine has no qemu-hexagon"],
        description="Why nobody works on it now, or what its work waits for; empty otherwise.",
    )
    comment: str = Field(
        examples=["after the new tiling"],
        description="A note of people's own; may be empty.",
    )
    tags: list[str] = Field(examples=[["release-2", "camera"]])
    default_cycles: int | None
    default_lowest_cycles: int | None
    default_highest_cycles: int | None
    textbook_cycles: int | None
    textbook_lowest_cycles: int | None
    textbook_highest_cycles: int | None
    textbook_is_unscheduled: bool = Field(
        description="There is no textbook: it comes to the default, which has no schedule."
    )
    baseline_cycles: int | None = Field(description="Those of the job's baseline.")
    baseline_lowest_cycles: int | None
    baseline_highest_cycles: int | None
    told_against: Headline | None = Field(
        description="The opponent of the best; null where baseline and textbook failed."
    )
    share_of_roofline: float | None = Field(
        description="The least cycles of its algorithm over those of the best."
    )
    rate_trials_per_s: float | None
    eta_s: float | None = Field(description="Seconds to go, while it runs.")


class TrialForm(BaseModel):
    """One candidate's way through a job."""

    model_config = ConfigDict(extra="allow")

    trial: int = Field(description="Its number in the job.")
    origin: str = Field(
        examples=[DEFAULT_SAMPLER], description="default, textbook, baseline, or the sampler."
    )
    outcome: Outcome
    config: dict[str, Any]
    cycles: int | None
    share_of_roofline: float | None
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
    trial_cycles: int | None = Field(description="The trial's cycles at the fidelity searched.")
    trial_fidelity: str | None
    error: str | None


class LadderForm(BaseModel):
    """The promotions of a job."""

    promote_to: str
    promote: int
    promotions: list[PromotionForm]
    agreement: Agreement


class FailureForm(BaseModel):
    """Trials that failed for one cause."""

    outcome: Outcome
    count: int
    reason: str = Field(description="The error of the first of them.")
    trial: int = Field(description="The first of them.")
    next_step: str


class BoundForm(BaseModel):
    """A resource that the algorithm needs."""

    resource: str = Field(examples=["multiply"])
    unit: str = Field(examples=["products"])
    work: int = Field(description="In `unit`, of a call.", examples=[16777216])
    per_cycle: float = Field(description="The most that it does in a cycle.", examples=[256.0])
    cycles: float = Field(description="One over the other.", examples=[65536.0])


class RooflineForm(BaseModel):
    """The least cycles of an algorithm on the HVX contexts it may use, however it is scheduled."""

    binds: str = Field(description="The resource that needs most.", examples=["multiply"])
    cycles: float = Field(examples=[65536.0])
    compute_cycles: float = Field(description="If memory had no limits.", examples=[65536.0])
    bounds: list[BoundForm]


class DistanceForm(BaseModel):
    """How far the roofline lies below the best of a job."""

    times: float = Field(description="Cycles of the best over the least.", examples=[1.038])
    binds: str = Field(examples=["multiply"])
    least_cycles: int = Field(examples=[65536])
    compute_cycles: int = Field(examples=[65536])
    sentence: str = Field(
        examples=["1.04 times the roofline: multiplies need at least 65,536 model cycles"]
    )


class JobDetail(JobStandingForm):
    """A job by itself."""

    default: TrialForm | None
    textbook: TrialForm | None
    best: TrialForm | None
    baseline_trial: TrialForm | None = Field(description="The trial of the job's baseline.")
    pareto: list[TrialForm] = Field(
        description="Those that no other trial beats in every objective, the fastest first."
    )
    roofline: RooflineForm | None = Field(description="null: its kernel is not known here.")
    toolchain: dict[str, str] = Field(description="All that decides objects and cycles.")
    space_digest: str
    ladder: LadderForm | None = Field(description="Its promotions; null: it has none to make.")
    doubt: DoubtForm | None = Field(
        description="How far its best rests on assumed costs; null: nothing is assumed."
    )
    distance: DistanceForm | None = Field(
        description="How far the roofline lies below the best; null: there is none."
    )
    left_out: dict[str, str] = Field(
        examples=[{"hvx": "its stage blur uses select()"}],
        description="Generators that make no code of the kernel, and why.",
    )
    failures: list[FailureForm] = Field(description="What failed most, the most frequent first.")


class Submitted(BaseModel):
    """The jobs a request made."""

    batch: str | None = Field(description="null for a single `kernel`.")
    jobs: list[JobForm]


class JobPage(BaseModel):
    """Jobs, newest first."""

    items: list[JobStandingForm | NetworkForm] = Field(
        description="Of the latter kind only if `grouped`."
    )
    next_cursor: str | None = Field(description="For the next page; null: that was all.")


class TrialPage(BaseModel):
    """Trials, by number."""

    items: list[TrialForm]
    next_cursor: str | None = Field(description="For the next page; null: that was all.")


class ConductorForm(BaseModel):
    """A process that runs jobs, or is unfit to."""

    host: str = Field(examples=["lab7"])
    pid: int = Field(examples=[4711])
    started_at: float = Field(examples=[1.8e9], description="Unix seconds.")
    jobs: list[str] = Field(examples=[["1rt4dqb5ef"]])
    fit: bool = Field(description="Whether it takes up jobs.")
    lacks: list[Lack] = Field(description="Why it is unfit: what every job needs.")
    without: list[Lack] = Field(description="Measurers that do not work there.")
    measurers: list[str] = Field(examples=[["qemu"]])
    executor: str = Field(examples=["dask://lab7:8786"], description="Who runs its candidates.")
    workers: list[Worker] = Field(
        description="Those of its executor, if that is a cluster, the unfit first; at most 100."
    )
    slots: int | None = Field(description="Jobs at once; null: a command that runs its own job.")
    version: str | None = Field(examples=["0.2.0"])
    artifacts: str | None = Field(
        examples=["folder:/srv/hvxtune"], description="Where it keeps objects, without credentials."
    )
    clock_offset_s: float | None = Field(
        examples=[0.003], description="How far its clock is ahead of the database's."
    )
    seen_at: float | None = Field(description="Unix seconds, by the clock of the database.")


class ConductorList(BaseModel):
    """Those that are alive, fit or not, and other processes that have a job."""

    items: list[ConductorForm]


Text = Annotated[str, StringConstraints(max_length=100, pattern=r"^[ -~]*$")]
Tag = Annotated[str, StringConstraints(pattern=TAG_PATTERN)]
Comment = Annotated[str, StringConstraints(max_length=MOST_CHARACTERS, pattern=COMMENT_PATTERN)]


class AnnotationBody(Strict):
    """Changes of a job's comment and tags; what is left out stays."""

    model_config = ConfigDict(strict=True)

    comment: Comment | None = Field(
        None, examples=["after the new tiling"], description="In place of the one before."
    )
    add_tags: list[Tag] = Field(
        [], max_length=MOST_TAGS, examples=[["release-2"]], description="Added to the others."
    )
    remove_tags: list[Tag] = Field(
        [], max_length=MOST_TAGS, examples=[["draft"]], description="Removed before any is added."
    )


class JobsQuery(PageQuery):
    """Which jobs; all given conditions hold."""

    state: JobState | None = Field(None, description="Their state.")
    kernel: Text | None = Field(
        None, description="A kernel's name, or the display name of an upload or a package."
    )
    target: Text | None = Field(None, description="A target's name.")
    contract: Contract | None = Field(None, description="The guarantees callers give.")
    tag: Tag | None = Field(None, description="A tag that they have.")
    user: Text | None = Field(None, description="The user who submitted them.")
    batch: Text | None = Field(None, description="Submitted together under this name.")
    interrupted: bool | None = Field(
        None, description="Whether they say running, but nobody works on them just now."
    )
    grouped: bool = Field(
        False,
        description="All jobs of a network or set as one item, in the form of `/v1/networks`, if "
        "one of them meets the conditions.",
    )


class TrialsQuery(PageQuery):
    """Which trials, and in which form."""

    outcome: Outcome | None = Field(None, description="Only those that ended so.")
    format: Literal["json", "csv"] | None = Field(
        None, description="`csv` gives all of them at once, as does `Accept`."
    )


class EventsQuery(Strict):
    """From where on."""

    after: int | None = Field(
        None, ge=0, le=2**62, description="The last event seen; as `Last-Event-ID`, which wins."
    )
