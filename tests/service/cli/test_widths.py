"""Lists fit the terminal at any width, and cut nothing off."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys

import pytest

from db import open_store
from service.cli import output
from tests.service.cli.test_batches import stored
from tests.service.stored import unfit_conductor
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, ok, pending, spec
from tuner.machine import doctor
from tuner.measure.farm.roster import Enrolment
from tuner.measure.finding import Finding
from tuner.records.trial import JobState, Submission

FINDINGS = [
    Finding("halide", True, "21.0.0", "compiling schedules", "pip install hvxtune"),
    Finding(
        "qemu-hexagon",
        False,
        "not on the PATH, and none was unpacked in the cache of this machine",
        "running candidates: every job that measures with the simulator, on any target",
        "run `hvxtune setup`, or set HVXTUNE_QEMU to a qemu-hexagon that loads plugins; "
        "docs/targets.md says which versions do and how to build one without being root",
    ),
]
LISTS = [
    *(
        ["kernel", "list"],
        ["kernel", "space", "gemm_u8"],
        ["kernel", "pipelines"],
        ["package", "list"],
    ),
    *(["jobs"], ["jobs", "--members"], ["show", "JOB"], ["show", "BATCH"], ["job", "top"]),
    *(["cluster", "list"], ["farm", "list"], ["farm", "kinds"]),
    *(["token", "list", "--all"], ["token", "audit"], ["doctor"], ["tool", "where"]),
]


@pytest.fixture
def lab(hvxtune, monkeypatch):
    """A database with something in every list; the ids of jobs and a batch."""
    monkeypatch.setattr(doctor, "examine", lambda: FINDINGS)
    with open_store() as store:
        job = store.create_job(
            spec(label="before the new tiling"), SPACE, TOOLCHAIN, Submission("ann", 7)
        )
        token, made = store.claim(job.id), artifact(1)
        store.commit(job.id, token, started=[pending(0)])
        store.commit(job.id, token, finished=[ok(0, made, 1_234_567)], artifacts=[made])
        store.release(job.id, token, JobState.FAILED, "the compile server of this machine ended")
        queued = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("vision-team"))
        batch = stored(store)
        unfit_conductor(store)
        roster = store.roster()
        roster.enrol(Enrolment("pixel-in-the-second-rack", "phone", "hardware", ("v68", "lab-2")))
    created = hvxtune("token", "create", "--name", "ci", "--scope", "read", "--scope", "submit")
    assert created.status == 0
    return {"JOB": job.id, "BATCH": batch.id, "QUEUED": queued.id}


def lines_of(hvxtune, command, ids) -> list[str]:
    return hvxtune(*(ids.get(word, word) for word in command)).out.splitlines()


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_lists_fit_the_terminal_and_cut_no_id(columns, hvxtune, lab, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("service.cli.watching.time.sleep", stop)
    shown = {" ".join(command): lines_of(hvxtune, command, lab) for command in LISTS}
    assert [command for command, lines in shown.items() if not lines] == []
    # A line of one word, such as a path, cannot be broken.
    assert [
        (command, line)
        for command, lines in shown.items()
        for line in lines
        if len(line) > columns and len(line.split()) > 1
    ] == []
    assert [c for c, lines in shown.items() if "\N{HORIZONTAL ELLIPSIS}" in "".join(lines)] == []
    for command, ids in (
        ("jobs", [lab["JOB"], lab["BATCH"]]),
        ("jobs --members", [lab["JOB"], lab["QUEUED"]]),
        ("show BATCH", [lab["BATCH"]]),
        ("job top", [lab["QUEUED"]]),
    ):
        words = " ".join(shown[command]).split()
        assert [name for name in ids if name not in words] == []


@pytest.mark.parametrize("group", ["", "token", "farm", "network"])
def test_lists_of_commands_fit_the_terminal_and_cut_no_sentence(group, hvxtune, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = hvxtune(*group.split(), "--help").out.splitlines()
    assert max(map(len, lines)) <= 60
    begin = lines.index("Commands:" if group else "Daily work:")
    listed = lines[begin + 1 :]
    assert len(listed) > 2
    assert [line for line in listed if line.endswith("...")] == []


def stop(_seconds: float) -> None:
    raise KeyboardInterrupt


def test_a_pipe_has_80_columns_and_a_row_begins_in_one_line(hvxtune, lab, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    for command in (["doctor"], ["kernel", "space", "gemm_u8"]):
        lines = lines_of(hvxtune, command, lab)
        assert max(map(len, lines)) <= 80
    row = next(line for line in lines_of(hvxtune, ["jobs"], lab) if lab["JOB"] in line)
    assert "failed" in row, "such as `hvxtune jobs | grep failed`"


def test_a_figure_never_stands_without_its_unit(hvxtune, lab, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = lines_of(hvxtune, ["show", "JOB"], lab)
    assert any(line.startswith("best found   model cycles: 1,234,567") for line in lines)


def test_a_folded_command_is_one_for_the_shell(hvxtune, lab, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    output.print_command("use it:      ", "printf %s, " + " ".join(f"word{n}" for n in range(20)))
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 60
    done = subprocess.run(
        ["sh", "-c", shown.removeprefix("use it:")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "".join(f"word{n}," for n in range(20))


COLOUR = re.compile(r"\x1b\[[0-9;]*(?:3[0-8]|4[0-8]|9[0-7])[0-9;]*m")
DRAWING = """
from service.cli import main
from service.cli.progress import JobProgress, shown
with shown("add_u8") as show:
    show(JobProgress(3, 4, {"ok": 3}, 12, 1.0, 1.0))
main(["kernel", "list"])
"""


def on_a_terminal(program: str, **variables: str) -> str:
    """What ``program`` sends a terminal of 80 columns that knows colours."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "80", **variables}
    running = subprocess.Popen(
        [sys.executable, "-c", program], stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    sent = b""
    with contextlib.suppress(OSError):  # the other side is closed
        while part := os.read(ours, 1 << 16):
            sent += part
    os.close(ours)
    assert running.wait() == 0
    return sent.decode()


def test_no_color_means_no_colour() -> None:
    assert COLOUR.search(on_a_terminal(DRAWING))
    plain = on_a_terminal(DRAWING, NO_COLOR="1")
    assert "gemm_u8" in plain
    assert COLOUR.search(plain) is None
