"""Uploaded pipelines are read in a process that can do nothing else."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.rig.uploads import serialized_pipeline
from tuner.codegen.halide.uploads import PipelineDescription, contained, describe_pipeline
from tuner.errors import ToolchainError, UserError

GOOD: dict[str, Any] = {
    "stages": [{"name": "f", "dimensions": ["x"], "types": ["uint8"], "updates": 0}],
    "inputs": [{"name": "a", "type": "uint8", "dimensions": 1, "is_buffer": True}],
    "outputs": ["f"],
}

ESCAPES = {
    "reads a file": "open('/etc/passwd').read()",
    "writes a file": "open(sys.argv[1] + '/x', 'w')",
    "connects": "__import__('socket').socket()",
    "starts a process": "os.fork()",
    "takes memory": "bytearray(4 << 30)",
}


def test_a_pipeline_is_described() -> None:
    found = describe_pipeline(serialized_pipeline())
    assert [stage.name for stage in found.stages] == ["rows", "out"]
    assert PipelineDescription.from_dict(found.as_dict()) == found


@pytest.mark.parametrize("attempt", ESCAPES.values(), ids=ESCAPES)
def test_the_reader_can_do_nothing_else(tmp_path: Path, attempt: str) -> None:
    """The attempt stands in for what a crafted pipeline might make Halide do."""
    program = f"""
import os, socket, sys
from pathlib import Path
from tuner.codegen.halide.uploads import reader
reader._give_up(Path(sys.argv[1]), 512 << 20, 10)
try:
    {attempt}
except (OSError, MemoryError):
    os._exit(7)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=60, check=False)
    assert done.returncode == 7
    assert list(tmp_path.iterdir()) == []


def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str) -> None:
    """Runs ``program`` as the reader."""
    (tmp_path / "stand_in_reader.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(contained, "MODULE", "stand_in_reader")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("print('[' * 100_000)", "not a pipeline"),
        ("print('{}')", "not an object"),
        ("import sys; sys.stdout.write('x' * 9_000_000)", "not a pipeline"),
        ("import sys; sys.stdout.buffer.write(b'\\x1b[2J\\xff'); sys.exit(3)", "[2J"),
    ],
    ids=["crash", "nesting", "another answer", "flood", "control characters"],
)
def test_each_end_of_the_reader_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, reason: str
) -> None:
    stand_in(monkeypatch, tmp_path, program)
    with pytest.raises(UserError) as refused:
        describe_pipeline(b"bytes")
    assert reason in refused.value.message
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 400


def test_a_reader_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, "import time; time.sleep(600)")
    monkeypatch.setattr(contained, "TIME_LIMIT_S", 0.2)
    with pytest.raises(UserError, match=r"more than 0\.2 s"):
        describe_pipeline(b"bytes")


def test_a_missing_compiler_is_no_fault_of_the_upload(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in(monkeypatch, tmp_path, "import no_such_compiler")
    with pytest.raises(ToolchainError, match="doctor"):
        describe_pipeline(b"bytes")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("outputs",), []),
        (("outputs",), ["g"]),
        (("outputs",), "f"),
        (("stages", 0, "name"), "f\n"),
        (("stages", 0, "name"), "x" * 201),
        (("stages", 0, "types"), ["<script>"]),
        (("stages", 0, "updates"), -1),
        (("stages", 0, "updates"), True),
        (("stages", 0, "dimensions"), ["x"] * 33),
        (("inputs", 0, "is_buffer"), 1),
        (("inputs", 0, "extra"), 1),
        (("inputs",), [None]),
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
