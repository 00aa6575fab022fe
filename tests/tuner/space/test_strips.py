"""Strips of derived spaces: loops for several HVX contexts. Nothing is compiled here."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.tuner.space.test_derivation import (
    CHAIN,
    DENSE,
    SCAN,
    TARGET,
    TOTAL,
    pipeline,
    stage,
)
from tuner.space import Config, Directive
from tuner.space.derivation import (
    PipelineFacts,
    derived_schedule,
    derived_space,
)

LINE = pipeline(stage("out", dimensions=("x",), extents=(65536,)))
ALL = {"chain": CHAIN, "sum": TOTAL, "dot": DENSE, "scan": SCAN, "line": LINE}


def cut(facts: PipelineFacts) -> Iterator[tuple[Config, list[Directive]]]:
    """Random schedules with more strips than one."""
    space = derived_space("pipeline:test", facts, TARGET, parallel=True)
    random = Random(5)
    for _ in range(200):
        config = space.sample(random)
        if config.get("strips", 1) != 1:
            yield config, derived_schedule(facts, TARGET, config)


@pytest.mark.parametrize("facts", ALL.values(), ids=ALL)
def test_nothing_is_parallel_unless_asked_for(facts):
    space = derived_space("pipeline:test", facts, TARGET)
    allowed = derived_space("pipeline:test", facts, TARGET, parallel=True)
    assert "strips" not in {knob.name for knob in space.knobs}
    assert [knob for knob in allowed.knobs if knob.name != "strips"] == list(space.knobs)
    random = Random(2)
    for config in (space.sample(random) for _ in range(50)):
        assert all(d.op != "parallel" for d in derived_schedule(facts, TARGET, config))
        if config["lanes"] != 1:
            assert derived_schedule(facts, TARGET, config) == derived_schedule(
                facts, TARGET, Config({**config.as_dict(), "strips": 1})
            )


@pytest.mark.parametrize("facts", ALL.values(), ids=ALL)
def test_a_parallel_loop_is_around_all_others_and_none_of_a_reduction(facts):
    rvars = {name for one in facts.stages for u in one.updates for name, _ in u.rvars}
    seen = 0
    for config, directives in cut(facts):
        parallel = [d for d in directives if d.op == "parallel"]
        seen += len(parallel)
        for directive in parallel:
            of_stage = [
                d for d in directives if (d.func, d.update) == (directive.func, directive.update)
            ]
            (split,) = [d for d in of_stage if d.op == "split" and d.args[1] == directive.args[0]]
            assert split.args[0] not in rvars
            assert isinstance(split.args[3], int)
            (order,) = [d for d in of_stage if d.op == "reorder"]
            assert order.args[-1] == directive.args[0]
        assert len({(d.func, d.update) for d in parallel}) == len(parallel), config
    assert seen
