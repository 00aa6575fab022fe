"""``tune``, ``resume``, ``jobs`` and ``show``, on stand-ins for compiler and simulator."""

from __future__ import annotations

import os
import signal
from collections import Counter
from itertools import count, pairwise

import pytest

from service.cli.statuses import Exit
from tests.rig.scale_u8 import ScaleU8
from tuner.errors import CandidateError, ToolchainError
from tuner.records.outcome import Outcome

TUNE = ["tune", "scale_u8", "--trials", "12", "--workers", "1", "--seed", "3"]


def test_tune_prints_one_object(hvxtune, bench):
    answer = hvxtune(*TUNE, "--json")
    assert answer.status == 0
    result = answer.json
    assert result["state"] == "done"
    assert result["outcomes"] == {"ok": 12}
    assert result["budget"] == {"trials": 12, "seconds": None, "patience": None, "until_gain": None}
    for name in ("default", "textbook", "best"):
        assert result[name]["verified"] is True
        assert result[name]["cycles"] > 0
        assert result[name]["packets"] > 0
        assert set(result[name]["config"]) >= {"generator", "vectors", "unroll_rows", "behave"}
    assert result["best"]["cycles"] <= min(result[n]["cycles"] for n in ("default", "textbook"))
    last = answer.err.splitlines()[-1]
    assert "scale_u8: 12/12 trials" in last
    assert f"best {result['best']['cycles']:,} cycles" in last
    shown = hvxtune("show", result["job"][:-2], "--json").json
    assert [trial["trial"] for trial in shown["trials"]] == list(range(12))
    assert [trial["origin"] for trial in shown["trials"][:2]] == ["textbook", "default"]
    assert shown["best"] in shown["trials"]
    share = result["roofline"]["cycles"] / result["best"]["cycles"]
    assert result["best"]["share_of_roofline"] == pytest.approx(share, abs=1e-4)


@pytest.mark.slow
def test_tune_with_several_goals_gives_their_front(hvxtune, bench):
    answer = hvxtune(*TUNE, "--objectives", "cycles,code_bytes", "--json")
    result = answer.json
    assert (result["objectives"], result["sampler"]) == (["cycles", "code_bytes"], "tpe")
    front = result["pareto"]
    assert front[0]["trial"] == result["best"]["trial"]
    for faster, slower in pairwise(front):
        assert faster["cycles"] < slower["cycles"]
        assert faster["code_bytes"] > slower["code_bytes"]
    assert f"{len(front)} on the front" in answer.err.splitlines()[-1]
    text = hvxtune(*TUNE, "--objectives", "cycles,code_bytes").out
    assert "no other trial is better in cycles and code_bytes" in text


def test_a_job_without_one_valid_trial_fails(hvxtune, bench):
    bench.broken_everywhere = True
    answer = hvxtune(*TUNE, "--json")
    assert answer.status == 1
    assert answer.json["state"] == "failed"
    assert answer.json["best"] is None
    assert answer.json["default"]["outcome"] == "compiler_crash"
    assert answer.json["default"]["cycles"] is None
    assert answer.json["default"]["verified"] is False
    assert "Traceback" not in answer.err
    text = hvxtune("show", answer.json["job"]).out
    assert "compiler_crash" in text


def test_a_space_that_is_used_up_before_the_trials_says_so(hvxtune, bench):
    told = "the space is used up: all {} configurations that differ were tried"
    tune = ["tune", "scale_u8", "--generator", "halide", "--trials", "1000", "--workers", "1"]
    result = hvxtune(*tune, "--json").json
    tried = sum(result["outcomes"].values())
    assert (result["state"], result["note"]) == ("done", told.format(tried))
    assert tried < 1000
    assert f"ended: {told.format(tried)}" in " ".join(hvxtune(*tune).out.split())


def test_a_textbook_that_is_the_unscheduled_default_is_told_as_none(hvxtune, bench, monkeypatch):
    monkeypatch.setattr(ScaleU8, "default_is_naive", True)
    monkeypatch.setattr(ScaleU8, "textbook_config", ScaleU8.default_config)
    tune = [*TUNE, "--generator", "halide"]
    result = hvxtune(*tune, "--json").json
    assert result["textbook_is_unscheduled"] is True
    assert (result["textbook"], result["textbook_cycles"], result["told_against"]) == (None,) * 3
    assert result["default"]["cycles"] >= result["best"]["cycles"]
    text = hvxtune(*tune).out
    assert "no textbook: its schedule is the default, unscheduled" in text
    assert "textbook HVX" not in text


def test_a_result_says_which_generators_are_left_out_and_why(hvxtune, bench):
    reasons = hvxtune(*TUNE, "--json").json["left_out"]
    assert set(reasons) == {"c-autovec", "hvx", "intrinsics"}
    assert reasons["hvx"] == "it states no program"
    assert "hvx: it states no program" in " ".join(hvxtune(*TUNE).out.split())
    assert hvxtune(*TUNE, "--generator", "halide", "--json").json["left_out"] == {}


def test_a_summary_says_what_failed_most_how_often_and_why(hvxtune, bench, monkeypatch):
    numbers = count(1)

    def fault(config):
        n = next(numbers)
        if (config["vectors"], config["unroll_rows"]) == (1, 1):
            return None
        if config["vectors"] < 5:
            told = f"output[0, {n}] is -{n}, reference {n}; {n} of 9 elements differ (case {n}, A)"
            return CandidateError(Outcome.WRONG_OUTPUT, told)
        return CandidateError(Outcome.INFEASIBLE, f"asked for {n:,}000 bytes of VTCM")

    monkeypatch.setattr(bench, "fault", fault)
    result = hvxtune(*TUNE, "--json").json
    shown = hvxtune("show", result["job"], "--json").json
    failed = [t for t in shown["trials"] if t["outcome"] != "ok"]
    found = result["failures"]
    assert {one["outcome"]: one["count"] for one in found} == Counter(
        trial["outcome"] for trial in failed
    )
    assert [one["count"] for one in found] == sorted((o["count"] for o in found), reverse=True)
    for one in found:
        first = next(t for t in failed if t["outcome"] == one["outcome"])
        assert (one["trial"], one["reason"]) == (first["trial"], first["error"])
    text = " ".join(hvxtune(*TUNE).out.split())
    assert "textbook HVX: wrong_output: output[0" in text
    for one in found:
        assert f"{one['count']} of 12 trials failed alike, with {one['outcome']}: " in text
        assert one["next_step"] in text


def test_ctrl_c_stops_in_order_and_resume_finishes(hvxtune, bench):
    calls = count(1)
    bench.on_measure = lambda: os.kill(os.getpid(), signal.SIGINT) if next(calls) == 4 else None
    stopped = hvxtune(*TUNE, "--json")
    assert stopped.status == 130
    assert (stopped.json["state"], stopped.json["interrupted"]) == ("stopped", True)
    assert 4 <= sum(stopped.json["outcomes"].values()) < 12
    job = stopped.json["job"]
    assert f"job {job} stopped: " in hvxtune("show", job).out
    (row,) = (line for line in hvxtune("jobs").out.splitlines() if job in line)
    assert row.split()[:2] == [job, "stopped"]

    resumed = hvxtune("job", "resume", job, "--json")
    assert resumed.status == 0
    assert resumed.json["job"] == job
    assert resumed.json["outcomes"] == {"ok": 12}

    for request in ("resume", "pause", "cancel"):
        answer = hvxtune("job", request, job)
        assert answer.status == Exit.USAGE
        assert f"job {job} is done: it can no longer {request}" in answer.error_line


def test_a_broken_machine_stops_the_job_and_says_how_to_go_on(hvxtune, bench):
    calls = count(1)

    def lose_the_simulator():
        if next(calls) > 5:
            raise ToolchainError("qemu-hexagon is gone", next_step="run `hvxtune setup`")

    bench.on_measure = lose_the_simulator
    stopped = hvxtune(*TUNE)
    listed = hvxtune("jobs", "--json").json["jobs"][0]
    assert stopped.status == Exit.MISSING
    assert stopped.out == ""
    assert stopped.err.splitlines()[-1] == (
        "error: qemu-hexagon is gone. run `hvxtune setup`; then: "
        f"hvxtune job resume {listed['job']}."
    )
    assert listed["outcomes"] == {"ok": 5}

    bench.on_measure = lambda: None
    assert hvxtune("job", "resume", listed["job"], "--json").json["outcomes"] == {"ok": 12}
