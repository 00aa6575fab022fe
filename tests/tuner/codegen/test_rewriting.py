"""Rewritten pipelines have the same values, and all others are left as they are."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rig.edged_pipelines import edged_pipelines
from tests.rig.random_pipelines import random_pipeline
from tests.rig.unseen_pipelines import SIZES, unseen_pipeline
from tuner.codegen.halide.uploads import analyse_pipeline, reference_outputs
from tuner.codegen.halide.uploads.contents import checked
from tuner.codegen.halide.uploads.rewriting import mirrored, rewritten
from tuner.codegen.halide.uploads.serialized import Node, read, written
from tuner.codegen.halide.uploads.unscheduling import unscheduled


def form(value: object) -> object:
    if isinstance(value, Node):
        return (value.kind, *((name, form(one)) for name, one in value.fields.items()))
    return tuple(map(form, value)) if isinstance(value, tuple) else value


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sharpen", "strongest"])
def test_what_is_written_is_read_as_the_same(name):
    root, order = read(unseen_pipeline(name))
    again, tables = read(written(root))
    assert form(again) == form(root)
    assert len(tables) == len(order)


@pytest.mark.slow
def test_bytes_side_by_side_are_added_apart():
    data, sizes = unseen_pipeline("mean_of_four"), SIZES["mean_of_four"]
    apart = rewritten(data)
    checked(apart)
    assert rewritten(apart) == apart
    names = [node["name"] for node in read(apart)[1] if node.kind == "Call"]
    assert names.count("absd") == 2, "one of each row"
    facts = analyse_pipeline(data, sizes).facts
    image = np.random.default_rng(3).integers(0, 256, (32, 512), dtype=np.uint8)
    ((whole,),) = reference_outputs(data, facts, [[image]])
    ((found,),) = reference_outputs(apart, facts, [[image]])
    assert np.array_equal(found, whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sharpen", "column_mean"])
def test_other_sums_stay_as_they_are(name):
    for data in (unseen_pipeline(name), random_pipeline(3)[0]):
        assert rewritten(data) == written(unscheduled(data)[0])


@pytest.mark.slow
@pytest.mark.parametrize("edge", ["mirror_image", "mirror_interior"])
def test_mirrors_fold_once_where_that_is_the_same(edge):
    data = edged_pipelines()[edge, "int16", "plane"]
    folded = mirrored(data)
    checked(folded)
    assert not [node for node in read(folded)[1] if node.kind == "Mod"]
    rng = np.random.default_rng(3)
    for sizes in ({"x": 40, "y": 3}, {"x": 2, "y": 2}, {"x": 7, "y": 1}):
        facts = analyse_pipeline(data, sizes).facts
        assert facts.folds is (min(sizes.values()) > 1)  # a single row is mirrored without end
        image = rng.integers(-9999, 9999, tuple(sizes.values())[::-1], dtype=np.int16)
        ((whole,),) = reference_outputs(data, facts, [[image]])
        ((found,),) = reference_outputs(folded, facts, [[image]])
        assert np.array_equal(found, whole)
