"""Default, textbook and best schedule of a real kernel explained, from search to text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.cli import main
from tuner.measure.explanation import Explanation

KERNEL = ["gaussian5x5_u8", "-p", "width=256", "-p", "height=64"]


@pytest.fixture
def hvxtune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("HVXTUNE_DATABASE_URL", f"sqlite:///{tmp_path / 'explained.sqlite'}")

    def run(*arguments: str) -> str:
        capsys.readouterr()
        assert main(arguments) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


@pytest.mark.slow
def test_the_reader_can_tell_why_the_best_schedule_is_faster(hvxtune) -> None:
    tuned = json.loads(hvxtune("tune", *KERNEL, "--trials", "12", "--seed", "3", "--json"))
    for name in ("default", "textbook", "best"):
        measured = json.loads(
            hvxtune("kernel", "measure", *KERNEL, "--config", name, "--explain", "--json")
        )
        explanation = Explanation.from_dict(measured["explanation"])
        assert explanation.cycles == tuned[name]["cycles"]
        assert sum(part.cycles for part in explanation.parts) == explanation.cycles
        assert explanation.totals.cycles + explanation.unplaced == explanation.cycles
        assert "loop" in {region.kind for region in explanation.regions}
        assert explanation.totals.vector_instructions > 0
        assert all(p.kinds for region in explanation.regions for p in region.packets)

    arguments = ("kernel", "measure", *KERNEL, "--config", "best", "--against", "default")
    comparison = json.loads(hvxtune(*arguments, "--json"))["comparison"]
    less = tuned["best"]["cycles"] - tuned["default"]["cycles"]
    assert sum(pair["difference"] for pair in comparison["groups"]) == less < 0
    assert f"best takes {-less:,} cycles less than default" in hvxtune(*arguments)
