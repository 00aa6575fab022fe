"""Logs for people and for programs."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from service.logs import JsonFormatter, LogFormat, log_to_stderr
from tests.rig.stand_ins import StandInGenerator, StandInMeasurer
from tuner.conformance.records import config, problem
from tuner.executor.evaluation import Evaluator
from tuner.executor.executor import ThreadExecutor
from tuner.log_ids import bound
from tuner.records.candidate import Candidate

SECRET = "hvx_k3zq7a2m_" + "a" * 52


def line(message: str, *arguments: object, **more: object) -> dict[str, object]:
    record = logging.LogRecord("hvxtune.x", logging.INFO, "x.py", 1, message, arguments, None)
    vars(record).update(more)
    found = JsonFormatter().format(record)
    assert "\n" not in found
    return json.loads(found)


def test_a_line_of_json_has_the_ids_of_its_work() -> None:
    with bound(job="ab12", trial=3):
        found = line("took %d s", 4)
    assert {found[name] for name in ("message", "level", "logger", "job", "trial")} == {
        *("took 4 s", "INFO", "hvxtune.x", "ab12", "3")
    }
    assert str(found["time"]).endswith("+00:00")
    assert "job" not in line("later")


def test_it_keeps_tokens_out_also_of_tracebacks() -> None:
    try:
        raise ValueError(SECRET)
    except ValueError:
        found = line("%s", SECRET, exc_info=sys.exc_info())
    assert "hvx_k3zq7a2m_***" in str(found["message"])
    assert "ValueError" in str(found["exception"])
    assert "aaaa" not in json.dumps(found)


@pytest.fixture
def logged(capfd: pytest.CaptureFixture[str]) -> object:
    """Gives the lines that a candidate leaves in a log of a form."""
    root, level = list(logging.getLogger().handlers), logging.getLogger("hvxtune").level

    def run(log_format: LogFormat) -> list[str]:
        log_to_stderr(log_format)
        capfd.readouterr()
        evaluator = Evaluator(StandInGenerator(), StandInMeasurer())
        with bound(job="ab12"), ThreadExecutor(evaluator, 1) as executor:
            candidate = Candidate(problem(), config(1), "halide")
            executor.submit(candidate, number=7, origin="tpe", budget_cycles=None).result()
        return capfd.readouterr().err.splitlines()

    yield run
    logging.getLogger().handlers[:] = root
    logging.getLogger("hvxtune").setLevel(level)
    logging.getLogger("hvxtune.trial").setLevel(logging.NOTSET)


def test_every_trial_leaves_a_line_of_json(logged: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVXTUNE_LOG_FORMAT", "text")
    (found,) = map(json.loads, logged(LogFormat.JSON))  # type: ignore[operator]
    assert (found["job"], found["trial"], found["device"]) == ("ab12", "7", "stand-in")
    assert found["message"].startswith("outcome ok, compile_s ")
