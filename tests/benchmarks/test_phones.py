"""The benchmark ``phones`` runs on an emulated phone and prints its rows; no word on its times."""

from __future__ import annotations

import json

import pytest

from benchmarks import harness, phones
from tests.rig.phones import require_rig


@pytest.mark.nightly
def test_the_benchmark_prices_a_trial_and_counts_calls(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HVXTUNE_ADB", str(require_rig().adb))
    monkeypatch.setattr(phones, "BUNDLE", 4)  # as many as sixteen take long to make
    assert harness.run("phones", ["--repeats", "2", "--json"]) in (0, 1), (
        "1 where a bar is not met: this machine may be busy"
    )
    found = json.loads(capsys.readouterr().out)
    times, calls = (table["rows"] for table in found["tables"])
    assert [row["add_u8"] for row in times] == ["the tool alone", "a whole trial"]
    assert all(0 < row["least ms"] <= row["median ms"] for row in times)
    assert [row["calls"] for row in calls] == [4, 1]
    assert found["bars"][1]["met"]
