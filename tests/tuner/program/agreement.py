"""Whether everything that knows a program gives it one value.

``python -m tests.tuner.program.agreement FIRST COUNT`` takes random programs of so many seeds in a
process of its own, which may crash, and writes a line for each: the seed, and how it is wrong, or
by whom it was refused.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import halide as hl
import numpy as np

from tests.tuner.program.drawn import arguments_of, program
from tests.tuner.program.native import Coded, RefusedError
from tuner.codegen.halide.pipelines import pipeline_of
from tuner.codegen.halide.uploads.program import program_of
from tuner.problem.contract import Contract
from tuner.program import Program
from tuner.program.bounds import Box, bounded
from tuner.program.expressions import ProgramError
from tuner.program.interpretation import interpreted
from tuner.program.normal import normalized
from tuner.program.parsing import parsed
from tuner.program.printing import printed

_MOST_BYTES, _MOST_SECONDS = 6 << 30, 600
USUAL = {"height": 4, "width": 128}
"""For which code is compiled where a caller chooses its sizes."""

_AROUND = 64
_BY_HALIDE = ("may be accessed in an unbounded way", "overflow occurred during constant-folding")
"""What it says where it refuses a pipeline: the least number divided by what may be -1, say."""

Values = Mapping[str, np.ndarray]


class Seeded:
    """The program of a seed, with sizes and arguments."""

    def __init__(self, seed: int) -> None:
        self.choices = random = Random(seed)
        self.program = program(seed, random.randint(0, 3), random.choice((1, 1, 2, 2, 3)))
        self.sizes = {
            "height": random.choice((1, 2, 3, 5, 9)),
            "width": random.choice((1, 2, 3, 8, 17, 33)),
        }
        self.seed = seed
        self.refused: list[str] = []
        """Who did not make it, and said so: of sizes that a caller chooses C may know too little,
        and Halide less of indices than bounds do."""

    def check(self) -> None:
        """That all agree; or an error says what does not."""
        program, sizes = self.program, self.sizes
        assert parsed(printed(program)) == program, "its text means another"
        arguments = arguments_of(program, sizes, self.seed)
        wanted = interpreted(program, sizes, *arguments)
        inputs, scalars = arguments
        for name in program.outputs:
            part = program.part(name)
            apart = interpreted(part, sizes, self._read(part, sizes, inputs), scalars)
            require_same("an output by itself", apart, {name: wanted[name]})
        normal = self._normal()
        found = interpreted(normal, sizes, self._read(normal, sizes, inputs), scalars)
        require_same("normal form", found, wanted)
        self._in_halide(*arguments, wanted)
        loose = self.choices.randrange(3)
        code = Coded(program, sizes, loose=loose)
        self._in_c(code, Contract.STATIC)
        self._in_c(Coded(normal, sizes, loose=loose), Contract.STATIC)
        code = Coded(program, USUAL, is_open=True, loose=loose)
        for contract in (one for one in Contract if one is not Contract.STATIC):
            self._in_c(code, contract)

    def _read(
        self,
        other: Program,
        sizes: Mapping[str, int],
        inputs: Values,
        own_sizes: Mapping[str, int] | None = None,
    ) -> Values:
        """What ``other`` reads of ``inputs`` at its ``sizes``, which may be less."""
        boxes, own = (
            bounded(other, sizes).boxes,
            bounded(self.program, own_sizes or self.sizes).boxes,
        )
        firsts = {name: [axis.low for axis in own[name]] for name in inputs}
        return {
            name: _part(inputs[name], firsts[name], boxes[name])
            for name in (one.name for one in other.inputs)
            if name in boxes
        }

    def _normal(self) -> Program:
        """The normal form, unless less is told of what that reads: then it is not taken."""
        normal = normalized(self.program, self.sizes)
        told, other = (bounded(one, self.sizes).boxes for one in (self.program, normal))
        sides = [
            sides
            for one in normal.inputs
            for sides in zip(told.get(one.name, ()), other.get(one.name, ()), strict=False)
        ]
        return normal if all(own.covers(found) for own, found in sides) else self.program

    def _in_c(self, code: Coded, contract: Contract) -> None:
        sizes = {**self.sizes, **({"width": 128} if contract is Contract.EXTENT else {})}
        inputs, scalars = arguments_of(self.program, sizes, self.seed)
        wanted = interpreted(self.program, sizes, inputs, scalars)
        arguments = self._read(code.program, sizes, inputs, sizes), scalars
        is_dense = self.choices.random() < 0.5
        with TemporaryDirectory() as folder:
            try:
                found = code.called(
                    *(*arguments, Path(folder), self.choices, contract, sizes), is_dense=is_dense
                )
            except ProgramError:
                if contract is Contract.STATIC:
                    raise
                self.refused.append(f"C under {contract}")
                return
            except RefusedError:
                # Of stages that are written into others less is known; as they are, all is told.
                if contract is Contract.STATIC:
                    raise
                if code.begins_elsewhere(sizes):
                    return
                again = Path(folder) / "again"  # a library of one place is loaded once
                again.mkdir()
                try:
                    found = code.called(*arguments, again, None, contract, sizes, is_dense=is_dense)
                except RefusedError:
                    self.refused.append(f"C under {contract}")
                    return
        require_same(f"C under {contract}", found, wanted)

    def _in_halide(self, inputs: Values, scalars: Mapping[str, int], wanted: Values) -> None:
        """By Halide, and as a pipeline that is read."""
        made = pipeline_of(bounded(self.program, self.sizes))
        pipeline = hl.Pipeline(list(made.outputs))
        data = bytes(hl.serialize_pipeline(pipeline))
        read = program_of(data)
        assert parsed(printed(read)) == read, "the text of what is read means another"
        names = {self.program.stage_of(name).name: None for name in self.program.outputs}
        stages = [self.program.stage_of(name) for name in names]
        shapes = {
            stage.name: next(wanted[array].shape for array in stage.arrays if array in wanted)
            for stage in stages
        }
        extents = {**shapes, **{name: value.shape for name, value in inputs.items()}}
        sizes = {}
        for size in read.sizes:
            owner, _, number = size.rpartition("_extent_")
            sizes[size] = extents[owner][-1 - int(number)]
        ranges = {one.name: one for one in self.program.scalars}  # as an upload may declare them
        read = replace(read, arguments=tuple(ranges.get(one.name, one) for one in read.arguments))
        mins = bounded(self.program, self.sizes).boxes
        axes = {one.name: one.axes for one in self.program.inputs}
        firsts = {name: [axis.low for axis in mins[name]] for name in inputs}
        arrays = [array for stage in stages for array in stage.arrays]
        found = interpreted(read, sizes, self._read(read, sizes, inputs), scalars)
        renamed = dict(zip(arrays, found.values(), strict=True))
        require_same("what is read of it", renamed, wanted)
        for func in made.stages.values():
            func.compute_root()
        images = dict(zip(inputs, made.inputs, strict=True))
        kept = {}  # an ImageParam does not keep what it is given
        for name, value in inputs.items():
            # Halide may want to have what it does not choose.
            apart = _AROUND if not all(axes[name]) else 0
            buffer = kept[name] = _buffer(np.pad(value, apart))
            buffer.set_min([first - apart for first in firsts[name][::-1]])
            images[name].set(buffer)
        for param, number in zip(made.scalars, scalars.values(), strict=True):
            param.set(number)
        outputs = {
            array: np.zeros(shapes[stage.name], kind.dtype)
            for stage in stages
            for array, kind in zip(stage.arrays, stage.types, strict=True)
        }
        try:
            pipeline.realize(list(map(_buffer, outputs.values())))
        except hl.HalideError as error:
            if not any(one in str(error) for one in _BY_HALIDE):
                raise
            self.refused.append("Halide")
        else:
            require_same("Halide", outputs, wanted)


def _part(values: np.ndarray, firsts: Sequence[int], box: Box) -> np.ndarray:
    """The elements of ``box`` of what begins at ``firsts``; zeros beyond, where less is known of
    what is read."""
    ends = [first + extent for first, extent in zip(firsts, values.shape, strict=True)]
    around = [
        (max(first - axis.low, 0), max(axis.high + 1 - end, 0))
        for first, end, axis in zip(firsts, ends, box, strict=True)
    ]
    places = zip(firsts, around, box, strict=True)
    return np.pad(values, around)[
        tuple(
            slice(axis.low - first + before, axis.high + 1 - first + before)
            for first, (before, _), axis in places
        )
    ]


def _buffer(values: np.ndarray) -> Any:
    """Halide knows one of the two unsigned types of 64 bits that NumPy has."""
    return hl.Buffer(values.view(np.ulonglong) if values.dtype == np.uint64 else values)


def require_same(who: str, found: Values, wanted: Values) -> None:
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=f"{who}: {name}", strict=True)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    first, count = map(int, sys.argv[1:])
    for seed in range(first, first + count):
        sys.stdout.write(f"{seed} ")
        sys.stdout.flush()
        try:
            one = Seeded(seed)
            one.check()
        except Exception as error:  # noqa: BLE001 - whatever it is, others are looked at
            sys.stdout.write(f"{f'{type(error).__name__}: {error}'!r}\n")
        else:
            refused = f", refused by {', '.join(one.refused)}" if one.refused else ""
            sys.stdout.write(f"same{refused}\n")


if __name__ == "__main__":
    main()
