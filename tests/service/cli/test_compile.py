"""``compile``: code without a run, for every target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner import measure
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.problem.target import find_target

REFUSAL = UserError("cannot run v73 code", next_step="build QEMU 8.1 or newer")


@pytest.fixture
def measurers(monkeypatch):
    """A simulator that cannot run the target, and a phone that can."""
    monkeypatch.setattr(measure, "refusals", lambda target: {"qemu": REFUSAL, "phone": None})


def test_code_is_made_for_a_target_that_nothing_here_can_run(hvxtune, bench, measurers, tmp_path):
    made = hvxtune(
        "kernel", "compile", "scale_u8", "--target", "hexagon-v73", "--object", "k.o", "--json"
    )
    assert made.status == 0
    data = (tmp_path / "k.o").read_bytes()
    assert made.json["target"] == "hexagon-v73"
    assert made.json["object_digest"] == digest_of_bytes(data)
    assert made.json["object_bytes"] == len(data)
    assert made.json["measurers"] == {"qemu": str(REFUSAL), "phone": None}


def test_a_schedule_that_does_not_compile_is_one_line(hvxtune, bench):
    bench.broken_everywhere = True
    assert "compiler aborted" in hvxtune("kernel", "compile", "scale_u8").error_line


def test_a_target_that_no_measurer_knows_is_refused_by_each():
    unknown = replace(find_target("hexagon-v66"), name="hexagon-v999", arch="v999")
    refused = measure.refusals(unknown)
    assert set(refused) == set(measure.measurer_names()) - {measure.FARM}, "no farm here"
    assert all(error is not None and "v999" in error.message for error in refused.values())
