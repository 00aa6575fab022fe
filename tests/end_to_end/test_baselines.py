"""Baselines of an upload: the user's schedule and object, from files."""

from __future__ import annotations

import json
from pathlib import Path

import halide as hl
import pytest

from service.cli.baselines import read_baseline
from tuner.codegen import starts_of
from tuner.errors import UserError
from tuner.jobs.one_config import compiled
from tuner.jobs.tuning import keep_pipeline, tune
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.space.directives import Directive, TailStrategy

pytestmark = pytest.mark.slow
SIZE = {"x": 256, "y": 16}


@pytest.fixture(scope="module")
def kernel() -> str:
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    padded = hl.BoundaryConditions.repeat_edge(image)
    rows, out = hl.Func("rows"), hl.Func("out")
    rows[x, y] = hl.u16(padded[x - 1, y]) + hl.u16(padded[x + 1, y])
    out[x, y] = hl.u8((rows[x, y - 1] + rows[x, y + 1] + 2) >> 2)
    return keep_pipeline(out)


def _files(kernel: str, folder: Path) -> None:
    found = find_kernel(kernel)
    problem = found.problem(SIZE, Contract.STATIC, find_target("hexagon-v66"))
    artifact = compiled(problem, starts_of("halide", found, problem)["textbook"])
    (folder / "own.o").write_bytes(artifact.files["object"])
    directives = found.schedule(problem, starts_of("halide", found, problem)["textbook"])
    (folder / "own.json").write_text(json.dumps([one.as_dict() for one in directives]))
    calls = "".join(f"    {_call(one)}\n" for one in directives)
    tail = "from tuner.space import TailStrategy"
    (folder / "own.py").write_text(f"{tail}\ndef schedule(steps, x, y):\n{calls}")


def _call(one: Directive) -> str:
    args = (
        f"TailStrategy({a.value!r})" if isinstance(a, TailStrategy) else repr(a) for a in one.args
    )
    return f"steps.stage({one.func!r}, {one.update}).{one.op}({', '.join(args)})"


@pytest.mark.parametrize(
    "name", [pytest.param("own.o", marks=pytest.mark.path("an upload")), "own.py"]
)
def test_an_upload_is_told_against_its_users_schedule(
    kernel: str, name: str, tmp_path: Path
) -> None:
    _files(kernel, tmp_path)
    given = read_baseline(str(tmp_path / name), SIZE, at_service=False)
    result = tune(kernel, SIZE, store=MemoryStore(), baseline=given, trials=3, workers=1)
    assert result.baseline.number == 0
    assert result.baseline.measurement.cycles == result.textbook.measurement.cycles
    assert result.headline.name == "baseline"
    assert result.best.origin == "textbook"


def test_nothing_is_told_against_code_without_a_schedule(kernel: str) -> None:
    with pytest.raises(UserError, match="it has no schedule"):
        tune(kernel, SIZE, store=MemoryStore(), baseline="default", trials=3)
    plain = tune(kernel, SIZE, store=MemoryStore(), trials=3, workers=1)
    assert plain.default.measurement is not None
    assert plain.headline.name == "textbook"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("steps.stage('out').vectorise('x', 128)", "line 2.*vectorise"),
        ("open('/etc/passwd')", "line 2"),
        ("while True: pass", "s of processor time"),
    ],
)
def test_a_function_that_fails_is_told_with_its_line(
    body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "while" in body:
        monkeypatch.setattr("tuner.packages.python_code.CPU_LIMIT_S", 2)
    (tmp_path / "own.py").write_text(f"def best(steps, x, y):\n    {body}\n")
    with pytest.raises(UserError, match=f"own.py:best fails: .*{said}"):
        read_baseline(f"{tmp_path / 'own.py'}:best", SIZE, at_service=True)
