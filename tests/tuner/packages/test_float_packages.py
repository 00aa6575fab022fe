"""Packages of floats: what counts as right, and that nothing else does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.tuner.packages.broken import edit, opened
from tuner.packages.check import Checked, checked
from tuner.packages.files import keep
from tuner.problem.target import find_target

pytestmark = pytest.mark.slow

SMOOTH = Path(__file__).with_name("smooth_f32")
POSITIVE = """
#define POSITIVE RIGHT
void smooth(const float *src, int src_stride, const float *gain, float *dst, int dst_stride,
            int width, int height) {
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            union { float value; int bits; } at = {src[y * src_stride + x]};
            dst[y * dst_stride + x] = POSITIVE ? at.value : 0;
        }
}
enum { unroll = UNROLL };
"""
RIGHT, WRONG = "(at.bits >= 0 || at.bits > (int)0xff800000)", "(at.value > 0)"
"""Of floats clang makes a maximum, which is 0 for NaN."""
ITS_REFERENCE = """
import numpy as np
def reference(src, gain, width, height):
    return np.maximum(src[:, :-2], np.float32(0))
"""


def package(folder: Path, code: str, reference: str) -> Path:
    """The package of floats with other code, without bounds and tolerance."""
    shutil.copytree(SMOOTH, folder)
    (folder / "smooth.c").write_text(code)
    (folder / "reference.py").write_text(reference)
    edit(folder, "minimum = -100\nmaximum = 100.5\n", "")
    edit(folder, "[tolerance.dst]\nulp = 4\nabsolute = 2e-4\n", "")
    return folder


def default_of(folder: Path) -> Checked:
    kernel = opened(folder)
    keep(kernel.package)
    return next(checked(kernel, find_target("hexagon-v66"), ("default",)))


def test_without_bounds_nan_and_infinities_are_tried(tmp_path: Path) -> None:
    folder = package(tmp_path / "package", POSITIVE, ITS_REFERENCE)
    edit(folder, "RIGHT", RIGHT, "smooth.c")
    assert default_of(folder).outcome == "ok"
    edit(folder, RIGHT, WRONG, "smooth.c")
    found = default_of(folder)
    assert found.outcome == "wrong_output"
    assert found.as_dict()["difference"]["reference"] == "nan"
