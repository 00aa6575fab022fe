"""Overflow that Halide leaves undefined, told where a pipeline is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tuner.codegen.halide.uploads.answers import NotTunableError, output_names
from tuner.codegen.halide.uploads.contents import Contents
from tuner.codegen.halide.uploads.program import read_program
from tuner.program.bounds import bounded
from tuner.program.expressions import ProgramError
from tuner.program.overflow import overflows, without_overflow
from tuner.space.derivation.facts import BufferFacts, PipelineFacts

_MOST_NODES = 20_000
"""Expressions of a pipeline; of more nothing is told, which would take seconds."""
_MOST_TOLD = 300


def told_overflow(
    contents: Contents, facts: PipelineFacts, names: Mapping[str, tuple[str, str]]
) -> str:
    """Where a pipeline may overflow so, and ranges of its inputs that exclude it; empty if nothing
    is known of any. ``contents`` depend on no scalar. ``names`` are those of the parameters by
    which the elements of inputs are declared."""
    if len(contents.types) > _MOST_NODES:
        return ""
    try:
        program = read_program(contents)
        ends = {own.name: one.ends for own, one in zip(program.inputs, facts.inputs, strict=True)}
        arguments = tuple(
            replace(one, low=ends[one.name][0], high=ends[one.name][1])
            if ends.get(one.name)
            else one
            for one in program.arguments
        )
        program = replace(program, arguments=arguments)
        sizes = dict(zip(program.sizes, _extents(contents, facts.outputs), strict=True))
        found = overflows(bounded(program, sizes))
        if not found:
            return ""
        narrow = without_overflow(program, sizes)
    except (ProgramError, NotTunableError):
        return ""
    told = str(found[0])
    told = told if len(told) <= _MOST_TOLD else f"{told[:_MOST_TOLD]}..."
    if narrow is None:
        return f"{told}; no range of its inputs excludes that"
    chosen = [
        f"-p {name}={value}"
        for one, before in zip(narrow.inputs, facts.inputs, strict=True)
        if before.name in names
        for name, value in zip(names[before.name], (one.low, one.high), strict=True)
    ]
    return f"{told}; not so with {' '.join(chosen)}"


def _extents(contents: Contents, buffers: tuple[BufferFacts, ...]) -> list[int]:
    """Those of all outputs, one after the other."""
    known = {buffer.name: buffer.extents for buffer in buffers}
    return [
        extent
        for name in contents.outputs
        for extent in known[output_names(name, len(contents.funcs[name].types))[0]]
    ]
