"""Packages with a mistake are refused by file, line or key, with the reason and the next step."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tuner.packages.broken import edit, good_package, line_of, opened
from tuner.errors import UserError
from tuner.problem.contract import Contract
from tuner.problem.target import find_target


@dataclass(frozen=True)
class Mistake:
    """``old`` becomes ``new`` in ``file``. The error then has ``said``, and names the line with
    ``line`` (of the broken file), where one is to blame."""

    what: str
    old: str
    new: str
    said: tuple[str, ...]
    line: str = ""
    file: str = "kernel.toml"
    kind: str = "c"


MISTAKES = [
    Mistake("bad TOML", 'kind = "c"', 'kind = "c', ("is not TOML", "line")),
    Mistake("missing key", "contracts = ", "contract_list = ", ("unknown key contract_list",)),
    Mistake("path escape", '"blur.c"', '"../blur.c"', ("../blur.c",), "../blur.c"),
    Mistake("division by zero", '"height + 2"', '"height // 0"', ("divides by zero",), "// 0"),
    Mistake("code in a shape", '"height + 2"', "\"__import__('os')\"", ("__import__",), "import"),
    Mistake("config outside", "ROWS = 1", "ROWS = 3", ("ROWS=3", "1, 2, 4, 8"), "[configs.b"),
    Mistake(
        "tolerance of integers",
        "[configs.baseline]",
        "[tolerance.dst]\nulp = 1\n[configs.baseline]",
        ("'dst'", "every bit"),
        "[tolerance.dst]",
    ),
    Mistake("no output", 'role = "output"', 'role = "input"', ("output",)),
    Mistake("open setting", '["height", "width"]', '["height", 512]', (), ""),
    Mistake("flag", 'kind = "c"', 'kind = "c"\nflags = ["-o/tmp/x"]', ("-o/tmp/x",), "-o/tmp/x"),
    Mistake(
        "header outside",
        "<stdint.h>",
        '"../../secret.h"',
        ("../../secret.h", "build.headers"),
        "secret",
        "blur.c",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.what)
def test_a_mistake_is_refused_where_it_is(mistake: Mistake, tmp_path: Path) -> None:
    folder = good_package(tmp_path / "package", mistake.kind)
    opened(folder)
    edit(folder, mistake.old, mistake.new, mistake.file)
    if mistake.what == "open setting":
        edit(folder, 'shape = ["height + 2", "width"]', 'shape = ["height + 2", 512]')
        mistake = Mistake("", "", "", ("width", "is_extent = false"), "[params.width]")
    with pytest.raises(UserError) as refused:
        opened(folder)
    error = refused.value
    assert mistake.file in error.message
    assert [part for part in mistake.said if part not in str(error)] == []
    assert error.next_step or error.accepted
    if mistake.line:
        assert f"{mistake.file}:{line_of(folder, mistake.line, mistake.file)}:" in error.message


@pytest.mark.parametrize("named", ["ROWS = 4\n", "UNROLL = 2\n", "", "ROWS = 2\nUNROLL = 4\n"])
def test_a_config_may_leave_out_any_knob(named: str, tmp_path: Path) -> None:
    folder = good_package(tmp_path / "package")
    edit(folder, "ROWS = 1\nUNROLL = 1\n", named)
    kernel = opened(folder)
    problem = kernel.problem(None, Contract.STATIC, find_target("hexagon-v66"))
    values = {"ROWS": 1, "UNROLL": 1, **tomllib.loads(named)}
    config = kernel.baseline_config(problem)
    assert config is not None
    assert {name: config[name] for name in values} == values


def test_a_folder_without_kernel_toml_names_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no kernel\.toml") as refused:
        opened(tmp_path)
    assert "hvxtune package new" in refused.value.next_step


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = good_package(tmp_path / "package")
    (tmp_path / "outside.c").write_text("int secret;\n")
    (folder / "blur.c").unlink()
    (folder / "blur.c").symlink_to(tmp_path / "outside.c")
    with pytest.raises(UserError, match="leads out of the package"):
        opened(folder)


def test_bytes_that_are_no_object_are_refused(tmp_path: Path) -> None:
    folder = good_package(tmp_path / "package")
    text = (folder / "kernel.toml").read_text()
    text = text.replace('kind = "c"\nsources = ["blur.c"]', 'kind = "object"\nfile = "b{ROWS}.o"')
    (folder / "kernel.toml").write_text(text)
    for rows in (1, 2, 4, 8):
        (folder / f"b{rows}.o").write_bytes(b"not ELF")
    with pytest.raises(UserError, match=r"b1\.o is not ELF") as refused:
        opened(folder)
    assert f"kernel.toml:{line_of(folder, 'file = ')}" in refused.value.message
