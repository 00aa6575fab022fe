"""The doubt about a best: how it fares where assumed costs are others, without another run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.measure.qemu.made_events import KINDS, PARALLEL_KINDS, made_events
from tuner.measure.qemu.condensed import condensed
from tuner.measure.qemu.cycles import cycles_of, whole
from tuner.measure.qemu.events import EVENT_COUNT, EVENTS, INDEX, Events
from tuner.measure.qemu.model import find_model, parameters_of
from tuner.measure.qemu.uncertain import POINTS, along, box, fittable, plausible
from tuner.problem.target import find_target
from tuner.records.trial import CountedTrial
from tuner.search import doubt
from tuner.search.doubt import Doubt, Unknown, doubt_of

TARGET = find_target("hexagon-v66")
SPECS = find_model(TARGET.arch).specs
NOMINAL = parameters_of(SPECS)
NAMES = fittable(SPECS)
SERIAL = st.fixed_dictionaries(
    {
        "packets": st.integers(100, 10_000),
        **{name: st.integers(0, 5_000) for name in EVENTS if name not in ("packets", "tasks")},
    }
)


def serial(counts: Mapping[str, int]) -> Events:
    """Events of code without parallel loops."""
    row = np.zeros(EVENT_COUNT)
    for name, count in counts.items():
        row[INDEX[name]] = count
    return Events(row[np.newaxis], np.zeros(1, np.int64))


def counted(number: int, events: Events, digest: str = "") -> CountedTrial:
    """A trial as a store gives it."""
    parts = cycles_of(events, NOMINAL, TARGET.hvx_contexts).parts
    kept = condensed(events, NOMINAL, TARGET.hvx_contexts).as_dict()
    return CountedTrial(
        number,
        digest or f"object {number}",
        sum(whole(parts).values()),
        json.loads(json.dumps(kept)),
    )


def known(
    trials: Sequence[CountedTrial],
    trial: int | None = None,
) -> Doubt:
    found = doubt_of(trials, TARGET, trial)
    assert isinstance(found, Doubt)
    return found


LOADS = counted(4, serial({"packets": 900, "l2_accesses": 800}))
FEW_LOADS = counted(7, serial({"packets": 1000, "l2_accesses": 300}))


# What is told


def test_a_choice_that_hangs_on_one_cost_says_so() -> None:
    found = known([LOADS, FEW_LOADS])
    hinge = found.hinge
    assert hinge is not None
    assert (found.trial, hinge.cost, hinge.side, hinge.trial) == (4, "l2_access", "above", 7)
    assert hinge.assumed == SPECS["l2_access"].value
    assert hinge.threshold == pytest.approx(0.2)  # 900 + 800 x = 1000 + 300 x
    most = SPECS["l2_access"].high
    assert hinge.gain == pytest.approx(1 - (1000 + 300 * most) / (900 + 800 * most))
    assert found.best_share == pytest.approx(0.2 / most, abs=1 / POINTS)
    assert [rival.trial for rival in found.rivals] == [7]
    assert found.robust.trial == 7
    assert found.robust.more_cycles == pytest.approx(1 / 9)
    assert found.sentence == (
        "not sure: the fastest at 31 % of the plausible costs, within 2 % of the fastest at 38 %; "
        "trial 7 is up to 16 % faster if l2_access is above 0.2 model cycles (0 assumed)"
    )


# What is not known


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"event_counts": None}, doubt.NO_COUNTS), ({"cycles": 5000}, doubt.OTHER_COSTS)],
)
def test_what_cannot_be_priced_again_is_unknown(changes: dict[str, Any], reason: str) -> None:
    found = doubt_of([LOADS, replace(FEW_LOADS, **changes)], TARGET)
    assert found == Unknown(reason)
    form = found.as_dict()
    assert (form["known"], form["reason"], form["sentence"]) == (False, reason, "")
    assert form.keys() == known([LOADS, FEW_LOADS]).as_dict().keys()
    assert form["best_share"] is None


# Arithmetic


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(SERIAL, SERIAL), min_size=2, max_size=4), SERIAL)
def test_what_has_fewer_events_of_every_kind_is_the_best_everywhere(
    more: list[tuple[dict[str, int], dict[str, int]]], least: dict[str, int]
) -> None:
    trials = [counted(0, serial(least))]
    for number, (extra, _) in enumerate(more, 1):
        dominated = {name: least[name] + extra[name] for name in least}
        trials.append(counted(number, serial(dominated)))
    found = known(trials)
    assert (found.trial, found.best_share, found.worst_loss, found.hinge) == (0, 1, 0, None)
    assert found.robust.trial == 0


# The box


def test_a_calibrated_cost_stays_within_its_interval() -> None:
    source = "calibrated: 40 samples, a phone; +- 0.3 at 95 % confidence; was 6"
    spec = SPECS["l1_miss"].model_copy(update={"value": 7.0, "source": source})
    assert plausible(spec) == (6.7, 7.3)
    assert plausible(spec.model_copy(update={"value": 2.1})) == (2.0, 2.4)
    assert fittable({**SPECS, "l1_miss": spec}) == NAMES
    ends = along({**SPECS, "l1_miss": spec}, "l1_miss", 3)
    assert [point.l1_miss for point in ends] == pytest.approx([6.7, 7, 7.3])


# What is kept of a run


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([*KINDS, *PARALLEL_KINDS]))
def test_condensed_events_have_the_cycles_of_all(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    parts = [made_events(rng, one) for one in (kind, *rng.choice(list(PARALLEL_KINDS), 3))]
    last, loops = 0, []
    for part in parts:
        loops.append(np.where(part.loops > 0, part.loops + last, 0))
        last = max(last, int(loops[-1].max()))
    events = Events(np.concatenate([part.counts for part in parts]), np.concatenate(loops))
    kept = condensed(events, NOMINAL, 4)
    assert len(kept.loops) <= 2 + 4 * 4
    assert cycles_of(kept, NOMINAL, 4).total == pytest.approx(cycles_of(events, NOMINAL, 4).total)
    assert kept.total == pytest.approx(events.total)
    losses = [
        cycles_of(kept, point, 4).total / cycles_of(events, point, 4).total - 1
        for point in box(SPECS, NAMES, 8)
    ]
    assert np.abs(losses).mean() < 0.05
