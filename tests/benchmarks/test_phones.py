"""``make bench-phones`` runs on an emulated phone and prints its rows; no word on its times."""

from __future__ import annotations

import re
import sys

import pytest

from benchmarks import phones
from tests.rig.phones import require_rig


@pytest.mark.slow
def test_the_benchmark_prices_a_trial_and_counts_calls(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HVXTUNE_ADB", str(require_rig().adb))
    monkeypatch.setattr(sys, "argv", ["phones", "--repeats", "2"])
    monkeypatch.setattr(phones, "BUNDLE", 4)  # as many as sixteen take long to make
    assert phones.main() in (0, 1), "1 where a bar is not met: this machine may be busy"
    said = capsys.readouterr().out
    for row in ("the tool alone", "a whole trial"):
        assert re.search(rf"^add_u8: {row} \d+ ms, median \d+$", said, re.MULTILINE), said
    assert re.search(r"^a trial beyond its run: -?\d+ ms, at most 60: (met|MISSED)$", said, re.M)
    assert re.search(
        r"^4 candidates one by one: 4 calls, [\d.]+ s; in a bundle: 1 calls, [\d.]+ s: "
        r"4 times fewer: met$",
        said,
        re.M,
    ), said
