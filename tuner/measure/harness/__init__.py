"""The program around a candidate: freestanding C for Hexagon, one file the system it runs on.

``cases.c`` runs the cases of an image and knows no system; ``linux_user.c`` and ``call.S`` make it
a program for qemu-hexagon. A harness for phones is the same with other files for these two.
"""

from __future__ import annotations

from pathlib import Path

from tuner.codegen.toolchain import NativePart

_FOLDER = Path(__file__).parent
LINKER_SCRIPT = _FOLDER / "program.ld"
"""Lays out harness and candidate for qemu-hexagon."""
_PORTABLE = ("cases.c", "memory.c", "arithmetic.c", "halide_runtime.c")


def linux_user_harness(arch: str) -> NativePart:
    """The harness as a program for qemu-hexagon, for ``arch`` (``v66``)."""
    return NativePart(
        name=f"harness-{arch}",
        machine="hexagon",
        sources=tuple(_FOLDER / name for name in (*_PORTABLE, "call.S", "linux_user.c")),
        headers=tuple(_FOLDER / f"{name}.h" for name in ("harness", "image", "memory_map")),
        arch=arch,
        # Without it clang would make memcpy's loop a call of memcpy.
        flags=("-fno-builtin",),
    )


def idle_candidate(arch: str) -> NativePart:
    """A candidate called ``hvxtune_nothing`` that returns at once, to try a measurer with."""
    return NativePart("nothing", "hexagon", (_FOLDER / "nothing.c",), arch=arch)
