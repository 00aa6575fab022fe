"""Plain records of a batch: the jobs of a network or of a set of workloads, made together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, get_args

from tuner.records.documents import read_record
from tuner.records.trial import Job, JobSpec, Submission
from tuner.space import Space

BatchKind = Literal["network", "set"]
BATCH_KINDS: tuple[BatchKind, ...] = get_args(BatchKind)


@dataclass(frozen=True)
class NetworkLayer:
    """A layer of a network, as it was read.

    ``workload`` is the digest of the workload that has its shape and ``kernel`` that workload's
    kernel; both ``None`` without one. The layer takes ``calls`` of it. ``macs`` are its
    multiply-accumulates, ``share_of_macs`` their share of the network's. ``steps`` is how far the
    kernel's results are from the layer's at most, ``None`` if it cannot take the layer's numbers;
    ``note`` says why, or why the layer is ``on_host``. ``reads`` are the positions of the layers
    whose outputs it reads, all before its own; its outputs have ``output_bytes``. A layer that is
    done in the call of another names that one in ``within``, and has no workload.
    """

    name: str
    operator: str
    workload: str | None = None
    kernel: str | None = None
    calls: int = 1
    macs: int = 0
    share_of_macs: float = 0.0
    steps: int | None = None
    on_host: bool = False
    note: str = ""
    reads: tuple[int, ...] = ()
    output_bytes: int = 0
    within: str = ""

    def __post_init__(self) -> None:
        if self.within and self.workload is not None:
            raise ValueError(f"layer {self.name}: done within {self.within}, and a workload")
        if (self.workload is None) != (self.kernel is None):
            raise ValueError(f"layer {self.name}: kernel {self.kernel}, and its workload")
        if self.calls < 1 or self.macs < 0 or not 0 <= self.share_of_macs <= 1:
            raise ValueError(
                f"layer {self.name}: {self.calls} calls, {self.macs} MACs, "
                f"{self.share_of_macs} of all"
            )
        if self.output_bytes < 0:
            raise ValueError(f"layer {self.name}: outputs of {self.output_bytes} bytes")


@dataclass(frozen=True)
class BatchMember:
    """A job of a batch and the names of the layers that are its workload, once for each call."""

    job: str
    layers: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.layers:
            raise ValueError(f"job {self.job} is for no layer")

    @property
    def occurrences(self) -> int:
        """How often its cycles count in the whole."""
        return len(self.layers)


@dataclass(frozen=True)
class NewJob:
    """A job to make as part of a batch, and the names of its layers."""

    spec: JobSpec
    space: Space
    toolchain: Mapping[str, str] = field(hash=False)
    layers: tuple[str, ...]
    submission: Submission


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """The part of a batch that is known before its jobs are made.

    ``name`` is that of the network or set. ``trials`` (of the whole batch), ``seconds`` (of a
    session) and ``workers`` are those of a batch whose jobs share one budget; without any each job
    has its own. ``layers`` are all layers of a network; a set has none.
    """

    name: str
    kind: BatchKind = "set"
    trials: int | None = None
    seconds: float | None = None
    workers: int | None = None
    layers: tuple[NetworkLayer, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in BATCH_KINDS:
            raise ValueError(f"kind {self.kind!r}")
        if (self.kind == "network") != bool(self.layers):
            raise ValueError(f"{len(self.layers)} layers of a {self.kind}")
        for position, layer in enumerate(self.layers):
            if any(not 0 <= read < position for read in layer.reads):
                raise ValueError(f"layer {layer.name} reads one that is not before it")

    @property
    def shares_budget(self) -> bool:
        """Whether one budget is spent on all jobs, by the process that runs the batch."""
        return self.trials is not None or self.seconds is not None


@dataclass(frozen=True, kw_only=True)
class Batch(BatchPlan):
    """A batch as stored.

    ``submission`` says whose it is. ``created_at`` is in Unix
    seconds.
    """

    id: str
    members: tuple[BatchMember, ...]
    created_at: float
    submission: Submission

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.members:
            raise ValueError(f"batch {self.id} has no jobs")

    @property
    def label(self) -> str:
        """For people: what was tuned."""
        return self.name or f"{len(self.members)} workloads"

    def document(self) -> dict[str, Any]:
        """JSON form of the members, the budget and the layers."""
        return {
            "members": [{"job": one.job, "layers": list(one.layers)} for one in self.members],
            "trials": self.trials,
            "seconds": self.seconds,
            "workers": self.workers,
            "layers": [asdict(layer) for layer in self.layers],
        }


def made_batch(
    batch_id: str, plan: BatchPlan, jobs: Sequence[NewJob], make: Callable[[NewJob], Job]
) -> Batch:
    """The batch of ``jobs``, each of which ``make`` makes. All are private if one is."""
    private = any(one.submission.private for one in jobs)
    made = [
        make(replace(one, submission=replace(one.submission, batch=batch_id, private=private)))
        for one in jobs
    ]
    return Batch(
        **{one.name: getattr(plan, one.name) for one in fields(BatchPlan)},
        id=batch_id,
        members=tuple(BatchMember(job.id, one.layers) for job, one in zip(made, jobs, strict=True)),
        created_at=made[0].created_at,
        submission=replace(made[0].submission, kernel_label=""),
    )


@dataclass(frozen=True)
class _Document:
    """The fields of :meth:`Batch.document`."""

    members: tuple[BatchMember, ...]
    trials: int | None
    seconds: float | None
    workers: int | None
    layers: tuple[NetworkLayer, ...]


def from_document(document: Any, **columns: Any) -> Batch:
    """The batch of a :meth:`Batch.document` and its other fields; ``ValueError`` if it is none."""
    return Batch(**columns, **vars(read_record(_Document, document)))
