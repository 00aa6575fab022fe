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
