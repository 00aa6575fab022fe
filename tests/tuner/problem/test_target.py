"""Targets: their names and figures, and that the documents show the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tuner.errors import UserError
from tuner.measure.qemu.model import find_model
from tuner.problem.target import KIB, TARGETS, find_target

PAGE = Path(__file__).parents[3] / "docs/simulator.md"


def test_the_archs_of_the_simulator_have_a_target_each() -> None:
    assert {"v65", "v66", "v68", "v69", "v73"} <= {t.arch for t in TARGETS.values()}


@pytest.mark.parametrize("name", TARGETS)
def test_the_documents_show_every_figure_and_where_it_is_from(name: str) -> None:
    target = TARGETS[name]
    row = re.search(rf"^\| `{name}` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert row is not None
    *figures, source = row[1].split(" | ")
    sizes = (target.vtcm_bytes, target.l2_bytes, target.l1d_bytes)
    assert figures == [str(target.hvx_contexts), *(f"{size // KIB} KiB" for size in sizes)]
    assert source


@pytest.mark.parametrize("name", TARGETS)
def test_the_timing_model_can_lay_out_the_caches_of_every_target(name: str) -> None:
    target = find_target(name)
    assert find_model(target.arch).hierarchy.packed(target)


def test_an_unknown_target_names_those_there_are() -> None:
    with pytest.raises(UserError, match="hexagon-v73-sm8550") as caught:
        find_target("hexagon-v37")
    assert "hexagon-v73" in caught.value.next_step
