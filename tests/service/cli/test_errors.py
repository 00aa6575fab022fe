"""Bad input: one line that names the value and what is accepted, a status, no traceback."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from service.cli import catalogue
from service.cli.statuses import Exit
from tuner.errors import ToolchainError

WRONG_REQUESTS = {
    "unknown command": (["tun"], ["'tun'", "did you mean tune?", "kernel"]),
    "unknown option": (["tune", "scale_u8", "--trails", "3"], ["--trails", "--trials"]),
    "no kernel": (["tune"], ["KERNEL", "scale_u8"]),
    "unknown kernel": (["tune", "scale_u9"], ["'scale_u9'", "scale_u8"]),
    "unknown parameter": (["tune", "scale_u8", "-p", "w=4"], ["'w'", "h, n"]),
    "parameter without value": (
        ["kernel", "space", "scale_u8", "-p", "h"],
        ["'h'", "NAME=INTEGER"],
    ),
    "parameter twice": (["kernel", "space", "scale_u8", "-p", "h=4", "-p", "h=5"], ["h", "twice"]),
    "shape of zero": (["tune", "scale_u8", "-p", "h=0"], ["h=0", "1 to 65536"]),
    "huge shape": (["tune", "scale_u8", "-p", "h=" + "9" * 30], ["-p h", "9" * 30]),
    "shape off its contract": (
        ["tune", "scale_u8", "-p", "n=100", "--contract", "extent"],
        ["100", "multiples of 128"],
    ),
    "unknown target": (["tune", "scale_u8", "--target", "hexagon-v60"], ["v60", "hexagon-v66"]),
    "no trials": (["tune", "scale_u8", "--trials", "0"], ["--trials 0", "1 to"]),
    "unknown choice": (["tune", "scale_u8", "--cache", "hot"], ["--cache", "'hot'", "warm, cold"]),
    "no such config": (
        ["kernel", "measure", "scale_u8", "--config", "nowhere"],
        ["'nowhere'", "textbook"],
    ),
    "config not JSON": (["kernel", "measure", "scale_u8", "--config", "text"], ["'text'", "JSON"]),
    "unknown knob": (
        ["kernel", "measure", "scale_u8", "--config", "knob"],
        ["'vektors'", "vectors"],
    ),
}
NOTHING_STORED = {
    "no schedule": (["best", "scale_u8"], ["scale_u8 h=4 n=512", "hvxtune tune scale_u8"]),
    "unknown job": (["show", "zzz"], ["'zzz'"]),
    "unknown device": (["farm", "drain", "zzz"], ["'zzz'", "farm file"]),
    "unknown upload": (["kernel", "space", "pipeline:zzz"], ["zzz", "--pipeline FILE"]),
}

FILES = {
    "text": "m = 4",
    "knob": '{"vektors": 1}',
}


@pytest.fixture
def files(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)


@pytest.mark.parametrize(("arguments", "named"), WRONG_REQUESTS.values(), ids=WRONG_REQUESTS.keys())
def test_a_wrong_request_is_one_line_that_helps(arguments, named, hvxtune, bench, files):
    refused(hvxtune, arguments, named, Exit.USAGE)


@pytest.mark.parametrize(("arguments", "named"), NOTHING_STORED.values(), ids=NOTHING_STORED.keys())
def test_nothing_stored_is_told_from_wrong_usage(arguments, named, hvxtune, bench):
    refused(hvxtune, arguments, named, Exit.NOT_STORED)


def refused(hvxtune, arguments, named, status):
    answer = hvxtune(*arguments)
    assert answer.status == status
    line = answer.error_line
    assert line.startswith("error: ")
    assert [text for text in named if text not in line] == []
    stored = hvxtune("jobs", "--json").json
    assert stored == {"jobs": [], "batches": []}, "nothing is stored for a wrong request"


def test_an_error_is_an_object_with_json(hvxtune, bench):
    error = json.loads(hvxtune("tune", "scale_u9", "--json").error_line)["error"]
    assert error["kind"] == "user"
    assert error["message"] == "unknown kernel 'scale_u9'"
    assert "scale_u8" in error["accepted"]
    assert error["next_step"] == "did you mean scale_u8?"


def test_a_broken_installation_has_a_status_of_its_own(hvxtune, monkeypatch):
    def fail(*arguments):
        raise ToolchainError("qemu-hexagon is missing", next_step="run `hvxtune setup`")

    monkeypatch.setattr(catalogue, "read_problem", fail)
    answer = hvxtune("kernel", "space", "scale_u8")
    assert answer.status == Exit.MISSING
    assert answer.error_line == "error: qemu-hexagon is missing. run `hvxtune setup`."


def test_a_fault_of_our_own_is_one_line_and_shows_more_on_request(hvxtune, monkeypatch):
    def fail(*arguments):
        raise ValueError("two\nlines")

    monkeypatch.setattr(catalogue, "read_problem", fail)
    answer = hvxtune("kernel", "space", "scale_u8")
    assert answer.status == 1
    assert "ValueError: two lines" in answer.error_line
    assert "HVXTUNE_DEBUG=1" in answer.error_line
    monkeypatch.setenv("HVXTUNE_DEBUG", "1")
    with pytest.raises(ValueError, match="two"):
        hvxtune("kernel", "space", "scale_u8")


def test_a_corrupt_database_is_named_and_kept(hvxtune, bare_state):
    database = bare_state / "hvxtune.sqlite"
    database.parent.mkdir()
    database.write_bytes(b"no database" * 1000)
    answer = hvxtune("jobs")
    assert answer.status == Exit.UNREACHABLE
    assert str(database) in answer.error_line
    assert database.read_bytes() == b"no database" * 1000


def test_a_state_directory_that_is_a_file_is_named(hvxtune, bare_state):
    bare_state.write_text("in the way")
    answer = hvxtune("jobs")
    assert answer.status == Exit.UNREACHABLE
    assert str(bare_state) in answer.error_line


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&-"])
def test_a_stream_that_is_closed_is_met_with_silence(closed: str) -> None:
    command = f"exec {sys.executable} -m service.cli token list --bogus {closed}; exit $?"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert ended.returncode == Exit.USAGE
    shown = ended.stdout + ended.stderr
    assert "--bogus" in shown if "2>" not in closed else shown == ""
    listed = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m service.cli targets {closed}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == Exit.DONE
    assert listed.stderr == ""
