"""The benchmark of a network's layers against published times."""

from __future__ import annotations

import pytest

from benchmarks.silicon_network import compared, published


def _layer(name: str, calls: int, schedule: str = "textbook", cycles: int = 0) -> dict[str, object]:
    return {"name": name, "calls": calls, "schedule": schedule, "cycles": cycles}


def test_a_call_has_the_times_of_all_its_layers() -> None:
    times = published()
    assert sum(us for _, us in times.values()) == 8242
    run = {
        "layers": [
            _layer("Conv_0", 1, cycles=9),
            _layer("Conv_5", 0, "Conv_7"),
            _layer("Conv_7", 1, cycles=20),
            _layer("Flatten_98", 0, "host"),
            _layer("unknown", 1, cycles=3),
        ]
    }
    found = compared(run, times)
    assert [(c.layer, c.kind, c.cycles) for c in found] == [
        ("Conv_0", "conv3x3s2", 9),
        ("Conv_7", "dw3x3s2", 20),
    ]
    assert [c.us for c in found] == pytest.approx([254, 287 + 162])
