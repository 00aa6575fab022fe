"""The small graphs, and those of what a bundle does without kernels."""

from __future__ import annotations

from tests.tuner.network.reading.small_graphs import GRAPHS as SMALL_GRAPHS
from tests.tuner.network.reading.small_graphs import Making
from tests.tuner.network.test_layouts import residuals
from tuner.network import Graph


def means() -> Graph:
    """Means of windows that reach beyond the image, which count only pixels inside or all of them,
    with channels last and first."""
    m = Making(8, "int8")
    x = m.conv(m.input(1, 8, 8, 4), 16, layout="nhwc")
    window = {"kernel": [3, 2], "strides": [2, 3], "dilations": [1, 2], "pads": [1, 1, 1, 0]}
    how = {**window, "layout": "nhwc", "count_padding": 0}
    some = m.node("average_pool", (x,), (1, 4, 3, 16), 0.02, **how, low=-100, high=90)
    y = m.conv(m.input(1, 16, 6, 6), 16, size=1)
    how = {**window, "layout": "nchw", "count_padding": 1, "pads": [1, 0, 1, 1]}
    return m.graph("means", some, m.node("average_pool", (y,), (1, 16, 3, 2), 0.02, **how))


def moves() -> Graph:
    """Slices, one of them backwards, a concatenation, and transposes, one of them of an input
    straight to an output."""
    m = Making(10, "int8")
    image = m.input(1, 8, 6, 6)
    x = m.conv(image, 16, size=1)
    part = {"starts": [0, 2, 5, 1], "stops": [1, 14, -7, 6], "steps": [1, 3, -2, 1]}
    part = m.node("slice", (x,), (1, 4, 3, 5), 1.0, **part)
    other = m.node(
        "slice", (x,), (1, 4, 3, 5), 1.0,
        starts=[0, 0, 0, 0], stops=[1, 4, 3, 5], steps=[1] * 4,
    )  # fmt: skip
    whole = m.node("concat", (part, other, part), (1, 12, 3, 5), 1.0, axis=1)
    turned = m.node("transpose", (whole,), (1, 5, 12, 3), 1.0, order=[0, 3, 1, 2])
    straight = m.node("transpose", (image,), (6, 8, 1, 6), 1.0, order=[3, 1, 0, 2])
    return m.graph("moves", m.table(turned), straight, whole)


GRAPHS = {**SMALL_GRAPHS, "means": means, "moves": moves, "in blocks": residuals}
"""By name."""
