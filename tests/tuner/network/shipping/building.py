"""Bundles in CMake projects, as on another machine: no network, nothing of hvxtune but the archive,
and start code for the simulator."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.examples.building import CMAKE, ROOT, simulate
from tuner.codegen.toolchain import find_toolchain
from tuner.conformance.patience import PATIENCE_S
from tuner.network import Graph
from tuner.network.graph import Array
from tuner.network.shipping import Bundle, packed
from tuner.network.shipping.program import C_TYPES
from tuner.paths import cached

OFFLINE = ROOT / "tests" / "rig" / "offline.py"

_LISTS = """\
cmake_minimum_required(VERSION 3.24)
project(app C)
list(APPEND CMAKE_MODULE_PATH "${{CMAKE_CURRENT_LIST_DIR}}/repository/cmake")
include(HvxTuneSimulator)
include(FetchContent)
{bundles}
hvxtune_simulated_program(app main.c)
target_link_libraries(app PRIVATE {targets})
"""
_FETCHED = """\
FetchContent_Declare({name} URL "${{CMAKE_CURRENT_LIST_DIR}}/{name}.tar.gz")
FetchContent_MakeAvailable({name})
"""


@dataclass
class Project:
    """A CMake project in ``folder`` that links bundles from their archives."""

    folder: Path

    def write(self, bundles: Sequence[Bundle], program: str) -> None:
        """Archives, lists and ``main.c``."""
        for part in ("cmake", "tuner/measure/harness"):
            shutil.copytree(ROOT / part, self.folder / "repository" / part)
        for bundle in bundles:
            (self.folder / f"{bundle.name}.tar.gz").write_bytes(packed(bundle))
        (self.folder / "CMakeLists.txt").write_text(
            _LISTS.format(
                bundles="".join(_FETCHED.format(name=bundle.name) for bundle in bundles),
                targets=" ".join(f"hvxtune::{bundle.name}" for bundle in bundles),
            )
        )
        (self.folder / "main.c").write_text(program)

    def build(self) -> subprocess.CompletedProcess[str]:
        """Configures and builds, offline; the last command that ran."""
        done = self.run(
            *(CMAKE, "-G", "Unix Makefiles", "-S", self.folder, "-B", self.folder / "build"),
            *("--toolchain", self.folder / "repository" / "cmake" / "hexagon-zig.cmake"),
            f"-DHVXTUNE_ZIG={find_toolchain().zig}",
        )
        if done.returncode:
            return done
        return self.run(CMAKE, "--build", self.folder / "build")

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """A command without a network, in an environment that knows no hvxtune."""
        return subprocess.run(
            [sys.executable, "-I", OFFLINE, *command],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={
                "PATH": os.defpath,
                "HOME": str(self.folder),
                "ZIG_GLOBAL_CACHE_DIR": str(cached("zig-of-tests")),
                "ZIG_LOCAL_CACHE_DIR": str(cached("zig-of-tests")),
            },
        )

    def output(self) -> str:
        """The text that the program prints."""
        done = self.build()
        assert done.returncode == 0, done.stdout + done.stderr
        ran = simulate(self.folder / "build" / "app")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


def array(name: str, elements: Array) -> str:
    """A dense array in C."""
    kind = C_TYPES[elements.dtype.name]
    values = ", ".join(map(str, elements.reshape(-1).tolist()))
    return f"static const {kind} {name}[{elements.size}] = {{{values}}};\n"


def check(bundle: Bundle, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> str:
    """A function ``check_NAME`` in C: runs the bundle twice, in arenas of other contents, and
    prints how many elements of each output are wrong."""
    graph: Graph = bundle.contents.graph
    name, macro = bundle.name, bundle.name.upper()
    called = [end for end, _ in bundle.contents.ends()]
    given, made = called[: len(graph.inputs)], called[len(graph.inputs) :]
    text = f'#include "{name}.h"\n'
    text += f"static _Alignas({macro}_ALIGNMENT_BYTES) uint8_t {name}_arena[{macro}_ARENA_BYTES];\n"
    for end, tensor in zip(given, graph.inputs, strict=True):
        text += array(f"{name}_{end}", inputs[tensor])
    for end, tensor in zip(made, graph.outputs, strict=True):
        text += array(f"{name}_{end}_right", outputs[tensor])
        prefix = f"{macro}_{end.upper()}"
        text += f"static {prefix}_TYPE {name}_{end}[{prefix}_ELEMENTS];\n"
    arguments = ", ".join(f"{name}_{end}" for end in called)
    text += (
        f"static void check_{name}(void) {{\n    for (int fill = 0; fill < 256; fill += 165) {{\n"
    )
    text += f"        for (int i = 0; i < {macro}_ARENA_BYTES; i++) {name}_arena[i] = fill;\n"
    text += f"        int status = {name}_run({arguments}, {name}_arena);\n"
    text += f'        told("{name}", "status", status);\n'
    for end in made:
        text += "        int wrong = 0;\n" if end == made[0] else "        wrong = 0;\n"
        text += f"        for (int i = 0; i < {macro}_{end.upper()}_ELEMENTS; i++)\n"
        text += f"            wrong += {name}_{end}[i] != {name}_{end}_right[i];\n"
        text += f'        told("{name} {end}", "wrong", wrong);\n'
    return text + "    }\n}\n"


TOP = """\
#include <stddef.h>

#include "simulator.h"

static void told(const char *of, const char *what, int number) {
    simulator_print(of);
    simulator_print(" ");
    simulator_print(what);
    simulator_print(" ");
    simulator_print_number((uint32_t)number);
    simulator_print("\\n");
}
"""


def right(bundle: Bundle) -> list[str]:
    """The lines that ``check`` prints if all is right."""
    ends = [end for end, _ in bundle.contents.ends()][len(bundle.contents.graph.inputs) :]
    return 2 * [
        f"{bundle.name} status 0",
        *(f"{bundle.name} {end} wrong 0" for end in ends),
    ]
