"""The build file and the page of a bundle."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.network.shipping.c_source import Contents

_CMAKE = """\
# {network} on {target}. Made by `hvxtune network bundle`; needs nothing but this folder.
#
#   add_subdirectory({name})                 # or FetchContent
#   target_link_libraries(app PRIVATE hvxtune::{name})
#
# hvxtune::{name}_runtime is Halide's runtime, for programs that have none yet.
cmake_minimum_required(VERSION 3.20)
project(hvxtune_{name} LANGUAGES C)

add_library(hvxtune_{name} STATIC
    source/{name}.c
{objects})
target_include_directories(hvxtune_{name} PUBLIC "${{CMAKE_CURRENT_SOURCE_DIR}}/include")
target_compile_options(hvxtune_{name} PRIVATE -O2)
add_library(hvxtune::{name} ALIAS hvxtune_{name})

add_library(hvxtune_{name}_runtime INTERFACE)
target_link_libraries(hvxtune_{name}_runtime INTERFACE
    "${{CMAKE_CURRENT_SOURCE_DIR}}/runtime/halide_runtime.o")
add_library(hvxtune::{name}_runtime ALIAS hvxtune_{name}_runtime)
"""

_README = """\
# {name}

The network `{network}` for {target}, made by `hvxtune network bundle`.

    add_subdirectory({name})
    target_link_libraries(app PRIVATE hvxtune::{name})

`include/{name}.h` declares `{entry}()` and the constants of its tensors and arena, which the
program provides. `manifest.json` has the digest of each file, the schedule of each function with
its cycles, the steps, and the names that the objects leave to the program (`calls`).

- Halide's runtime has most of these: `hvxtune::{name}_runtime` is the one for bare Hexagon, for
  programs that have none yet. Link with `--gc-sections`. The program defines `halide_error` and
  `halide_print`, both `void (void *, const char *)`.
- Functions reserve the vector unit by `qurt_hvx_lock`. A program without QuRT defines
  `int qurt_hvx_lock(int)` and `int qurt_hvx_unlock(void)`, which return 0.
- The stack must be aligned to {alignment} bytes.
- `licenses/Halide.txt` covers `runtime/halide_runtime.o`, `licenses/hvxtune.txt` the headers in
  `source`. All else is made from your model and its schedules.
"""


def cmake_lists(contents: Contents, objects: Sequence[str]) -> str:
    """``CMakeLists.txt`` with ``objects`` (paths)."""
    return _CMAKE.format(
        name=contents.name,
        network=_line(contents),
        target=contents.target.name,
        objects="\n".join(f"    {path}" for path in objects),
    )


def readme(contents: Contents) -> str:
    """``README.md``."""
    return _README.format(
        name=contents.name,
        network=_line(contents),
        target=contents.target.name,
        entry=contents.entry,
        alignment=contents.target.vector_alignment_bytes,
    )


def _line(contents: Contents) -> str:
    """The network's name as part of a line."""
    return " ".join(contents.graph.name.replace("`", "'").split())
