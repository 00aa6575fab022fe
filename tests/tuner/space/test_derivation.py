"""Derived spaces, from facts written by hand: nothing is compiled here."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tuner.problem.target import find_target
from tuner.space import Config, Directive, Space
from tuner.space.derivation import (
    BufferFacts,
    PipelineFacts,
    StageFacts,
    UpdateFacts,
    derived_schedule,
    derived_space,
    textbook_values,
)
from tuner.space.derivation.facts import EVERY_DIMENSION
from tuner.space.derivation.roles import Roles

TARGET = find_target("hexagon-v66")
LEVELS = {"root": 0, "rows": 1, "tile": 2}
SAMPLES = 300


def stage(name: str, *, reads: dict[str, int] | None = None, **changed: object) -> StageFacts:
    facts = StageFacts(
        name=name,
        dimensions=("x", "y"),
        extents=(512, 64),
        bits=8,
        narrowest_bits=8,
        widest_bits=16,
        reads=tuple((reads or {}).items()),
        clamped=False,
        operations=10,
        updates=(),
    )
    return replace(facts, **changed)  # type: ignore[arg-type]


def pipeline(*stages: StageFacts) -> PipelineFacts:
    last = stages[-1]
    image = BufferFacts("image", "uint8", (0, 0), (512, 64))
    output = BufferFacts(last.name, "uint8", (0,) * len(last.extents), last.extents)
    return PipelineFacts((image,), (output,), stages)


CHAIN = pipeline(
    stage("first", bits=16),
    stage("second", reads={"first": 3}, extents=(512, 66), bits=16),
    stage("third", reads={"first": 1, "second": 3}),
    stage("out", reads={"third": 2}),
)
SUM = UpdateFacts(
    (), (("r$x", 512), ("r$y", 64)), scans=False, combines="sum", dot=False, across="r$x"
)
TOTAL = pipeline(
    stage("total", dimensions=(), extents=(), bits=32, widest_bits=32, updates=(SUM,)),
    stage("out", reads={"total": 1}),
)
DOT = UpdateFacts(("x", "y"), (("k$x", 64),), scans=False, combines="sum", dot=True)
DENSE = pipeline(
    stage("sums", bits=32, widest_bits=32, updates=(DOT,)), stage("out", reads={"sums": 1})
)
SCAN = pipeline(
    stage("sums", bits=16, updates=(UpdateFacts(("x",), (("r$x", 63),), True, "", False),)),
    stage("out", reads={"sums": 1}),
)


def test_what_can_have_no_vectors_has_no_schedule_but_the_default() -> None:
    facts = pipeline(stage("out", divides=(EVERY_DIMENSION,)))
    space = derived_space("p", facts, TARGET)
    assert [config.as_dict() for config in space] == [{"lanes": 1}]
    assert space.nearest_config(textbook_values(facts, TARGET)).as_dict() == {"lanes": 1}


def samples(facts: PipelineFacts) -> list[Config]:
    space = derived_space("pipeline:test", facts, TARGET)
    random = Random(3)
    return [space.sample(random) for _ in range(SAMPLES)]


def schedules(facts: PipelineFacts) -> list[tuple[Config, list[Directive]]]:
    return [(config, derived_schedule(facts, TARGET, config)) for config in samples(facts)]


@pytest.mark.parametrize("facts", [CHAIN, TOTAL, DENSE, SCAN], ids=["chain", "sum", "dot", "scan"])
def test_a_space_has_the_unscheduled_pipeline_and_a_textbook_schedule(facts):
    space = derived_space("pipeline:test", facts, TARGET)
    unscheduled = space.nearest_config({"lanes": 1})
    assert unscheduled.as_dict() == {"lanes": 1}
    assert derived_schedule(facts, TARGET, unscheduled) == []
    textbook = space.nearest_config(textbook_values(facts, TARGET))
    assert textbook.integer("lanes") == TARGET.lanes(1)
    assert derived_schedule(facts, TARGET, textbook)
    assert Space.from_dict(space.as_dict()).digest == space.digest


POOLED = {"dimensions": ("c", "x", "y"), "extents": (128, 16, 16)}


@pytest.mark.parametrize("whole_bytes", [None, 1])
def test_a_tile_of_pixels_reaches_both_ways(whole_bytes):
    facts = pipeline(stage("out", **POOLED))
    space = derived_space("pipeline:test", facts, TARGET, whole_bytes)
    config = space.nearest_config({"lanes": 128, "tile_rows": 4, "walk": "down", "tile_planes": 4})
    made = derived_schedule(facts, TARGET, config, whole_bytes)
    unrolled = {one.args[0] for one in made if one.op == "unroll"}
    assert {"x_i", "y_i"} <= unrolled
    alone = derived_space("pipeline:test", pipeline(stage("a"), stage("out", **POOLED)), TARGET)
    assert "tile_planes" not in {knob.name for knob in alone.knobs}


@pytest.mark.parametrize("whole_bytes", [None, 1])
@pytest.mark.parametrize("channels", [16, 24, 100])
def test_rows_that_fill_no_vector_are_stored_in_part(whole_bytes, channels):
    short = {**POOLED, "extents": (channels, 9, 9)}
    for ended in (True, False):
        facts = pipeline(stage("out", **short, ended=ended))
        space = derived_space("pipeline:test", facts, TARGET, whole_bytes)
        found = {knob.name: knob.choices for knob in space.knobs}
        assert (found.get("tail_x") == ("predicate_stores",)) == ended


@pytest.mark.parametrize("whole_bytes", [None, 1])
def test_a_value_for_each_row_keeps_nothing_from_having_vectors(whole_bytes):
    of_rows = stage("of_rows", dimensions=("y",), extents=(64,), bits=32, widest_bits=32)
    facts = pipeline(of_rows, stage("out", reads={"of_rows": 1}))
    config = derived_space("p", facts, TARGET, whole_bytes).nearest_config(
        textbook_values(facts, TARGET, whole_bytes)
    )
    assert config["lanes"] == TARGET.lanes(1)
    assert "tail_of_rows" not in config


def test_what_is_looked_up_for_several_is_kept():
    found = {}
    for times in (1, 2):
        curve = stage("curve", looks_up=True)
        facts = pipeline(curve, stage("out", reads={"curve": times}))
        found[times] = textbook_values(facts, TARGET)["place_curve"]
    assert found == {1: "inline", 2: "rows"}


def test_stages_are_computed_before_those_that_read_them():
    """What is inline passes on what it reads to its own readers."""
    readers = {"first": ("second", "third"), "second": ("third",), "third": ()}
    seen = set()
    for config in samples(CHAIN):
        if config["lanes"] == 1:
            continue
        places = {name: config.text(f"place_{name}") for name in readers}
        seen.add(tuple(places.values()))
        for name, later in readers.items():
            if places[name] == "inline":
                continue
            for reader in later:
                if places[reader] != "inline":
                    assert LEVELS[places[name]] <= LEVELS[places[reader]]
    assert len(seen) > 10


@pytest.mark.parametrize("facts", [CHAIN, TOTAL, DENSE, SCAN], ids=["chain", "sum", "dot", "scan"])
def test_vectors_are_whole_registers_of_the_target(facts):
    """Of the narrowest values, and as wide in all stages: Halide 21 makes wrong code otherwise."""
    narrow = replace(TARGET, vector_bytes=64, vector_alignment_bytes=64)
    assert derived_space("p", facts, narrow).knob("lanes").choices[1] == 64
    for config, directives in schedules(facts):
        sizes = {d.args[1] for d in directives if d.op == "vectorize" and len(d.args) > 1}
        assert sizes <= {config.integer("lanes")}
        assert config.integer("lanes") in (1, 128, 256)


def test_few_channels_have_vectors_that_are_not_full() -> None:
    """A quarter of a register does more at once than scalars, and than rows that lie apart."""
    update = replace(DOT, pure=("c", "x"), dot=False)
    shape = {"dimensions": ("c", "x"), "extents": (32, 512)}
    facts = pipeline(
        stage("sums", bits=16, updates=(update,), **shape), stage("out", reads={"sums": 1}, **shape)
    )
    for role in Roles(facts, TARGET).all:
        assert role.vector == "c"


@pytest.mark.parametrize("width", [1920, 2048, 2047, 1000])
def test_what_lies_in_vtcm_fits_in_whole_vectors(width):
    """With what says how large it is."""
    target = find_target("hexagon-v73")
    height = (target.vtcm_bytes - target.vector_alignment_bytes) // (2 * width)
    facts = pipeline(
        stage("first", extents=(width, height), bits=16, clamped=True),
        stage("out", reads={"first": 9}, extents=(width, height)),
    )
    space, random = derived_space("pipeline:test", facts, target), Random(3)
    kept = 0
    for config in (space.sample(random) for _ in range(SAMPLES)):
        if config.get("vtcm") == "first":
            step = config.integer("lanes") * config.integer("unroll_first")
            rounded = -(-width // step) * step
            taken = rounded if config.get("tail_first") == "round_up" else width
            assert 2 * taken * height + target.vector_alignment_bytes <= target.vtcm_bytes
            kept += 1
    assert kept


PIXELS = pipeline(
    stage("out", dimensions=("c", "x", "y"), extents=(3, 512, 64), strided=(("x", 1),), picks=True)
)


ROWS = UpdateFacts(
    ("y",), (("r$x", 512),), scans=False, combines="sum", dot=False, across="r$x", quads=True
)
