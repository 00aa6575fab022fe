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


def test_vtcm_holds_one_stage_that_fits_and_is_computed_once():
    space = derived_space("pipeline:test", CHAIN, TARGET)
    assert "first" in space.knob("vtcm").choices
    small = replace(TARGET, vtcm_bytes=1024)
    assert "vtcm" not in {knob.name for knob in derived_space("p", CHAIN, small).knobs}
    for config in samples(CHAIN):
        kept = config.get("vtcm", "none")
        assert kept == "none" or config[f"place_{kept}"] == "root"


def test_deinterleaved_values_are_never_read_off_vector_boundaries():
    """Vectors moved inwards are, where the width is no multiple of theirs."""
    facts = pipeline(
        stage("wide", extents=(512, 64), bits=16),
        stage("out", reads={"wide": 1}, extents=(500, 64)),
    )
    tails = set()
    for config in samples(facts):
        if config.get("tail_x") == "shift_inwards":
            assert config["place_wide"] == "inline"
        tails.add(config.get("tail_x"))
    assert {"shift_inwards", "guard_with_if"} <= tails


def test_widened_values_lie_in_order_where_vectors_do_not_divide_the_width():
    facts = pipeline(
        stage("wide", extents=(500, 64), bits=16),
        stage("out", reads={"wide": 1}, extents=(500, 64)),
    )
    for config, directives in schedules(facts):
        kept = config.get("place_wide", "inline") != "inline"
        assert any(d.op == "keep_in_order" for d in directives) == kept
        assert "guard_with_if" not in {config.get("tail_x"), config.get("tail_wide")}


PIXELS = pipeline(
    stage("out", dimensions=("c", "x", "y"), extents=(3, 512, 64), strided=(("x", 1),), picks=True)
)


def test_what_divides_as_no_vector_can_is_computed_without_and_apart():
    facts = pipeline(stage("ratio", divides=("*",)), stage("out", reads={"ratio": 1}))
    space = derived_space("pipeline:test", facts, TARGET)
    assert "inline" not in space.knob("place_ratio").choices
    for _, directives in schedules(facts):
        assert all(d.func != "ratio" for d in directives if d.op == "vectorize")


def test_rows_that_a_scan_goes_back_through_take_more_than_one_step():
    back = UpdateFacts(("x",), (("r$x", 63),), True, "", False, backwards=True)
    facts = pipeline(
        stage("sums", bits=16, extents=(256, 64), updates=(back,)),
        stage("out", reads={"sums": 1}, extents=(256, 64)),
    )
    steps = {
        config.integer("lanes") * config.integer("unroll_sums")
        for config in samples(facts)
        if config["lanes"] != 1
    }
    assert steps == {128}


def test_edges_of_images_are_kept_by_predicated_stores_not_guards():
    facts = pipeline(stage("out", extents=(500, 64), clamped=True))
    found = {(c.get("tail_x"), c.get("unroll")) for c in samples(facts) if "tail_x" in c}
    assert {tail for tail, _ in found} == {"shift_inwards", "predicate_stores"}
    assert {unroll for tail, unroll in found if tail == "predicate_stores"} == {1}


ROWS = UpdateFacts(
    ("y",), (("r$x", 512),), scans=False, combines="sum", dot=False, across="r$x", quads=True
)
ROW_SUMS = stage(
    "sums",
    dimensions=("y",),
    extents=(64,),
    bits=32,
    widest_bits=32,
    updates=(ROWS,),
    strided=(("y", 1),),
)


def test_sums_of_rows_are_vectors_along_the_rows_and_a_tree():
    """Never lane by lane, nor a vector of rows, whose loads would be."""
    facts = pipeline(ROW_SUMS, stage("out", reads={"sums": 1}))
    found = {config["form_sums_0"]: made for config, made in schedules(facts) if len(config) > 1}
    assert set(found) == {"rfactor", "quads"}
    for made in found.values():
        own = [d for d in made if d.func == "sums" and d.update is None]
        assert "vectorize" not in {d.op for d in own}
        tree = [d.args for d in made if d.func == "sums" and d.op == "vectorize"]
        assert tree
        partial = [d.op for d in made if d.func.startswith("partial") and d.update is None]
        assert partial == ["keep_in_order", "compute_at", "vectorize"]
    textbook = derived_space("p", facts, TARGET).nearest_config(textbook_values(facts, TARGET))
    assert textbook["form_sums_0"] == "quads"


@pytest.mark.parametrize(
    ("changed", "reader", "kept"),
    [
        ({}, {}, False),
        ({"apart": True}, {}, True),
        ({}, {"apart": True}, True),
        ({"bits": 8}, {"apart": True}, False),
    ],
    ids=["read in place", "read beside", "read beside through another", "bytes"],
)
def test_widened_values_lie_in_order_where_they_are_not_read_as_they_were_written(
    changed, reader, kept
):
    wide = stage("wide", **{"bits": 16, **changed})
    facts = pipeline(
        wide, stage("mid", reads={"wide": 1}, **reader), stage("out", reads={"mid": 1})
    )
    for config, made in schedules(facts):
        if config["lanes"] == 1 or config["place_wide"] == "inline":
            continue
        first = next(d for d in made if d.func == "wide" and d.op not in _PLACED)
        assert (first.op == "keep_in_order") == kept


_PLACED = {"compute_root", "compute_at", "store_at", "store_root", "store_in"}


def featured(channels: int, pixels: int = 56, **changed: object) -> PipelineFacts:
    shape = {"dimensions": ("c", "x", "y"), "extents": (channels, pixels, 16), "picks": True}
    rows = stage("rows", bits=16, **shape, **changed)
    return pipeline(rows, stage("out", reads={"rows": 2}, **shape))


@pytest.mark.parametrize("facts", [PIXELS, featured(16)], ids=["colours", "features"])
def test_no_vector_has_channels_of_pixels_that_lie_anywhere(facts):
    """They would be loaded one by one. Rows that lie anywhere are as good as others."""

    def loose(value: int) -> PipelineFacts:
        shape = {"mins": (0, 0, 0), "extents": facts.last.extents}
        return replace(facts, inputs=(replace(facts.inputs[0], **shape, loose=value),))

    def forms(facts: PipelineFacts) -> set[str]:
        knobs = {knob.name: knob.choices for knob in derived_space("p", facts, TARGET).knobs}
        return set(knobs.get("channels", ()))

    assert forms(loose(2)) == forms(loose(3)) == forms(facts)
    assert "vectors" in forms(facts)
    assert forms(loose(1)) <= {"apart"}
    for _, directives in schedules(loose(1)):
        assert ("c",) not in {d.args for d in directives if d.op in ("vectorize", "unroll")}
