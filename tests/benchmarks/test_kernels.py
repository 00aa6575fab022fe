"""The table of kernels: what is known is kept, what is not lowest is told, nothing old gets in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import harness, kernels

Cell = dict[str, Any]


def ok(packets: int, cycles: int, **more: Any) -> Cell:
    return {"outcome": "ok", "packets": packets, "cycles": cycles, **more}


STOPPED: Cell = {}
BY = {"config": {"generator": "halide"}}
CELLS: dict[str, Cell] = {
    "none": ok(900, 1000),
    "Li2018": {"outcome": "wrong_output", "error": "1 of 2 elements differ"},
    "C": ok(120, 210),
    "textbook": ok(130, 200),
    "best": ok(110, 150, **BY),
}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cells that were measured, in order; each gives what ``CELLS`` has at that time."""
    done: list[str] = []

    def ways(problem: Any, how: Any) -> dict[str, Callable[[], Cell]]:
        def way(name: str) -> Callable[[], Cell]:
            def run() -> Cell:
                done.append(name)
                if CELLS[name] is STOPPED:
                    raise KeyboardInterrupt
                return CELLS[name]

            return run

        return {name: way(name) for name in CELLS}

    monkeypatch.setattr(kernels, "ways", ways)
    monkeypatch.setattr(kernels, "code_digest", lambda: "this")
    return done


def run(file: Path) -> int:
    return harness.run("kernels", ["lut_u8", "--kept", str(file), "--workers", "1"])


def test_a_row_is_printed_and_the_best_is_the_lowest(
    measured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "rows.json") == 0
    assert measured == list(CELLS)
    told = capsys.readouterr()
    assert "wrong output" in told.out
    assert "110" in told.out
    assert "textbook: 130 packets" in told.err


@pytest.mark.parametrize("worse", [ok(131, 150, **BY), {"outcome": "none"}])
def test_a_best_that_is_not_lowest_in_both_fails_the_run(
    worse: Cell, measured: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CELLS, "best", worse)
    assert run(tmp_path / "rows.json") == 1
