"""Schedules that Halide 21 is known to make wrong code of are in no derived space."""

from __future__ import annotations

import pytest

from tests.tuner.space.test_derivation import DOT, pipeline, samples, stage
from tuner.space.derivation import UpdateFacts


def test_widened_values_are_not_written_by_vectors_moved_inwards():
    facts = pipeline(
        stage("wide", bits=16, extents=(300, 66)),
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


def test_what_is_halved_and_doubled_again_has_several_rows_in_a_tile():
    whole = stage("whole", extents=(256, 64), skipped=True)
    half = stage("half", extents=(128, 32), reads={"whole": 4})
    facts = pipeline(whole, half, stage("out", extents=(512, 64), reads={"half": 1}))
    found = [config for config in samples(facts) if config.get("place_whole") == "rows"]
    assert found
    assert {config["tile_rows"] for config in found} <= {4, 8}


def test_what_is_doubled_is_kept_not_computed_where_it_is_read():
    facts = pipeline(
        stage("small", extents=(256, 64), bits=16),
        stage("doubled", reads={"small": 2}, bits=16, gathers=True),
        stage("out", reads={"doubled": 2}),
    )
    places = {config.get("place_doubled") for config in samples(facts)}
    assert places == {None, "root", "rows", "tile"}
