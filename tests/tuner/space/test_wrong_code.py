"""Schedules that Halide 21 is known to make wrong code of are in no derived space."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tuner.space.test_derivation import DOT, TARGET, pipeline, samples, stage
from tuner.space.derivation import UpdateFacts, derived_schedule, derived_space

SHORT_DOT = UpdateFacts(("x", "y"), (("k$x", 16),), scans=False, combines="sum", dot=True)


def test_deinterleaved_values_are_not_written_by_vectors_moved_inwards():
    facts = pipeline(
        stage("wide", bits=16, extents=(512, 66)),
        stage("narrow", extents=(300, 66), reads={"wide": 1}),
        stage("out", extents=(300, 64), reads={"narrow": 3}),
    )
    found = samples(facts)
    assert {config.get("tail_wide") for config in found} == {None, "guard_with_if"}
    assert "shift_inwards" in {config.get("tail_narrow") for config in found}


def test_guards_are_for_what_may_not_be_moved_inwards():
    chain = pipeline(
        stage("first", extents=(300, 66)), stage("out", extents=(300, 64), reads={"first": 3})
    )
    for config in samples(chain):
        assert {config.get("tail_first"), config.get("tail_x")} <= {None, "shift_inwards"}
    short = pipeline(
        stage("first", extents=(66, 66)), stage("out", extents=(66, 64), reads={"first": 3})
    )
    found = samples(short)
    assert {config.get("tail_x") for config in found} == {None, "guard_with_if"}


@pytest.mark.parametrize(("width", "lanes"), [(768, {128, 256}), (300, {128})])
def test_guards_are_of_vectors_of_one_register_that_are_no_vrmpy(width, lanes):
    sums = stage("sums", bits=32, widest_bits=32, extents=(width, 64), updates=(DOT,))
    found = samples(pipeline(sums, stage("out", extents=(width, 64), reads={"sums": 1})))
    guarded = [config for config in found if config.get("tail_sums") == "guard_with_if"]
    assert {config["lanes"] for config in guarded} == lanes
    assert ("vrmpy" in {config["form_sums_0"] for config in guarded}) == (width == 768)


def test_reductions_of_several_values_have_no_guard_in_earnest():
    most = UpdateFacts(("x", "y"), (("k$x", 64),), scans=False, combines="", dot=False)
    for width, vectors in ((384, True), (300, False)):
        best = stage("best", values=2, extents=(width, 64), updates=(most,))
        found = samples(pipeline(best, stage("out", extents=(width, 64), reads={"best": 1})))
        assert any(config["lanes"] > 1 for config in found) == vectors


def test_what_is_doubled_is_kept_not_computed_where_it_is_read():
    facts = pipeline(
        stage("small", extents=(256, 64), bits=16),
        stage("doubled", reads={"small": 2}, bits=16, gathers=True),
        stage("out", reads={"doubled": 2}),
    )
    places = {config.get("place_doubled") for config in samples(facts)}
    assert places == {None, "root", "rows", "tile"}


def test_what_is_clamped_and_halved_is_kept():
    clamped = stage("clamped", clamped=True, skipped=True)
    facts = pipeline(clamped, stage("half", extents=(256, 64), reads={"clamped": 2}))
    assert "inline" not in {config.get("place_clamped") for config in samples(facts)}


@pytest.mark.parametrize(("width", "is_free"), [(512, True), (516, False)])
def test_sums_under_a_guard_lie_aligned(width, is_free):
    update = UpdateFacts(("x", "y"), (("k$x", 16),), scans=False, combines="sum", dot=False)
    sums = stage("sums", bits=32, widest_bits=32, extents=(width, 64), updates=(update,))
    facts = pipeline(sums, stage("out", extents=(width, 64), reads={"sums": 1}))
    found = [config for config in samples(facts) if config["lanes"] > 1]
    assert ("off" in {config["align_sums"] for config in found}) == is_free
    assert ({config["unroll_sums"] for config in found} > {1}) == is_free


@pytest.mark.parametrize(("bits", "is_free"), [(8, True), (16, False)])
def test_bytes_are_not_narrowed_where_vrmpy_reads_them(bits, is_free):
    narrow = stage("narrow", widest_bits=bits)
    sums = stage("sums", bits=32, widest_bits=32, updates=(DOT,), reads={"narrow": 1})
    found = samples(pipeline(narrow, sums, stage("out", reads={"sums": 1})))
    places = {one["place_narrow"] for one in found if one.get("form_sums_0") == "vrmpy"}
    assert ("inline" in places) == is_free


def test_look_ups_are_not_guarded():
    facts = pipeline(
        stage("toned", extents=(300, 64), looks_up=True),
        stage("sums", extents=(300, 64), bits=16, reads={"toned": 1}, updates=(DOT,)),
        stage("out", extents=(300, 64), reads={"sums": 1}),
    )
    found = [one for one in samples(facts) if one.get("tail_sums") == "guard_with_if"]
    assert found
    assert "inline" not in {config["place_toned"] for config in found}


def test_what_is_halved_lies_in_memory_if_it_reads_what_does():
    first = stage("first", extents=(1024, 64))
    halved = stage("halved", extents=(1024, 64), reads={"first": 1}, skipped=True)
    facts = pipeline(first, halved, stage("out", reads={"halved": 2}))
    places = {one["place_halved"] for one in samples(facts) if one["lanes"] != 1}
    assert places
    assert "inline" not in places


def test_sums_of_widened_bytes_that_readers_may_shift_are_kept():
    """Inline, Halide shifts them in 16 bits, and loses the order of their lanes."""
    facts = pipeline(stage("sum", bits=32, widest_bits=32), stage("out", reads={"sum": 1}))
    assert "inline" not in {one.get("place_sum") for one in samples(facts)}


def test_ragged_rows_are_reduced_in_vectors_of_one_register():
    rows = UpdateFacts(
        ("y",), (("r$x", 300),), scans=False, combines="sum", dot=False, across="r$x", quads=True
    )
    sums = stage(
        "sums", dimensions=("y",), extents=(64,), bits=32, updates=(rows,), strided=(("y", 1),)
    )
    facts = pipeline(sums, stage("out", reads={"sums": 1}, extents=(512, 64)))
    forms = {(one["lanes"], one["form_sums_0"]) for one in samples(facts) if one["lanes"] != 1}
    assert forms == {(128, "rfactor")}


@pytest.mark.parametrize(("repeats", "is_free"), [(False, True), (True, False)])
def test_what_is_read_twice_under_a_guard_is_kept(repeats, is_free):
    update = UpdateFacts(("x", "y"), (("k$x", 16),), scans=False, combines="sum", dot=False)
    square = stage("square", extents=(300, 64), reads={"first": 1}, repeats=repeats)
    sums = stage("sums", extents=(300, 64), bits=16, reads={"square": 1}, updates=(update,))
    facts = pipeline(
        stage("first", extents=(300, 64)),
        square,
        sums,
        stage("out", extents=(300, 64), reads={"sums": 1}),
    )
    found = [one for one in samples(facts) if one.get("tail_sums") == "guard_with_if"]
    assert found
    assert ("inline" in {one["place_square"] for one in found}) == is_free


def test_what_two_stages_read_is_no_value_of_a_guarded_vector():
    update = UpdateFacts(("x", "y"), (("k$x", 16),), scans=False, combines="sum", dot=False)
    facts = pipeline(
        stage("first", extents=(300, 64)),
        stage("blurred", extents=(300, 64), reads={"first": 1}),
        stage("mean", extents=(300, 64), reads={"first": 1, "blurred": 1}),
        stage("sums", extents=(300, 64), bits=16, reads={"mean": 1}, updates=(update,)),
        stage("out", extents=(300, 64), reads={"sums": 1}),
    )
    places = {(one["place_blurred"], one["place_mean"]) for one in samples(facts) if len(one) > 1}
    assert ("inline", "inline") not in places
    assert any(mean == "inline" for _, mean in places)


def test_ragged_reductions_by_lanes_read_nothing_twice():
    rows = UpdateFacts(
        ("y",), (("r$x", 300),), scans=False, combines="sum", dot=False, across="r$x"
    )
    facts = pipeline(
        stage("square", extents=(300, 64), repeats=True),
        stage(
            "sums",
            dimensions=("y",),
            extents=(64,),
            bits=32,
            updates=(rows,),
            strided=(("y", 1),),
            reads={"square": 1},
        ),
        stage("out", reads={"sums": 1}, extents=(512, 64)),
    )
    found = [one for one in samples(facts) if one.get("form_sums_0") == "rfactor"]
    assert found
    assert "inline" not in {one["place_square"] for one in found}


def test_rows_are_not_guarded_where_every_second_element_is_read():
    facts = pipeline(
        stage("whole", extents=(512, 33), skipped=True),
        stage("out", extents=(256, 33), reads={"whole": 2}),
    )
    assert "guard_with_if" not in {one.get("tail_y") for one in samples(facts)}


def test_guarded_sums_of_strips_are_not_written_out():
    update = UpdateFacts(("x", "y"), (("k$x", 3),), scans=False, combines="sum", dot=False)
    sums = stage("sums", extents=(300, 66), bits=16, updates=(update,))
    facts = pipeline(sums, stage("out", extents=(300, 64), reads={"sums": 3}))
    found = [one for one in samples(facts) if one["lanes"] != 1]
    assert {one["unroll_sums_0"] for one in found} == {"off", "inner"}
    assert {one["unroll_sums_0"] for one in found if one["place_sums"] == "rows"} == {"off"}


def test_scalars_never_lie_where_vectors_were_carried():
    rows = UpdateFacts(("y",), (("r$x", 30),), scans=False, combines="sum", dot=False)
    sums = stage("sums", dimensions=("y",), extents=(32,), updates=(rows,), strided=(("y", 1),))
    facts = pipeline(sums, stage("out", reads={"sums": 1}, extents=(512, 32)))
    config = derived_space("p", facts, TARGET).nearest_config({"lanes": 128})
    room = [d.args for d in derived_schedule(facts, TARGET, config) if d.op == "align_storage"]
    assert room == [("y", 4096)]
    large = pipeline(replace(sums, dimensions=("y", "z"), extents=(32, 99)), facts.last)
    config = derived_space("p", large, TARGET).nearest_config({"lanes": 128})
    assert "align_storage" not in {d.op for d in derived_schedule(large, TARGET, config)}


def test_strided_products_are_not_written_out():
    sums = stage("sums", bits=32, widest_bits=32, updates=(SHORT_DOT,), strided=(("x", 1),))
    plain = replace(sums, strided=())
    for one, found in ((sums, {"off"}), (plain, {"off", "inner"})):
        space = samples(pipeline(one, stage("out", reads={"sums": 1})))
        assert {config.get("unroll_sums_0", "off") for config in space} == found


def test_guarded_sums_of_what_is_made_of_several_values_are_not_written_out():
    update = UpdateFacts(("x", "y"), (("k$x", 3),), scans=False, combines="sum", dot=False)
    facts = pipeline(
        stage("first", extents=(300, 64)),
        stage("mixed", extents=(300, 64), reads={"first": 1}, inputs=("image",)),
        stage("sums", extents=(300, 64), bits=16, reads={"mixed": 1}, updates=(update,)),
        stage("out", extents=(300, 64), reads={"sums": 1}),
    )
    found = [one for one in samples(facts) if one["lanes"] != 1]
    assert {one["unroll_sums_0"] for one in found} == {"off", "inner"}
    inline = [one for one in found if one["place_mixed"] == "inline"]
    assert {one["unroll_sums_0"] for one in inline} == {"off"}
