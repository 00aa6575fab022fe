"""Shapes of schedules: queries, answers, pages."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from service.schemas.common import PageQuery, ProblemDetails, Strict, Visibility
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.candidate import CacheState, Fidelity, Preference
from tuner.records.request import DEFAULT_CONTRACT

MOST_WORKLOADS = 1000
_NAME = r"^[A-Za-z0-9_-]{1,100}$"
_KERNEL = r"^[A-Za-z0-9_:-]{1,100}$"
ContractName = Literal["none", "host", "stride", "extent", "static"]


class BestOptions(Strict):
    """Options of a best-query besides the workload."""

    cache: CacheState = Field("warm", description="Caches when the timed call began.")
    min_fidelity: Fidelity = Field(
        "model", description="The least fidelity to accept; the highest there is comes first."
    )
    prefer: Preference = Field(
        "robust",
        description="Which comes first: `robust` (fewest expected cycles) or `fastest` (fewest "
        "cycles), whichever its job looked for.",
    )
    allow_nearest: bool = Field(
        False, description="Whether the config of a near shape may answer, said to be such."
    )
    on_miss: Literal["enqueue"] | None = Field(
        None, description="`enqueue`: submit a job where nothing is stored (scope `submit`)."
    )


class BestQuery(BestOptions):
    """The best-query."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"kernel": "gemm_u8", "param": ["m=256,n=256,k=256"]}],
        }
    )

    kernel: str = Field(description="The kernel's name.", examples=["gemm_u8"])
    param: list[str] = Field(
        default_factory=list,
        description="Parameters as `m=256,n=256`, or one each; the rest by default.",
        examples=[["m=256,n=256,k=256"]],
    )
    target: str = Field(
        DEFAULT_TARGET, description="The hardware to generate code for.", examples=["hexagon-v66"]
    )
    contract: str = Field(
        DEFAULT_CONTRACT,
        description="Guarantees the caller gives: none, host, stride, extent or static.",
        examples=["static"],
    )


class WorkloadAsked(Strict):
    """One workload of a batch."""

    kernel: str = Field(examples=["gemm_u8"])
    params: dict[str, StrictInt] = Field(
        default_factory=dict, examples=[{"m": 256, "n": 256, "k": 256}]
    )
    target: str | None = Field(None, description="In place of the batch's.")
    contract: str | None = Field(None, description="In place of the batch's.")


class BatchBody(BestOptions):
    """The best-query for a whole model."""

    # JSON has types of its own: 0 is not false there, as it may be in a query.
    model_config = ConfigDict(strict=True)

    workloads: list[WorkloadAsked] = Field(min_length=1, max_length=MOST_WORKLOADS)
    target: str = Field(DEFAULT_TARGET, examples=["hexagon-v66"])
    contract: str = Field(DEFAULT_CONTRACT, examples=["static"])


class AskedForm(BaseModel):
    """The question, defaults included."""

    params: dict[str, int] = Field(examples=[{"m": 256, "n": 256, "k": 256}])
    contract: ContractName


class ScheduleForm(BaseModel):
    """A stored schedule."""

    id: str = Field(description="Names it, here and where it came from.", examples=["1rt0taze20-7"])
    kernel: str = Field(examples=["gemm_u8"])
    display_name: str = Field(
        examples=["gemm_u8"], description="The kernel's name, or that people gave an upload."
    )
    params: dict[str, int] = Field(examples=[{"m": 256, "n": 256, "k": 256}])
    contract: ContractName = Field(description="The contract it was made under.")
    target: str = Field(examples=["hexagon-v66"])
    generator: str = Field(examples=["halide"])
    config: dict[str, int | str] = Field(examples=[{"tile_m": 4, "tile_n": 128}])
    cycles: int = Field(examples=[81766])
    packets: int | None = Field(description="null: not counted there.", examples=[68772])
    stalls: int | None = Field(description="null: not counted there.", examples=[12994])
    core_cycles: int = Field(description="Without what DDR adds; 0: not known.")
    verified: bool = Field(description="Every output byte matched the reference: always true.")
    share_of_roofline: float = Field(
        description="The least cycles of the algorithm over those measured.", examples=[0.8]
    )
    fidelity: Fidelity
    device: str = Field(examples=["qemu-7.2"])
    cache: CacheState
    prefer: Preference = Field(description="The rule by which it won.")
    expected_cycles: int | None = Field(
        description="The mean over the timing model's plausible costs; null: nothing is assumed."
    )
    lowest_cycles: int | None = Field(description="The least over them.")
    highest_cycles: int | None = Field(description="The most over them.")
    samples: list[int] = Field(description="Every repeat, in cycles.", examples=[[81766]])
    overhead_cycles: int | None = Field(
        description="Of the harness in each sample, which `cycles` are without; null where it is "
        "not known, and nothing was subtracted.",
        examples=[None],
    )
    temperature_c: float | None = Field(description="Of the device; null: it has no sensor.")
    breakdown: dict[str, int] = Field(description="Parts of `cycles`, by cause.")
    code_bytes: int
    vtcm_bytes: int | None = Field(description="VTCM it touches; null: not watched.")
    symbol: str = Field(examples=["gemm_u8_m256_n256_k256_static"])
    object_digest: str = Field(description="SHA-256 of the object.")
    object_bytes: int
    toolchain: dict[str, str] = Field(description="Versions of all that built and measured it.")
    provenance: dict[str, Any] = Field(description="Job, trial, space, sampler and time.")
    links: dict[str, str] = Field(description="Where its files are.")


class BestForm(ScheduleForm):
    """The answer to a best-query."""

    match: Literal["exact", "nearest"]
    distance: float | None = Field(description="For `nearest`: how far the shape is (see docs).")
    confidence: Literal["high", "medium", "low"] | None
    asked: AskedForm
    note: str | None = Field(None, description="For `nearest`: what it may be used for.")


class EnqueuedForm(BaseModel):
    """Nothing was stored; a job is on its way."""

    job: dict[str, Any] = Field(
        description="The job, as `GET /v1/jobs/{id}` begins.",
        examples=[{"job": "1rt0taze20", "state": "queued", "kernel": "gemm_u8"}],
    )
    reused: bool = Field(description="Whether an open job for the same problem was there.")


class NearForm(BaseModel):
    """A stored workload near the asked one."""

    kernel: str
    params: dict[str, int]
    contract: ContractName
    target: str
    distance: float
    id: str


class AsideForm(BaseModel):
    """A schedule that is never handed out."""

    id: str
    reason: str


class MissForm(ProblemDetails):
    """404 of a best-query."""

    nearest: list[NearForm]
    quarantined: list[AsideForm] = Field(
        description="Schedules that would fit, and why they are not handed out. Import or tune one "
        "again whose file is damaged."
    )
    submit: dict[str, Any] = Field(description="A body for `POST /v1/jobs`.")


class BatchForm(BaseModel):
    """In the order of the workloads: schedules, jobs and problems, each with its ``status``."""

    items: list[dict[str, Any]] = Field(
        examples=[[{"status": 200, "match": "exact", "id": "1rt0taze20-7"}]]
    )


class StoredForm(ScheduleForm):
    """A schedule with its place in the store."""

    owner: str = Field(description="Owner of its job; empty: this machine, or imported.")
    visibility: Visibility
    quarantined: dict[str, Any] | None = Field(
        description="`at` and `reason` if it is never handed out."
    )


class SchedulePage(BaseModel):
    """Newest first."""

    items: list[StoredForm]
    next_cursor: str | None = Field(description="Pass it back as `cursor`; null: that was all.")


class SchedulesQuery(PageQuery):
    """Filters and the page of a listing of schedules."""

    kernel: str | None = Field(
        None, pattern=_KERNEL, description="Only of this kernel.", examples=["gemm_u8"]
    )
    target: str | None = Field(
        None, pattern=_NAME, description="Only for this target.", examples=["hexagon-v66"]
    )
    contract: ContractName | None = Field(None, description="Only under this contract.")
    fidelity: Fidelity | None = Field(None, description="Only measured so.")
    quarantined: bool | None = Field(None, description="Only those that are, or are not.")


class ExportQuery(Strict):
    """Which schedules to export."""

    kernel: str | None = Field(
        None, pattern=_KERNEL, description="Only of this kernel.", examples=["gemm_u8"]
    )
    target: str | None = Field(
        None, pattern=_NAME, description="Only for this target.", examples=["hexagon-v66"]
    )


class ImportQuery(Strict):
    """Which schedules may be imported."""

    any_toolchain: bool = Field(
        False, description="Also schedules of toolchains that were never used here."
    )


class ImportedForm(BaseModel):
    """The outcome of an import."""

    schedules: int = Field(description="In the file.", examples=[12])
    stored: int = Field(description="Of these, stored now.", examples=[9])
    kept: int = Field(
        description="Of these, where what was stored before is as fast.", examples=[2]
    )
    left_out: int = Field(
        description="Of these, of kernels, targets or spaces that are others here.", examples=[1]
    )
    reasons: list[str] = Field(description="Why some were left out: the first few.")


class QuarantineBody(Strict):
    """The reason for a quarantine."""

    reason: str = Field(min_length=1, max_length=1000, examples=["wrong pixels on device 7"])
