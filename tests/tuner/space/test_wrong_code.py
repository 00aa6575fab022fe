"""Schedules that Halide 21 is known to make wrong code of are in no derived space."""

from __future__ import annotations

from tests.tuner.space.test_derivation import pipeline, samples, stage


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
