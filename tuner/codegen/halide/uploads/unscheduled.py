"""Tells pipelines that carry a schedule: bytes keep it, and directives would come on top."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.codegen.halide.compilation import stderr_to
from tuner.codegen.halide.uploads.deserialized import Deserialized
from tuner.codegen.halide.uploads.refusals import NotTunableError

_LOOP = re.compile(r"for ([\w$]+)(?: in \[-?\d+, -?\d+\])?:")
_COUNTER = re.compile(r"\$\d+$")
_FILE = "loopnest"


def require_unscheduled(opened: Deserialized) -> None:
    """Raises ``NotTunableError`` if the loops are not those of a pipeline as written.

    Halide does not tell directives back, only the loops they make. Works in the current directory.
    """
    with stderr_to(_FILE):
        opened.pipeline.print_loop_nest()
    with open(_FILE, encoding="utf-8", errors="replace") as file:
        lines = [(len(line) - len(line.lstrip()), line.strip()) for line in file]
    pure = {
        _shown(name) for name, func in opened.stages.items() if not func.num_update_definitions()
    }
    outputs = {_shown(func.name()) for func in opened.outputs}
    _check(lines, pure - outputs, outputs)


def _shown(name: str) -> str:
    """A name without the number that keeps it apart from others: loops are printed so."""
    return _COUNTER.sub("", name)


def _check(lines: Sequence[tuple[int, str]], inline: set[str], outputs: set[str]) -> None:
    before = ""
    for number, (_, line) in enumerate(lines):
        word, _, rest = line.partition(" ")
        name = rest.rstrip(":")
        if word == "produce" and (name in inline or (number == 0 and name not in outputs)):
            raise NotTunableError(f"it carries a schedule: {name} is not inline")
        if word == "store":
            raise NotTunableError(f"it carries a schedule: {name} is stored")
        if word in ("parallel", "vectorized", "unrolled", "gpu_block", "gpu_thread"):
            raise NotTunableError(f"it carries a schedule: a loop is {word}")
        if word == "for" and not _LOOP.fullmatch(line):
            raise NotTunableError(f"it carries a schedule: a loop is split: {line[:60]}")
        if word == "for" and before.startswith("consume "):
            raise NotTunableError(
                f"it carries a schedule: {before[len('consume ') :].rstrip(':')} is not inline"
            )
        before = line
