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


GRAPHS = {**SMALL_GRAPHS, "means": means, "in blocks": residuals}
"""By name."""
