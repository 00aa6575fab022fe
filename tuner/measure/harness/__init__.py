"""The program around a candidate: freestanding C for Hexagon, one file the system it runs on.

``cases.c`` runs the cases of an image and knows no system; ``linux_user.c`` and ``call.S`` make it
a program for qemu-hexagon, ``dsp_candidate.c`` a shared object that ``dsp_driver.c``, another one,
loads on the DSP of a phone. With ``standalone.c`` the driver is a program for hexagon-sim.
"""

from __future__ import annotations

from pathlib import Path

from tuner.codegen.toolchain import NativePart

_FOLDER = Path(__file__).parent
LINKER_SCRIPT = _FOLDER / "program.ld"
"""Lays out harness and candidate for qemu-hexagon."""
HALIDE_BUFFER = _FOLDER / "halide_buffer.h"
"""``halide_buffer_t`` for C that does without Halide's headers."""
_PORTABLE = ("cases.c", "memory.c", "arithmetic.c", "halide_runtime.c")
_HEADERS = ("harness", "memory_map", "system_call", "halide_buffer")
_FLAGS = ("-fno-builtin",)
"""Without it clang would make memcpy's loop a call of memcpy."""


def linux_user_harness(arch: str) -> NativePart:
    """The harness as a program for qemu-hexagon, for ``arch`` (``v66``)."""
    return NativePart(
        name=f"harness-{arch}",
        machine="hexagon",
        sources=tuple(_FOLDER / name for name in (*_PORTABLE, "call.S", "linux_user.c")),
        headers=tuple(_FOLDER / f"{name}.h" for name in (*_HEADERS, "image")),
        arch=arch,
        flags=_FLAGS,
    )


def serving_harness(arch: str, sources: tuple[Path, ...], headers: tuple[Path, ...]) -> NativePart:
    """The parts of the harness that candidates need, for a program of ``sources`` that calls
    several of them by their addresses."""
    own = ("memory.c", "arithmetic.c", "halide_runtime.c", "call.S")
    return NativePart(
        name=f"serving-harness-{arch}",
        machine="hexagon",
        sources=(*(_FOLDER / name for name in own), *sources),
        headers=(*(_FOLDER / f"{name}.h" for name in (*_HEADERS, "image")), *headers),
        arch=arch,
        flags=(*_FLAGS, "-DCALL_BY_ADDRESS"),
    )


_DSP_HEADERS = tuple(
    _FOLDER / f"{name}.h" for name in ("harness", "image", "halide_buffer", "dsp", "dsp_queue")
)
_DSP_FLAGS = (
    *("-fno-builtin", "-fPIC", "-fvisibility=hidden", "-fshort-enums"),
    "-DKEEP_ARENA_MOST",
)
"""``-fshort-enums`` is the ABI's default; the layout of the SDK's structures depends on it."""
DSP_EXPORTS = _FOLDER / "dsp_exports.map"
"""Linker version script: what a candidate's shared object lets others see."""


def dsp_harness(arch: str) -> NativePart:
    """The objects that a candidate is linked with to run on the DSP of a phone of ``arch``."""
    sources = tuple(_FOLDER / name for name in (*_PORTABLE, "dsp_candidate.c"))
    return NativePart(
        f"dsp-harness-{arch}", "hexagon", sources, _DSP_HEADERS, arch=arch, flags=_DSP_FLAGS
    )


def dsp_driver(arch: str) -> NativePart:
    """The objects of the driver that loads candidates on the DSP, still to be linked."""
    sources = tuple(_FOLDER / name for name in ("dsp_driver.c", "dsp_power.c"))
    return NativePart(
        f"dsp-driver-{arch}", "hexagon", sources, _DSP_HEADERS, arch=arch, flags=_DSP_FLAGS
    )


_STANDALONE = ("dsp_driver.c", "dsp_power.c", "standalone.c")
STANDALONE_SOURCES = tuple(_FOLDER / name for name in _STANDALONE)
"""The driver as a program without an operating system; Qualcomm's compiler builds it."""
STANDALONE_HEADERS = tuple(_FOLDER / f"{name}.h" for name in ("image", "dsp", "dsp_queue"))


def idle_candidate(arch: str) -> NativePart:
    """A candidate called ``hvxtune_nothing`` that returns at once, to try a measurer with."""
    return NativePart("nothing", "hexagon", (_FOLDER / "nothing.c",), arch=arch)
