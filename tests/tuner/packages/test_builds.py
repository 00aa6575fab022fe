"""Each way to an object gives right code, and failures that only a build shows say why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.rig.cpp_compilers import NEEDS_CPP
from tests.tuner.packages.broken import edit, good_package, opened
from tuner.codegen.packaged import PackageGenerator
from tuner.errors import UserError
from tuner.packages import python_code
from tuner.packages.check import Checked, checked
from tuner.packages.files import keep
from tuner.packages.skeletons import skeleton_names
from tuner.problem.target import find_target


def checks(folder: Path) -> Iterator[Checked]:
    kernel = opened(folder)
    keep(kernel.package)
    yield from checked(kernel, find_target("hexagon-v66"))


_MARKS = {"generator": NEEDS_CPP, "c": pytest.mark.path("a package")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [pytest.param(n, marks=_MARKS.get(n, ())) for n in skeleton_names()],
)
def test_a_skeleton_is_right_as_it_is_and_uses_hvx(kind: str, tmp_path: Path) -> None:
    folder = good_package(tmp_path / "package", kind)
    found = list(checks(folder))
    assert [one.error for one in found if one.explanation is None] == []
    assert {one.problem.contract.value for one in found} == {
        *opened(folder).package.manifest.contracts
    }
    assert all(one.as_dict()["vector_packets"] > 1000 for one in found)


@pytest.mark.slow
def test_ready_objects_are_chosen_by_knobs(tmp_path: Path) -> None:
    kernel = opened(good_package(tmp_path / "c"))
    keep(kernel.package)
    folder = good_package(tmp_path / "package")
    # Objects of another build, which is how people come by them.
    with PackageGenerator(1) as generator:
        _write_objects(kernel, generator, folder)
    edit(folder, 'kind = "c"\nsources = ["blur.c"]', 'kind = "object"\nfile = "blur_{ROWS}.o"')
    text = (folder / "kernel.toml").read_text()
    begin, end = text.index("[knobs.UNROLL]"), text.index('[[constraints]]\nrequire = "ROWS <= h')
    text = text[:begin] + text[end:]
    (folder / "kernel.toml").write_text(text.replace("ROWS = 1\nUNROLL = 1", "ROWS = 8"))
    found = list(checks(folder))
    assert [one.outcome for one in found] == ["ok"] * 6
    cycles = {one.name: one.as_dict()["cycles"] for one in found[:2]}
    assert cycles["baseline"] < cycles["default"]


def _write_objects(kernel, generator, folder: Path) -> None:
    from tuner.packages.builds import Making
    from tuner.problem.contract import Contract

    problem = kernel.problem(None, Contract.STATIC, find_target("hexagon-v66"))
    for config in kernel.space(problem):
        if config.integer("UNROLL") == 1:
            with generator.servers.one() as server:
                making = Making(kernel.package, problem, config, (), (), generator.servers, server)
                parts = kernel.build.parts(making)
            (folder / f"blur_{config.integer('ROWS')}.o").write_bytes(parts["0.o"])


FAULTS = {
    "missing symbol": ("blur.c", "void blur(", "void smear(", ("'blur'", "smear"), "compile_error"),
    "wrong output": ("blur.c", "rnd_sat", "sat", ("dst[0, 0] is",), "wrong_output"),
    "unknown intrinsic": (
        "blur.c",
        "Q6_Wh_vadd_VubVub",
        "Q6_Wh_vadd_VubVb",
        ("blur.c:11", "HVX_VectorPair Q6_Wh_vadd_VubVub(HVX_Vector Vu, HVX_Vector Vv)"),
        "compile_error",
    ),
    "template": (
        "blur.S",
        "mpyi(r1, #{{ ROWS",
        "mpyi(r1, #{{ ROW",
        ("blur.S: line 13", "'ROW' is undefined"),
        "",
    ),
    "maker": (
        "make.py",
        "    rows = [",
        "    open('/etc/passwd')\n    rows = [",
        ("make.py: line 20",),
        "",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_that_a_build_or_a_run_shows(what: str, tmp_path: Path) -> None:
    file, old, new, said, outcome = FAULTS[what]
    kind = {"blur.S": "asm", "make.py": "python"}.get(file, "c")
    folder = good_package(tmp_path / "package", kind)
    edit(folder, old, new, file)
    first = next(checks(folder))
    assert first.outcome == (outcome or "compile_error"), first.error
    assert [part for part in said if part not in first.error] == []
    if what == "wrong output":
        difference = first.as_dict()["difference"]
        assert difference["buffer"] == "dst"
        assert difference["index"] == [0, 0]
        assert int(difference["reference"]) == int(difference["value"]) + 1
        assert "random values" in difference["case"]


@pytest.mark.slow
def test_golden_files_decide_for_their_inputs(tmp_path: Path) -> None:
    folder = good_package(tmp_path / "package")
    edit(folder, 'contracts = ["stride", "extent", "static"]', 'contracts = ["static"]')
    (folder / "golden").mkdir()
    src = np.arange(130 * 512, dtype=np.uint32).astype(np.uint8).reshape(130, 512)
    rows = src.astype(int)
    dst = ((rows[:-2] + 2 * rows[1:-1] + rows[2:] + 2) >> 2).astype(np.uint8)
    (folder / "golden" / "src.bin").write_bytes(src.tobytes())
    (folder / "golden" / "dst.bin").write_bytes(dst.tobytes())
    text = (folder / "kernel.toml").read_text().partition("[reference]")[0]
    golden = f'{text}[reference]\nkind = "golden"\nfolders = ["golden"]\n'
    (folder / "kernel.toml").write_text(golden)
    assert [one.outcome for one in checks(folder)] == ["ok"]
    dst[5, 7] += 1
    (folder / "golden" / "dst.bin").write_bytes(dst.tobytes())
    (found,) = checks(folder)
    assert found.outcome == "wrong_output"
    assert found.as_dict()["difference"]["index"] == [5, 7]
    assert "golden golden" in found.error


REFERENCES = {
    "raises": ("return blurred", "raise ValueError('no', blurred)", ("reference.py: ", "line 11")),
    "dtype": ("astype(np.uint8)", "astype(np.uint16)", ("its dst is uint16", "uint8")),
    "files": ("rows = src", "open('/etc/passwd')\n    rows = src", ("reference.py", "line 9")),
    "endless": ("rows = src", "while True: pass\n    rows = src", ("processor time",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", REFERENCES)
def test_a_reference_that_fails_names_its_line(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "endless":
        monkeypatch.setattr(python_code, "CPU_LIMIT_S", 1)
    old, new, said = REFERENCES[what]
    folder = good_package(tmp_path / "package")
    edit(folder, old, new, "reference.py")
    with pytest.raises(UserError) as refused:
        list(checks(folder))
    assert [part for part in said if part not in str(refused.value)] == []
    assert refused.value.next_step
