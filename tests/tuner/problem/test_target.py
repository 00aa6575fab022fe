"""Targets: their names and figures."""

from __future__ import annotations

import pytest

from tuner.errors import ToolchainError
from tuner.problem.target import (
    TARGET_ROWS,
    read_targets,
    target_sources,
)

ROW = """
[sources]
manual = "a manual"
[[target]]
arch = "v73"
hvx_contexts = [4, "manual"]
vtcm_kib = [4096, "manual"]
l2_kib = [1024, "manual"]
l1d_kib = [16, "manual"]
"""
CHIP = '[[target]]\narch = "v73"\nsoc = "sm8550"\n'


def test_a_chip_has_the_figures_of_its_arch_that_it_does_not_state() -> None:
    rows = read_targets(ROW + CHIP + 'vtcm_kib = [8192, "manual"]\nclock_ghz = [1.4, "manual"]\n')
    arch, chip = rows["hexagon-v73"], rows["hexagon-v73-sm8550"]
    assert chip.target.vtcm_bytes == 2 * arch.target.vtcm_bytes
    assert chip.target.l1d_bytes == arch.target.l1d_bytes
    assert chip.known("clock_ghz") == 1.4
    assert arch.known("clock_ghz") is None


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (CHIP + "vtcm_kib = [8192]\n", r"vtcm_kib = \[8192\] has no source"),
        (CHIP + 'clock_ghz = [1.4, "hearsay"]\n', "clock_ghz has the unknown source 'hearsay'"),
        (CHIP + CHIP, "hexagon-v73-sm8550 is listed twice"),
    ],
)
def test_a_row_without_a_source_or_with_nonsense_is_refused(rows: str, says: str) -> None:
    with pytest.raises(ToolchainError, match=says) as caught:
        read_targets(ROW + rows)
    assert caught.value.accepted
    assert "targets.toml" in caught.value.next_step


def test_every_source_is_told_in_full_and_used() -> None:
    used = {figure.source for row in TARGET_ROWS.values() for figure in row.figures.values()}
    assert used == {*target_sources()}
