"""The C forms of a kernel: its loops in plain C, in one or several ways."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from tuner.kernels import Kernel

_FOLDER = "c_forms"
_PLAIN = "plain"


def c_forms(kernel: Kernel) -> dict[str, Path]:
    """The files with the loops of ``kernel`` by their names, ``plain`` first; empty without one.

    They lie in ``c_forms`` beside the kernel's module: ``KERNEL.c``, and others as
    ``KERNEL.NAME.c``. :mod:`tuner.codegen.c.source` says what is in scope there.
    """
    module = sys.modules[type(kernel).__module__]
    return {} if module.__file__ is None else _found(Path(module.__file__).parent, kernel.name)


@cache
def _found(folder: Path, kernel: str) -> dict[str, Path]:
    plain = folder / _FOLDER / f"{kernel}.c"
    if not plain.is_file():
        return {}
    others = sorted(plain.parent.glob(f"{kernel}.*.c"))
    return {_PLAIN: plain, **{path.name.split(".")[1]: path for path in others}}
