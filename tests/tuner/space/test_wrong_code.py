"""Schedules that Halide 21 is known to make wrong code of are in no derived space."""

from __future__ import annotations

import pytest

from tests.tuner.space.test_derivation import DOT, pipeline, samples, stage
from tuner.space.derivation import UpdateFacts


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
