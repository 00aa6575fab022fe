"""What is written otherwise than it was read has the same values, and all else stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rig.edged_pipelines import edged_pipelines
from tests.rig.random_pipelines import random_pipeline
from tests.rig.unseen_pipelines import unseen_pipeline
from tuner.codegen.halide.uploads import analyse_pipeline
from tuner.codegen.halide.uploads.contents import checked
from tuner.codegen.halide.uploads.pipelines import pipeline_of
from tuner.codegen.halide.uploads.program import read_program
from tuner.program.interpretation import interpreted
from tuner.program.printing import printed


def values_of(data: bytes) -> str:
    funcs = pipeline_of(checked(data)).stages.values()
    return "\n".join(str(value) for func in funcs for value in func.values())


@pytest.mark.slow
def test_bytes_side_by_side_are_added_apart():
    assert values_of(unseen_pipeline("mean_of_four")).count("absd") == 2, "one of each row"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sharpen", "column_mean"])
def test_other_sums_stay_as_they_are(name):
    for data in (unseen_pipeline(name), random_pipeline(3)[0]):
        assert "absd" not in values_of(data)


@pytest.mark.slow
@pytest.mark.parametrize("edge", ["mirror_image", "mirror_interior"])
def test_mirrors_fold_once_where_that_is_the_same(edge):
    data = edged_pipelines()[edge, "int16", "plane"]
    whole, folded = (read_program(checked(data, folds=folds)) for folds in (False, True))
    assert "%" in printed(whole)
    assert "%" not in printed(folded)
    rng = np.random.default_rng(3)
    for sizes in ({"x": 40, "y": 3}, {"x": 2, "y": 2}, {"x": 7, "y": 1}):
        folds = analyse_pipeline(data, sizes).facts.folds
        assert folds is (min(sizes.values()) > 1)  # a single row is mirrored without end
        image = rng.integers(-9999, 9999, tuple(sizes.values())[::-1], dtype=np.int16)
        extents = dict(zip("01", sizes.values(), strict=True))
        given = {name: extents[name[-1]] for name in whole.sizes}
        found = [
            interpreted(one, given, {"image": image}, {})
            for one in (whole, folded if folds else whole)
        ]
        for name, values in found[0].items():
            assert np.array_equal(values, found[1][name])
