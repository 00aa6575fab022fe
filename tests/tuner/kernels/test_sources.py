"""A kernel's source is part of its workloads: code that changed makes others of them, and nothing
else does."""

from __future__ import annotations

import hashlib
import importlib
import pickle
import sys
from pathlib import Path

import pytest

from tuner import kernels
from tuner.kernels import EXTRA_KERNELS_VARIABLE, find_kernel, sources
from tuner.kernels.sources import canonical_python
from tuner.problem.workload import Workload

KERNEL = """
from {package}pointers import SHIFT
from tests.rig.scale_u8 import ScaleU8


class Shifted(ScaleU8):
    name = "shifted_u8"

    def reference(self, params, inputs, more=0):
        from {package}late import nothing

        return nothing(inputs, SHIFT + more)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A kernel with modules of its own, in a package."""
    package = "family."
    place = tmp_path / "family"
    place.mkdir()
    files = {
        "__init__.py": "",
        "shifted.py": KERNEL.format(package=package),
        "pointers.py": "SHIFT = 1\n",
        "late.py": "def nothing(inputs, shift):\n    return [inputs[0] + shift]\n",
        "stranger.py": "SHIFT = 3\n",
    }
    for name, content in files.items():
        (place / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    # Bytecode is held current by size and whole seconds: an edit of equal length would not be seen.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
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
    for cached in (
        sources._digest_of,
        sources._source_of,
        sources._own_digest,
    ):
        cached.cache_clear()
    importlib.invalidate_caches()


def source_now() -> str:
    another_process()
    return find_kernel("shifted_u8").workload().source


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_code_that_changed_makes_another_workload(folder: Path) -> None:
    before = source_now()
    assert before
    assert source_now() == before
    for name, old, new in (
        ("shifted.py", "SHIFT + more", "SHIFT - more"),
        ("shifted.py", "more=0", "more=1"),
        ("shifted.py", "(inputs, SHIFT", "(inputs, 1 + SHIFT"),
        ("pointers.py", "1", "True"),
        ("pointers.py", "True", "1.0"),
        ("late.py", "[0]", "[-1]"),
        ("late.py", "def nothing", "@staticmethod\ndef nothing"),
        ("shifted.py", "pointers import", "stranger import"),
    ):
        edit(folder / name, old, new)
        before, last = source_now(), before
        assert before != last, (name, new)


def test_what_cannot_matter_does_not(folder: Path) -> None:
    before = source_now()
    for name, old, new in (
        ("shifted.py", "\nclass", "\n# a comment\n\n\nclass"),
        ("shifted.py", '"shifted_u8"\n', '"shifted_u8"\n    """Of its own."""\n'),
        ("shifted.py", "params, inputs, more=0", "params: dict[str, int], inputs, more: int=0"),
        ("shifted.py", "more: int=0):", 'more: int=0):\n        """Said again."""'),
        ("shifted.py", "import ScaleU8", "import ScaleU8 as ScaleU8"),
        ("shifted.py", "(inputs, SHIFT + more)", "(\n            inputs, SHIFT + more\n        )"),
        ("pointers.py", "SHIFT", "from __future__ import annotations\nimport sys\nSHIFT: int"),
        ("late.py", "def", '"""Does it."""\n\ndef'),
    ):
        edit(folder / name, old, new)
        assert source_now() == before, (name, new)
    for name in ("stranger.py", "__init__.py"):
        (folder / name).write_text("another = 1\n")
    assert source_now() == before


def test_the_form_is_the_same_in_every_version_of_python() -> None:
    """Written here as one version made it, and compared by the tests of all."""
    text = 'def f(a, /, b=1, *, c="x"):\n    return f"{a!r:>{b}}" + c[1:] if b else (yield)\n'
    assert hashlib.sha256(canonical_python(text).encode()).hexdigest()[:16] == "d409e5f0d97bc8fb"


def test_the_source_is_a_part_of_a_workload_and_goes_with_it() -> None:
    workload = find_kernel("gemm_u8").workload()
    assert Workload.from_dict(workload.as_dict()) == workload
    assert pickle.loads(pickle.dumps(workload)).source == workload.source  # noqa: S301
    older = Workload(workload.kernel, workload.version, workload.params)
    assert "source" not in older.as_dict()
    assert older.digest != workload.digest
