"""Plans as they are kept with networks: documents that are read strictly, and totals."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tuner.conformance.records import spec
from tuner.jobs.batch_progress import BatchProgress, BatchTable, MemberProgress, table_of
from tuner.jobs.plan_totals import plan_totals
from tuner.records.batch import Batch, BatchMember, NetworkLayer
from tuner.records.candidate import Cycles
from tuner.records.network_plan import (
    Bar,
    NetworkPlan,
    PlacedTensor,
    PlannedLayer,
    PlannedUnit,
    VtcmOfCall,
    plan_from_document,
)
from tuner.records.trial import JobState, Submission

PROBLEM = spec().problem
TENSORS = (PlacedTensor(0, 0, 512, 0, 1), PlacedTensor(1, 512, 128, 1, 1))
PLAN = NetworkPlan(
    "latency",
    (
        PlannedUnit("arm", True, "", 0.0, 0.0),
        PlannedUnit("dsp", False, PROBLEM.target.name, 500.0, 35.0),
    ),
    (
        PlannedLayer("dsp", 2.0, "measured"),
        PlannedLayer("dsp", 4.0, "estimated"),
        PlannedLayer("arm", 10.0, "declared"),
    ),
    (
        Bar("dsp", "call", None, 0.0, 35.0),
        Bar("dsp", "task", 0, 35.0, 37.0),
        Bar("dsp", "task", 1, 37.0, 41.0),
        Bar("DMA arm - dsp", "copy", 1, 41.0, 44.0),
        Bar("arm", "task", 2, 44.0, 54.0),
    ),
    (VtcmOfCall("dsp", 1024, (0, 1), TENSORS),),
    1,
    54.0,
    50.0,
    54.0,
    1.8e9,
)
_GEMM = NetworkLayer("a", "conv", PROBLEM.workload.digest, "gemm_u8", steps=1)
LAYERS = (
    _GEMM,
    replace(_GEMM, name="b", reads=(0,)),
    NetworkLayer("c", "Erf", on_host=True, reads=(1,)),
)


def through_json(document: dict[str, Any]) -> Any:
    return json.loads(json.dumps(document))


def test_a_plan_comes_back_as_it_was() -> None:
    assert plan_from_document(through_json(PLAN.document())) == PLAN
    assert PLAN.gap == pytest.approx(4 / 54)
    assert PLAN.vtcm[0].used_bytes == [512, 640]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("version",), 2, "not of version 1"),
        (("plan", "objective"), "joy", "objective is 'joy', not one of latency, calls"),
        (("plan", "bars", 0, "end_us"), -1.0, "negative or not finite"),
        (("plan", "vtcm", 0, "tensors", 0, "last"), 2, "beyond the steps of its call"),
    ],
)
def test_what_is_no_plan_is_refused(path: tuple[Any, ...], value: object, said: str) -> None:
    document = through_json(PLAN.document())
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=r".") as refused:
        plan_from_document(document)
    assert said in str(refused.value)


def batch() -> Batch:
    return Batch(
        name="net",
        kind="network",
        layers=LAYERS,
        id="b",
        members=(BatchMember("j", ("a", "b")),),
        created_at=1.0,
        submission=Submission("ann"),
    )


def table(textbook: int | None, best: int | None) -> BatchTable:
    member = MemberProgress(
        batch().members[0],
        JobState.DONE,
        ok=2,
        textbook_cycles=textbook,
        best=best and Cycles(best),
    )
    return table_of(BatchProgress(batch(), (member,)), {"j": PROBLEM})


def test_totals_put_the_same_layers_on_the_same_units_in_other_ways() -> None:
    """Host 10 us and a copy of 3 us in each; a call costs 35 us, 500 cycles are one."""
    textbook, best, plan = plan_totals(table(1500, 1000), PLAN)
    assert (textbook.cycles, textbook.calls) == (3000, 2)
    assert textbook.time_us == pytest.approx(10 + 3 + 2 * 35 + 6)
    assert (best.cycles, best.calls) == (2000, 2)
    assert best.time_us == pytest.approx(10 + 3 + 2 * 35 + 4)
    assert (plan.cycles, plan.calls, plan.time_us) == (3000, 1, 54.0)
