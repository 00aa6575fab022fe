"""Drawings of networks: no two boxes overlap, edges lead down, large graphs are folded."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.charts.gantt import LEFT, WIDTH, gantt
from dashboards.charts.layered import BOX_HEIGHT, BOX_WIDTH, layout
from dashboards.charts.network_graph import HAS_KERNEL, ON_HOST, folded, network_graph
from dashboards.charts.vtcm_steps import vtcm_charts
from tests.tuner.jobs.test_network_plans import LAYERS, PLAN


@st.composite
def graphs(draw: st.DrawFn, most: int = 40) -> list[list[int]]:
    """Boxes that read some of those before them."""
    count = draw(st.integers(1, most))
    return [
        sorted(draw(st.sets(st.integers(0, n - 1), max_size=3))) if n else [] for n in range(count)
    ]


@given(graphs())
def test_no_two_boxes_overlap_and_all_are_inside(reads: list[list[int]]) -> None:
    made = layout(reads)
    assert len(made.places) == len(reads)
    for one, other in combinations(made.places, 2):
        apart_across = abs(one.x - other.x) >= BOX_WIDTH
        apart_down = abs(one.y - other.y) >= BOX_HEIGHT
        assert apart_across or apart_down
    for place in made.places:
        assert 0 <= place.x <= made.width - BOX_WIDTH
        assert 0 <= place.y <= made.height - BOX_HEIGHT


@given(graphs())
def test_every_edge_leads_down_from_box_to_box(reads: list[list[int]]) -> None:
    made = layout(reads)
    assert set(made.edges) == {(source, box) for box, own in enumerate(reads) for source in own}
    for (source, box), path in made.edges.items():
        upper, lower = made.places[source], made.places[box]
        assert lower.y > upper.y
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
        assert numbers[0] == pytest.approx(upper.x + BOX_WIDTH / 2, abs=0.2)
        assert numbers[1] == pytest.approx(upper.y + BOX_HEIGHT, abs=0.2)
        assert numbers[-2] == pytest.approx(lower.x + BOX_WIDTH / 2, abs=0.2)
        assert numbers[-1] == pytest.approx(lower.y, abs=0.2)


@given(graphs(most=30), st.data())
def test_folding_keeps_every_layer_once_and_boxes_of_one_colour(
    reads: list[list[int]], data: st.DataObject
) -> None:
    """With any limit on boxes, and no box reads itself by way of another."""
    words = data.draw(st.lists(st.sampled_from("ab"), min_size=len(reads), max_size=len(reads)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dashboards.charts.network_graph.MOST_BOXES", data.draw(st.integers(0, 30)))
        groups = folded(reads, words)
    assert sorted(position for group in groups for position in group) == list(range(len(reads)))
    box_of = {position: n for n, group in enumerate(groups) for position in group}
    for n, group in enumerate(groups):
        assert len({words[position] for position in group}) == 1
        assert all(box_of[read] <= n for position in group for read in reads[position])


def test_colours_are_those_of_units_or_of_what_has_a_kernel() -> None:
    alone, planned = network_graph(LAYERS, None), network_graph(LAYERS, PLAN)
    assert alone is not None
    assert planned is not None
    assert alone.legend == ((0, ON_HOST), (1, HAS_KERNEL))
    assert [box.colour for box in alone.boxes] == [1, 1, 0]
    assert planned.legend == ((0, "arm"), (1, "dsp"))
    assert [box.colour for box in planned.boxes] == [1, 1, 0]
    assert "b: conv, dsp" in planned.boxes[1].title


def test_bars_lie_in_the_rows_of_their_units_and_along_time() -> None:
    chart = gantt(PLAN, LAYERS)
    assert [name for name, _ in chart.rows] == ["arm", "dsp", "DMA arm - dsp"]
    call, first, second, copy, host = chart.pieces
    assert call.x == LEFT
    for one, two in pairwise(chart.pieces):
        assert two.x == pytest.approx(one.x + one.width, abs=0.05)
    assert host.x + host.width == pytest.approx(WIDTH - 20, abs=0.05)
    assert call.y == first.y == second.y != copy.y
    assert [piece.title for piece in (call, first, copy)] == [
        "call: 0.0 to 35.0 us",
        "a: 35.0 to 37.0 us",
        "copy of the output of b: 41.0 to 44.0 us",
    ]
    assert [label for _, label in chart.ticks] == ["0", "10", "20", "30", "40", "50"]


def test_vtcm_has_a_column_for_each_step_below_the_capacity() -> None:
    (chart,) = vtcm_charts(PLAN, LAYERS)
    assert [(step.layer, step.used_bytes) for step in chart.columns] == [("a", 512), ("b", 640)]
    first, second = chart.columns
    tall = chart.bottom - chart.capacity_y
    assert first.height == pytest.approx(tall / 2, abs=0.1)
    assert second.height == pytest.approx(tall * 640 / 1024, abs=0.1)
    assert second.y > chart.capacity_y
