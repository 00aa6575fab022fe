"""A package for a C++ Generator as its author left it: ``kernel.toml`` is read off the Generator.

Its arguments are what the program lists. Its parameters are the extents that its algorithm leaves
open, and how the other extents follow from those is measured: the algorithm is asked for its
buffers at several sizes, and an extent that moves with them in any way but a linear one, element by
element or in blocks (``(c + 31) // 32``, ``c // 32``), is refused.
What it computes with floats once is an input (``generators/integers.cpp``).
Scalars have the values of its pipeline as an upload. The Generator's own schedule is the
baseline, and the derived schedules are searched beside it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import get_args

import numpy as np

from tuner.codegen.halide.uploads.program import declared
from tuner.errors import UserError
from tuner.packages.files import Package
from tuner.packages.generators import INTEGERS, Argument, CppSources, Generator, listed
from tuner.packages.kernel import PackageKernel
from tuner.packages.manifest import FILE, Dtype, Integer, read_manifest
from tuner.packages.skeletons import new_folder, package_name
from tuner.packages.unscheduled import algorithm_of
from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.target import find_target
from tuner.problem.workload import Param
from tuner.program.overflow import without_overflow
from tuner.uploaded import PipelineKernel

_STEPS = (1, 2, 5)
"""Multiples of an extent at which the others are looked at: a line through two is tested by a
third, and by sizes that are no multiples."""
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"\n]+)"', re.MULTILINE)


def write_package(
    source: Path, folder: Path, generator: str = "", params: Mapping[str, str] | None = None
) -> list[Path]:
    """Writes a package for the Generator in ``source`` to ``folder``, a new or empty one; returns
    the files. ``generator`` names one of several, ``params`` are GeneratorParams that are fixed.

    ``UserError`` if it cannot be compiled, is not one Generator, or its algorithm cannot be tuned.
    """
    sources = _sources(source)
    found = _chosen(source, sources, generator)
    if found.has_floats:
        whole = sources.with_integers(found.name)
        integral = _chosen(source, whole, found.name + INTEGERS)
        sources, found = (sources, found) if integral.has_floats else (whole, integral)
    draft = _Draft(package_name(folder), sources, found, dict(params or {}))
    kernel = algorithm_of(draft.package()).kernel
    sizes = {one.name: one for one in kernel.params if one.is_extent and one.minimum > 0}
    values = {one.name: one.value for one in kernel.facts({}).scalars}
    buffers, sizes = _shapes(kernel, sizes, values)
    ranges = _ranges(kernel)
    draft = replace(draft, values=values, sizes=sizes, buffers=buffers, ranges=ranges)
    made = PackageKernel(draft.package())
    usual = made.workload().params
    made.reference(usual, made.inputs(usual, np.random.default_rng(0)))
    made.space(made.problem(None, Contract.STATIC, find_target(DEFAULT_TARGET)))
    new_folder(folder)
    written = []
    for name, content in draft.package().files.items():
        written.append(folder / name)
        written[-1].parent.mkdir(parents=True, exist_ok=True)
        written[-1].write_bytes(content)
    return written


def _sources(source: Path) -> CppSources:
    """``source`` and what it includes of its own, with the source beside each header that has its
    name. They keep their places to each other."""
    found: dict[str, bytes] = {}
    compiled = {os.path.abspath(source)}
    waiting = [*compiled]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        try:
            found[path] = Path(path).read_bytes()
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}", accepted="a C++ Generator") from None
        for name in _INCLUDE.findall(found[path].decode(errors="replace")):
            header = os.path.normpath(os.path.join(os.path.dirname(path), name))
            beside = os.path.splitext(header)[0] + ".cpp"
            waiting += [header] if os.path.isfile(header) else []
            if header in waiting and os.path.isfile(beside):
                compiled.add(beside)
                waiting.append(beside)
    top = os.path.commonpath([os.path.dirname(path) for path in found])
    names = {path: Path(path).relative_to(top).as_posix() for path in found}
    return CppSources(
        {names[path]: content for path, content in found.items()},
        sorted(names[path] for path in compiled),
    )


def _chosen(source: Path, sources: CppSources, wanted: str) -> Generator:
    found = {one.name: one for one in listed(sources.program())}
    if not wanted and len(found) == 1:
        return next(iter(found.values()))
    if wanted in found:
        return found[wanted]
    if not found:
        raise UserError(
            f"{source} registers no Generator", accepted="HALIDE_REGISTER_GENERATOR(Class, name)"
        )
    raise UserError(
        f"{source} has no Generator '{wanted[:64]}'"
        if wanted
        else f"{source} has {len(found)} Generators",
        accepted=", ".join(found),
        next_step="name one with --generator",
    )


def _ranges(kernel: PipelineKernel) -> dict[str, tuple[int, int]]:
    """The elements of inputs by their names, where some would overflow what leaves that undefined:
    those that do not, if any."""
    params = kernel.workload().params
    if not kernel.overflow(params):
        return {}
    buffers = kernel.buffers(params)
    scalars = [(one.value, one.value) for one in kernel.scalars(params)]
    inputs = [one.name for one in buffers if one.role == "input"]
    program = declared(kernel.program(params), [()] * len(inputs), scalars)
    sizes = program.sizes_at({one.name: one.shape for one in buffers})
    narrow = without_overflow(program, sizes)
    found = zip(inputs, program.inputs, narrow.inputs if narrow else (), strict=False)
    return {name: (own.low, own.high) for name, one, own in found if own != one}


def _shapes(
    kernel: PipelineKernel, sizes: Mapping[str, Param], scalars: Mapping[str, int]
) -> tuple[dict[str, _Buffer], dict[str, Param]]:
    """The buffers of ``kernel`` by name, in terms of ``sizes``, and these: as many
    elements at least as that holds for."""

    def at(changed: Mapping[str, int]) -> list[BufferSpec]:
        params = {name: param.default for name, param in sizes.items()} | dict(scalars)
        return list(kernel.buffers(kernel.workload({**params, **changed}).params))

    usual = at({})
    terms: dict[tuple[int, int], list[_Term]] = {}
    for name, param in sizes.items():
        seen = {size: at({name: size}) for size in (step * param.default for step in _STEPS)}
        with suppress(UserError):  # a pipeline may want even sizes
            seen |= {size: at({name: size}) for size in (param.default + 1, 2 * param.default - 1)}
        few = {}
        with suppress(UserError):
            few = {size: at({name: size}) for size in (param.minimum, param.minimum + 1)}
        for number, spec in enumerate(usual):
            for axis in range(len(spec.shape)):
                points, short = (
                    {size: specs[number].shape[axis] for size, specs in found.items()}
                    for found in (seen, few)
                )
                terms.setdefault((number, axis), []).append(_term(name, spec, axis, points, short))
    buffers = {
        spec.name: _Buffer(
            [
                _sum(extent, terms.get((number, axis), []), sizes)
                for axis, extent in enumerate(spec.shape)
            ],
            spec,
        )
        for number, spec in enumerate(usual)
    }
    least: dict[str, int] = {}
    for term in chain.from_iterable(terms.values()):
        least[term.name] = max(least.get(term.name, 1), term.least)
    return buffers, {
        name: replace(one, minimum=max(one.minimum, least.get(name, 1)))
        for name, one in sizes.items()
    }


@dataclass(frozen=True)
class _Term:
    """What an extent has of the size ``name``: ``factor`` elements for each block of that many
    (``begun``, or whole), or one for each, but at ``most`` so many; from ``least`` elements on."""

    name: str
    factor: int
    block: int = 1
    most: int = 0
    begun: bool = True
    least: int = 1

    @property
    def _more(self) -> int:
        return self.block - 1 if self.begun else 0

    def at(self, size: int) -> int:
        count = self.factor * ((size + self._more) // self.block)
        return min(count, self.most) if self.most else count

    def __str__(self) -> str:
        if self.most:
            return f"min({self.name}, {self.most})"
        blocks = self.name
        if self.block > 1:
            begun = f"({self.name} + {self._more})" if self.begun else self.name
            blocks = f"({begun} // {self.block})"
        return blocks if self.factor == 1 else f"{self.factor} * {blocks}"


def _term(
    name: str,
    spec: BufferSpec,
    axis: int,
    points: Mapping[int, int],
    few: Mapping[int, int],
) -> _Term:
    """Fits ``points``: extents by sizes. Those of a ``few`` elements tell only whether an extent
    that does not grow is that of a block, which small sizes do not fill, and from where on."""
    (x0, y0), (x1, y1), *_ = points.items()
    slope = Fraction(y1 - y0, x1 - x0)
    first, last = points.get(x0 + 1, y0 + slope) - y0, y1 - points.get(x1 - 1, y1 - slope)
    step = first or last
    term = _Term(
        name, int(step), max(1, int(step / slope)) if slope else 1, begun=bool(first) or not last
    )
    if not slope and few and all(x == y < y0 for x, y in few.items()):
        term = _Term(name, 1, most=y0)
    rest = y0 - term.at(x0)
    if any(term.at(x) + rest != y for x, y in points.items()):
        raise UserError(
            f"dimension {axis} of {spec.name} has "
            + ", ".join(f"{y} elements at a size of {x}" for x, y in sorted(points.items())),
            accepted="extents that are sums of multiples of each other, or of blocks of each other",
            next_step="write kernel.toml by hand: docs/packages.md has an example",
        )
    other = [x + 1 for x, y in few.items() if term.at(x) + rest != y]
    return replace(term, least=max(1 if term.begun else term.block, *other, 1))


def _sum(extent: int, terms: Sequence[_Term], sizes: Mapping[str, Param]) -> str | int:
    told = [str(one) for one in terms if one.factor]
    rest = extent - sum(one.at(sizes[one.name].default) for one in terms)
    if not told:
        return extent
    return " + ".join(told) + (f" {'+' if rest > 0 else '-'} {abs(rest)}" if rest else "")


@dataclass(frozen=True)
class _Buffer:
    shape: Sequence[str | int]
    spec: BufferSpec


@dataclass(frozen=True)
class _Draft:
    """A package as far as it is known: by default with shapes and parameters that stand for none
    known yet."""

    name: str
    sources: CppSources
    generator: Generator
    params: Mapping[str, str]
    values: Mapping[str, int] | None = None
    sizes: Mapping[str, Param] | None = None
    buffers: Mapping[str, _Buffer] | None = None
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def package(self) -> Package:
        text = "\n".join(self._lines())
        return Package(read_manifest(text, FILE), {FILE: text.encode(), **self.sources.files})

    def _lines(self) -> Iterator[str]:
        yield "# Read off the Generator; every key is described in docs/packages.md."
        yield f"name = {json.dumps(self.name)}"
        yield "version = 1"
        yield f"summary = {json.dumps(f'the Generator {self.generator.name}')}"
        yield f"contracts = {json.dumps([*Contract])}"
        unknown = {"extent": Param("extent", 1, "not known yet")}
        for param in (self.sizes or unknown).values():
            yield f"\n[params.{param.name}]"
            yield f"default = {param.default}\nminimum = {param.minimum}"
            yield f"maximum = {param.maximum}\ndoc = {json.dumps(param.doc)}"
        for one in self.generator.arguments:
            yield from self._argument(one.settled(self.params))
        yield "\n[configs.baseline]"
        yield '\n[build]\nkind = "generator"'
        headers = sorted(self.sources.files.keys() - {*self.sources.compiled})
        yield f"sources = {json.dumps(self.sources.compiled)}"
        yield f"headers = {json.dumps(headers)}"
        yield f"generator = {json.dumps(self.generator.name)}"
        given = (f"{json.dumps(name)} = {json.dumps(value)}" for name, value in self.params.items())
        yield f"params = {{ {', '.join(given)} }}"
        yield 'space = "both"\n\n[reference]\nkind = "generator"\n'

    def _argument(self, one: Argument) -> Iterator[str]:
        kind = " and ".join(one.types) or "uint8"  # generate() may settle it
        known = get_args(Dtype if one.buffer else Integer)
        if kind not in known:
            raise UserError(
                f"the Generator's {'buffer' if one.buffer else 'scalar'} {one.name} is of {kind}",
                accepted=", ".join(known),
                next_step="compute what follows from it beforehand, and pass that: integers of "
                "fixed point, or a table of them",
            )
        if not one.buffer:
            value = (self.values or {}).get(one.name, 1)
            yield f'\n[[scalars]]\nname = "{one.name}"\ndtype = "{kind}"\nvalue = {value}'
            return
        found = None if self.buffers is None else self.buffers.get(one.name)
        role = "output" if one.output else "input"
        yield f'\n[[arguments]]\nname = "{one.name}"\nrole = "{role}"'
        yield f'dtype = "{found.spec.dtype if found else kind}"'
        yield f"shape = {json.dumps(found.shape if found else [1] * max(one.dimensions, 1))}"
        if found is not None and found.spec.mins:
            yield f"mins = {list(found.spec.mins)}"
        if found is not None and not found.spec.promised:
            yield "promised = false"
        if one.name in self.ranges:
            least, most = self.ranges[one.name]
            yield "# Of others sums overflow, which Halide leaves undefined."
            yield f"minimum = {least}\nmaximum = {most}"
