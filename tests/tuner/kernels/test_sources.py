"""A kernel's source is part of its workloads: a file that changed makes others of them."""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path

import pytest

from tuner import kernels
from tuner.kernels import EXTRA_KERNELS_VARIABLE, find_kernel, kernel_names, sources
from tuner.kernels.kernel import Kernel
from tuner.problem.workload import Workload

KERNEL = """
from {package}pointers import SHIFT
from tests.rig.scale_u8 import ScaleU8


class Shifted(ScaleU8):
    name = "shifted_u8"

    def reference(self, params, inputs):
        from {package}late import nothing

        return nothing(inputs, SHIFT)
"""


@pytest.fixture(params=["", "family."])
def folder(request, tmp_path, monkeypatch) -> Path:
    """A kernel with modules of its own and a C form, in a package or beside each other."""
    package = request.param
    place = tmp_path / package.rstrip(".") if package else tmp_path
    (place / "c_forms").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "shifted.py": KERNEL.format(package=package),
        "pointers.py": "SHIFT = 1\n",
        "late.py": "def nothing(inputs, shift):\n    return [inputs[0] + shift]\n",
        "stranger.py": "SHIFT = 3\n",
        "c_forms/shifted_u8.c": "/* loops */\n",
        "c_forms/shifted_u8.quads.c": "/* loops */\n",
        "c_forms/other_u8.c": "/* loops */\n",
    }
    for name, content in files.items():
        (place / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, f"shifted_u8={package}shifted:Shifted")
    yield place
    another_process()


def another_process() -> None:
    """Forgets what was loaded and read, as if this process had just begun."""
    for name in ("shifted_u8", "scale_u8", "gemm_u8"):
        kernels._loaded.pop(name, None)
    for module in list(sys.modules):
        if module.split(".")[0] in ("shifted", "pointers", "late", "stranger", "family"):
            del sys.modules[module]
    for cached in (sources.content_of, sources._digest_of, sources._names_imported):
        cached.cache_clear()
    importlib.invalidate_caches()


def source_now() -> str:
    another_process()
    return find_kernel("shifted_u8").workload().source


@pytest.mark.parametrize(
    "name",
    ["shifted.py", "pointers.py", "late.py", "c_forms/shifted_u8.c", "c_forms/shifted_u8.quads.c"],
)
def test_a_file_that_changed_makes_another_workload(folder: Path, name: str) -> None:
    before = source_now()
    assert before
    assert source_now() == before
    with (folder / name).open("a") as file:
        file.write("\n")
    assert source_now() != before


@pytest.mark.parametrize("name", ["stranger.py", "__init__.py", "c_forms/other_u8.c"])
def test_a_file_that_is_no_part_of_it_does_not(folder: Path, name: str) -> None:
    before = source_now()
    (folder / name).write_text("# another\n")
    assert source_now() == before


def test_what_is_loaded_is_named_and_not_what_was_edited_since(folder: Path) -> None:
    before = source_now()
    (folder / "shifted.py").write_text("raise RuntimeError\n")
    assert find_kernel("shifted_u8").workload().source == before


def test_every_kernel_has_a_source_of_its_own() -> None:
    found = {find_kernel(name).source for name in kernel_names()}
    assert len(found) == len(kernel_names())
    assert all(len(source) == 16 for source in found)


def test_a_class_that_no_file_holds_has_none() -> None:
    assert sources.source_digest(type("Typed", (Kernel,), {"__module__": "__main__"})) == ""


def test_the_source_is_a_part_of_a_workload_and_goes_with_it() -> None:
    workload = find_kernel("gemm_u8").workload()
    assert Workload.from_dict(workload.as_dict()) == workload
    assert pickle.loads(pickle.dumps(workload)).source == workload.source  # noqa: S301
    older = Workload(workload.kernel, workload.version, workload.params)
    assert "source" not in older.as_dict()
    assert older.digest != workload.digest
