"""``tune --set``, on stand-ins for compiler and simulator."""

from __future__ import annotations

import threading

import pytest

from db import open_store
from tests.rig.stand_ins import StandInMeasurer
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import DeviceError
from tuner.records.trial import NOT_REACHED, JobState

LAYERS = """
[[layers]]
name = "first"
kernel = "scale_u8"
[[layers]]
name = "second"
kernel = "scale_u8"
params = { n = 1024 }
[[layers]]
name = "third"
kernel = "scale_u8"
"""


@pytest.fixture
def tune(hvxtune, bench, tmp_path, monkeypatch):
    (tmp_path / "net.toml").write_text(LAYERS)

    def run(*arguments: str):
        return hvxtune("tune", "--set", "net.toml", "--workers", "1", *arguments)

    return run


@pytest.mark.slow
def test_every_layer_has_a_row_and_all_have_a_sum(tune):
    form = tune("--trials", "20", "--json").json
    assert [row["layers"] for row in form["jobs"]] == [["first", "third"], ["second"]]
    assert [row["occurrences"] for row in form["jobs"]] == [2, 1]
    assert {row["state"] for row in form["jobs"]} == {"done"}
    assert sum(row["finished"] for row in form["jobs"]) == 20
    for which in ("textbook", "best"):
        cycles = [row[f"{which}_cycles"] for row in form["jobs"]]
        assert form["total"][f"{which}_cycles"] == 2 * cycles[0] + cycles[1]
    assert form["total"]["speedup"] >= 1
    assert form["total"]["layers"] == form["total"]["layers_of_set"] == 3


@pytest.mark.slow
def test_what_the_time_cuts_short_is_no_trial_and_the_command_ends(tune, bench, monkeypatch):
    running, closed = threading.Event(), threading.Event()

    def run_until_closed():
        running.set()
        assert closed.wait(PATIENCE_S)
        raise DeviceError("the simulator was closed")

    bench.on_measure = run_until_closed
    close = lambda self: closed.set() if running.is_set() else None  # noqa: E731
    monkeypatch.setattr(StandInMeasurer, "close", close)
    answer = tune("--seconds", "1", "--json")
    assert answer.status == 1
    assert [row["finished"] for row in answer.json["jobs"]] == [0, 0]
    assert {row["state"] for row in answer.json["jobs"]} == {"not reached"}


def test_what_the_budget_did_not_reach_is_said(tune, hvxtune):
    text = tune("--trials", "1").out
    assert "not reached" in text
    assert "of 3 calls" in text
    listed = hvxtune("jobs", "--members").out
    assert "cancelled" not in listed
    assert "not reached" in listed
    (batch,) = hvxtune("jobs", "--json").json["batches"]
    assert batch["jobs_by_state"] == {"done": 1, "not reached": 1}
    shown = hvxtune("show", batch["batch"])
    assert "1 done, 1 not reached" in shown.out
    assert "its trials so far" not in shown.out, "all of it has ended"
    with open_store() as store:
        notes = {job.note for job in store.jobs() if job.state is JobState.CANCELLED}
    assert notes == {NOT_REACHED}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "0"], "--trials 0"),
        (["--until-gain", "1%"], "leave --until-gain out"),
        (["--target", "v1"], "unknown target 'v1'"),
    ],
)
def test_what_cannot_be_is_refused(tune, arguments, message):
    assert message in tune(*arguments).error_line
