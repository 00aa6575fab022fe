"""Uploaded pipelines are read in a process that can do nothing else."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tuner.codegen.halide.uploads import (
    PipelineDescription,
    analyse_pipeline,
    describe_pipeline,
    readers,
)
from tuner.errors import UserError

GOOD: dict[str, Any] = {
    "stages": [{"name": "f", "dimensions": ["x"], "types": ["uint8"], "updates": 0}],
    "inputs": [{"name": "a", "type": "uint8", "dimensions": 1, "is_buffer": True}],
    "outputs": ["f"],
}


ESCAPES = {
    "a file of the machine": "open('/etc/passwd').read()",
    "its own code": "open(reader.__file__).read()",
    "its own file": "open('loopnest', 'w')",
    "its own folder": "os.listdir('.')",
    "what it is": "open('/proc/self/environ').read()",
    "a descriptor more": "os.dup(1)",
    "a socket": "__import__('socket').socket()",
    "a process": "os.fork()",
    "a thread": "threading.Thread(target=print).start()",
    "memory": "bytearray(4 << 30)",
}


@pytest.mark.parametrize("task", ["describe", "analyse"])
def test_who_opens_an_upload_reaches_nothing_else(
    task: str, fresh: readers.Readers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The attempts stand in for what a crafted pipeline might make Halide do."""
    made = ", ".join(f"{name!r}: lambda: {attempt}" for name, attempt in ESCAPES.items())
    attempts = f"""done = []
    for name, attempt in {{{made}}}.items():
        try:
            attempt()
            done.append(name)
        except (OSError, MemoryError, RuntimeError):
            pass
    raise ValueError(f"reached: {{done}}")"""
    stand_in(monkeypatch, tmp_path, attempts)
    open_pipeline = describe_pipeline if task == "describe" else partial(analyse_pipeline, sizes={})
    with pytest.raises(UserError) as refused:
        open_pipeline(b"bytes")
    own = ["its own file", "its own folder", "a descriptor more"] if task == "analyse" else []
    assert f"reached: {own}" in refused.value.message


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[readers.Readers]:
    """Readers that no other test has used, one at a time."""
    made = readers.Readers(1)
    monkeypatch.setattr(readers, "readers", lambda: made)
    yield made
    made.close()


def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str) -> None:
    """Has the reader run ``program`` where it would open an upload."""
    (tmp_path / "stand_in_reader.py").write_text(f"""
import os, sys, threading, time
from tuner.codegen.halide.uploads import reader

def answer_to(task, arguments, data):
    {program}
    sys.stdout.flush()
    return b""

reader.answer_to = answer_to
reader.main()
""")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setattr(readers, "MODULE", "stand_in_reader")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("print('[' * 100_000)", "not a pipeline"),
        ("print('{}')", "not an object"),
        ("sys.stdout.write('x' * 9_000_000)", "not a pipeline"),
        ("raise ValueError('\\x1b[2J\\udcff')", "[2J"),
    ],
    ids=["crash", "nesting", "another answer", "flood", "control characters"],
)
def test_each_end_of_the_reader_is_a_refusal(
    fresh: readers.Readers,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    program: str,
    reason: str,
) -> None:
    stand_in(monkeypatch, tmp_path, program)
    with pytest.raises(UserError) as refused:
        describe_pipeline(b"bytes")
    assert reason in refused.value.message
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 400


def test_a_reader_that_hangs_is_ended(
    fresh: readers.Readers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in(monkeypatch, tmp_path, "time.sleep(600)")
    monkeypatch.setattr(readers, "TIME_LIMIT_S", 0.2)
    with pytest.raises(UserError, match=r"more than 0\.2 s"):
        describe_pipeline(b"bytes")


def test_a_reader_that_others_keep_waiting_is_not_ended(
    fresh: readers.Readers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As on a busy machine: what counts is the processor time that it had."""
    stand_in(monkeypatch, tmp_path, "time.sleep(0.7); raise ValueError('done')")
    monkeypatch.setattr(readers, "TIME_LIMIT_S", 0.5)
    with pytest.raises(UserError, match="done"):
        describe_pipeline(b"bytes")


def test_products_of_matrices_want_no_threads(
    fresh: readers.Readers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """OpenBLAS would wait for those that it may not start, at the cost of a processor."""
    stand_in(monkeypatch, tmp_path, "reader.ones @ reader.ones; raise ValueError('done')")
    program = tmp_path / "stand_in_reader.py"
    program.write_text(
        f"import numpy\n{program.read_text()}".replace(
            "reader.main()", "reader.ones = numpy.ones((512, 512))\nreader.main()"
        )
    )
    monkeypatch.setattr(readers, "TIME_LIMIT_S", 5.0)
    with pytest.raises(UserError, match="done"):
        describe_pipeline(b"bytes")


@pytest.mark.slow
def test_nothing_of_one_upload_is_left_for_the_next(
    fresh: readers.Readers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What crafted bytes change in their process ends with it."""
    seen = "reader.seen = getattr(reader, 'seen', 0) + 1; raise ValueError(f'seen {reader.seen}')"
    stand_in(monkeypatch, tmp_path, seen)
    served = []
    for _ in range(2):
        with pytest.raises(UserError, match="seen 1"):
            describe_pipeline(b"bytes")
        served.append(fresh.processes())
    assert served[0] == served[1] != []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("outputs",), ["g"]),
        (("stages", 0, "name"), "f\n"),
        (("stages", 0, "types"), ["<script>"]),
        (("inputs", 0, "is_buffer"), 1),
        (("inputs", 0, "extra"), 1),
    ],
    ids=str,
)
def test_a_description_that_halide_would_not_give_is_refused(
    path: tuple[Any, ...], value: object
) -> None:
    data = copy.deepcopy(GOOD)
    assert PipelineDescription.from_dict(data)
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=r"\w"):
        PipelineDescription.from_dict(data)
