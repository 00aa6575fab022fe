"""Spaces for code whose callers choose the extents, from facts written by hand."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.tuner.space.test_derivation import (
    CHAIN,
    DOT,
    SAMPLES,
    TARGET,
    pipeline,
    stage,
)
from tuner.space import Config
from tuner.space.derivation import (
    PipelineFacts,
    derived_space,
)

PADDED = pipeline(
    stage("repeat_edge", is_edge=True, clamped=True),
    stage("blurred", reads={"repeat_edge": 3}, clamped=True),
    stage("out", reads={"blurred": 3}, clamped=True),
)


def samples(facts: PipelineFacts, whole_bytes: int | None = 1) -> list[Config]:
    space = derived_space("pipeline:test", facts, TARGET, whole_bytes)
    random = Random(5)
    drawn = [space.sample(random) for _ in range(SAMPLES)]
    return [config for config in drawn if config["lanes"] != 1]


def test_every_loop_has_a_tail_even_where_the_example_has_none():
    for config in samples(PADDED):
        assert "tail_x" in config
        assert ("tail_y" in config) == (config["tile_rows"] > 1)
        for key in ("repeat_edge", "blurred"):
            assert (f"tail_{key}" in config) == (config[f"place_{key}"] != "inline")
    assert all("tail_x" not in config for config in samples(PADDED, None))


@pytest.mark.parametrize("facts", [PADDED, CHAIN], ids=["narrow", "widened"])
def test_guards_are_only_for_what_must_not_be_moved(facts):
    for config in samples(facts):
        stored = [
            key for key in ("first", "second") if config.get(f"place_{key}", "inline") != "inline"
        ]
        assert config["tail_x"] == "shift_inwards" or stored
        assert config.get("tail_y") in (None, "shift_inwards")
        for key in stored:  # widened: vectors of it begin on vector boundaries
            assert config[f"tail_{key}"] != "shift_inwards"


@pytest.mark.parametrize("combines", ["sum", "max"])
def test_what_is_read_twice_of_a_widened_reduction_has_vectors(combines):
    """Guards are not right for its reader; moved inwards, it reads values that lie in order."""
    window = replace(DOT, dot=False, combines=combines)
    sums = stage("sums", bits=16, updates=(window,))
    facts = pipeline(sums, stage("out", reads={"sums": 1}, repeats=True))
    assert {config["tail_x"] for config in samples(facts)} == {"shift_inwards"}
