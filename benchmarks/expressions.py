"""Expressions of the elements at one place, each of which HVX has an instruction for.

The expressions and their instructions follow Halide's test/correctness/simd_op_check_hvx.cpp: what
is made of one, two or three elements without their neighbours. Each is a program of 1024x64
elements, static, caches warm. Prints the vectors that it has to move, each input and the output
once, and the model cycles of the best among the defaults and textbooks of all generators. It fails
if one takes more than 1.2 times the vectors and 100 cycles besides; a quotient or remainder of
bytes may take 6 for each vector of bytes as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import halide as hl

from benchmarks.harness import Report, add_names, tell
from tuner.codegen import find_generator
from tuner.codegen.generator import GENERATOR
from tuner.jobs.one_config import measure
from tuner.jobs.tuning import find_problem, keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.candidate import Measurement, Problem

WIDTH, HEIGHT = 1024, 64
TIMES, BESIDES_CYCLES = 1.2, 100
QUOTIENT_PACKETS = 6
_U8, _I8, _U16, _I16, _U32, _I32 = (
    make(bits) for bits in (8, 16, 32) for make in (hl.UInt, hl.Int)
)


@dataclass(frozen=True)
class Expression:
    """What is made of an element of each of ``kinds``, and the ``instruction`` that it should
    become; ``more`` packets it may take for each vector of bytes."""

    instruction: str
    kinds: tuple[hl.Type, ...]
    make: Callable[..., hl.Expr]
    more: int = 0

    def pipeline(self) -> hl.Func:
        """It for all elements of images."""
        x, y, out = hl.Var("x"), hl.Var("y"), hl.Func("out")
        images = [hl.ImageParam(kind, 2, f"in{n}") for n, kind in enumerate(self.kinds)]
        out[x, y] = self.make(*(image[x, y] for image in images))
        return out


def _of(instruction: str, *kinds: hl.Type, more: int = 0) -> Callable[..., Expression]:
    return lambda make: Expression(instruction, kinds, make, more)


def _sat(kind: hl.Type) -> Callable[[hl.Expr], hl.Expr]:
    return lambda value: hl.saturating_cast(kind, value)


EXPRESSIONS: Mapping[str, Expression] = {
    # Widths
    "u16(u8)": _of("vzxt", _U8)(lambda a: hl.u16(a)),
    "i16(i8)": _of("vsxt", _I8)(lambda a: hl.i16(a)),
    "u32(u16)": _of("vzxt", _U16)(lambda a: hl.u32(a)),
    "i32(i16)": _of("vsxt", _I16)(lambda a: hl.i32(a)),
    "u8(u16)": _of("vpacke", _U16)(lambda a: hl.u8(a)),
    "i16(i32)": _of("vpacke", _I32)(lambda a: hl.i16(a)),
    "u8(u16 >> 8)": _of("vpacko", _U16)(lambda a: hl.u8(a >> 8)),
    "i16(i32 >> 16)": _of("vpacko", _I32)(lambda a: hl.i16(a >> 16)),
    "u8_sat(i16)": _of("vsat", _I16)(lambda a: hl.u8_sat(a)),
    "i8_sat(i16)": _of("vpack:sat", _I16)(lambda a: hl.i8_sat(a)),
    "i16_sat(i32)": _of("vsat", _I32)(lambda a: hl.i16_sat(a)),
    "u16_sat(i32)": _of("vpack:sat", _I32)(lambda a: hl.u16_sat(a)),
    "u8_sat((i16 + 128) >> 8)": _of("vround", _I16)(lambda a: hl.u8_sat((hl.i32(a) + 128) >> 8)),
    "i16_sat((i32 + 2^15) >> 16)": _of("vround", _I32)(
        lambda a: hl.i16_sat((hl.i64(a) + (1 << 15)) >> 16)
    ),
    "u8_sat(i16 >> 4)": _of("vasr:sat", _I16)(lambda a: hl.u8_sat(a >> 4)),
    "u8_sat((i16 + 8) >> 4)": _of("vasr:rnd:sat", _I16)(lambda a: hl.u8_sat((hl.i32(a) + 8) >> 4)),
    "i8_sat((i16 + 8) >> 4)": _of("vasr:rnd:sat", _I16)(lambda a: hl.i8_sat((hl.i32(a) + 8) >> 4)),
    "i16_sat(i32 >> 8)": _of("vasr:sat", _I32)(lambda a: hl.i16_sat(a >> 8)),
    "u16_sat(i32 >> 8)": _of("vasr:sat", _I32)(lambda a: hl.u16_sat(a >> 8)),
    # Sums
    "u8 + u8": _of("vadd", _U8, _U8)(lambda a, b: a + b),
    "i16 - i16": _of("vsub", _I16, _I16)(lambda a, b: a - b),
    "i32 + i32": _of("vadd", _I32, _I32)(lambda a, b: a + b),
    "u8_sat(u8 + u8)": _of("vadd:sat", _U8, _U8)(lambda a, b: hl.u8_sat(hl.u16(a) + b)),
    "u8_sat(u8 - u8)": _of("vsub:sat", _U8, _U8)(lambda a, b: hl.u8_sat(hl.i16(a) - b)),
    "u16_sat(u16 + u16)": _of("vadd:sat", _U16, _U16)(lambda a, b: hl.u16_sat(hl.u32(a) + b)),
    "i16_sat(i16 - i16)": _of("vsub:sat", _I16, _I16)(lambda a, b: hl.i16_sat(hl.i32(a) - b)),
    "i32_sat(i32 + i32)": _of("vadd:sat", _I32, _I32)(lambda a, b: hl.i32_sat(hl.i64(a) + b)),
    "u16(u8) + u8": _of("vadd", _U8, _U8)(lambda a, b: hl.u16(a) + b),
    "i32(i16) - i16": _of("vsub", _I16, _I16)(lambda a, b: hl.i32(a) - b),
    "(u8 + u8) / 2": _of("vavg", _U8, _U8)(lambda a, b: hl.u8((hl.u16(a) + b) // 2)),
    "(u8 + u8 + 1) / 2": _of("vavg:rnd", _U8, _U8)(lambda a, b: hl.u8((hl.u16(a) + b + 1) // 2)),
    "(i16 + i16) / 2": _of("vavg", _I16, _I16)(lambda a, b: hl.i16((hl.i32(a) + b) // 2)),
    "(i32 + i32 + 1) / 2": _of("vavg:rnd", _I32, _I32)(
        lambda a, b: hl.i32((hl.i64(a) + b + 1) // 2)
    ),
    "(u8 - u8) / 2": _of("vnavg", _U8, _U8)(lambda a, b: hl.i8((hl.i16(a) - b) // 2)),
    "i8_sat((i8 - i8) / 2)": _of("vnavg", _I8, _I8)(lambda a, b: hl.i8_sat((hl.i16(a) - b) // 2)),
    "(i16 - i16) / 2": _of("vnavg", _I16, _I16)(lambda a, b: hl.i16((hl.i32(a) - b) // 2)),
    # Comparisons
    "absd(u8, u8)": _of("vabsdiff", _U8, _U8)(lambda a, b: hl.absd(a, b)),
    "absd(i16, i16)": _of("vabsdiff", _I16, _I16)(lambda a, b: hl.absd(a, b)),
    "absd(i32, i32)": _of("vabsdiff", _I32, _I32)(lambda a, b: hl.absd(a, b)),
    "abs(i16)": _of("vabs", _I16)(lambda a: hl.abs(a)),
    "min(u8, u8)": _of("vmin", _U8, _U8)(lambda a, b: hl.min(a, b)),
    "max(i16, i16)": _of("vmax", _I16, _I16)(lambda a, b: hl.max(a, b)),
    "min(i32, i32)": _of("vmin", _I32, _I32)(lambda a, b: hl.min(a, b)),
    "select(u8 == u8, u8, u8)": _of("vcmp.eq, vmux", _U8, _U8, _U8)(
        lambda a, b, c: hl.select(a == b, a, c)
    ),
    "select(i16 > i16, i16, i16)": _of("vcmp.gt, vmux", _I16, _I16, _I16)(
        lambda a, b, c: hl.select(a > b, b, c)
    ),
    # Bits
    "u8 & u8": _of("vand", _U8, _U8)(lambda a, b: a & b),
    "~u16": _of("vnot", _U16)(lambda a: ~a),
    "u16 << 3": _of("vasl", _U16)(lambda a: a << 3),
    "i32 >> 5": _of("vasr", _I32)(lambda a: a >> 5),
    "u8 >> 3": _of("vlsr", _U8)(lambda a: a >> 3),
    "u8 << 3": _of("vasl", _U8)(lambda a: a << 3),
    "i8 >> 3": _of("vasr", _I8)(lambda a: a >> 3),
    "u16 >> (u16 & 15)": _of("vlsr", _U16, _U16)(lambda a, b: a >> (b & 15)),
    "i32 << (i32 & 31)": _of("vasl", _I32, _I32)(lambda a, b: a << (b & 31)),
    "popcount(u16)": _of("vpopcount", _U16)(lambda a: hl.popcount(a)),
    "clz(u16)": _of("vcl0", _U16)(lambda a: hl.count_leading_zeros(a)),
    "clz(u32)": _of("vcl0", _U32)(lambda a: hl.count_leading_zeros(a)),
    "ctz(u16)": _of("vpopcount", _U16)(lambda a: hl.count_trailing_zeros(a)),
    "u32 turned by 7 bits": _of("vasl, vlsr", _U32)(lambda a: (a << 7) | (a >> 25)),
    # Products
    "u16(u8) * u8": _of("vmpy", _U8, _U8)(lambda a, b: hl.u16(a) * b),
    "i16(i8) * i8": _of("vmpy", _I8, _I8)(lambda a, b: hl.i16(a) * b),
    "i16(u8) * i8": _of("vmpy", _U8, _I8)(lambda a, b: hl.i16(a) * b),
    "u16(u8) * 3": _of("vmpy", _U8)(lambda a: hl.u16(a) * 3),
    "u32(u16) * u16": _of("vmpy", _U16, _U16)(lambda a, b: hl.u32(a) * b),
    "i32(i16) * i16": _of("vmpy", _I16, _I16)(lambda a, b: hl.i32(a) * b),
    "i32(i16) * u16": _of("vmpy", _I16, _U16)(lambda a, b: hl.i32(a) * hl.i32(b)),
    "i16 * i16": _of("vmpyi", _I16, _I16)(lambda a, b: a * b),
    "i16 + i16 * i16": _of("vmpyi", _I16, _I16, _I16)(lambda a, b, c: a + b * c),
    "i32 * i32": _of("vmpyieo, vmpyie", _I32, _I32)(lambda a, b: a * b),
    "i32 * 127": _of("vmpyi", _I32)(lambda a: a * 127),
    "i32 + i32(i16) * i16": _of("vmpy", _I32, _I16, _I16)(lambda a, b, c: a + hl.i32(b) * c),
    "u16(u8) * 3 + u16(u8) * 5": _of("vmpa", _U8, _U8)(lambda a, b: hl.u16(a) * 3 + hl.u16(b) * 5),
    "i16_sat((i16 * i16 + 2^14) >> 15)": _of("vmpy:<<1:rnd:sat", _I16, _I16)(
        lambda a, b: hl.i16_sat((hl.i32(a) * b + (1 << 14)) >> 15)
    ),
    "i32_sat((i32 * i32 + 2^30) >> 31)": _of("vmpyo:<<1:rnd:sat", _I32, _I32)(
        lambda a, b: hl.i32_sat((hl.i64(a) * b + (1 << 30)) >> 31)
    ),
    # Quotients
    "u8 / 7": _of("", _U8, more=QUOTIENT_PACKETS)(lambda a: a // hl.u8(7)),
    "u8 % 10": _of("", _U8, more=QUOTIENT_PACKETS)(lambda a: a % hl.u8(10)),
    "u8 / u8": _of("", _U8, _U8, more=QUOTIENT_PACKETS)(lambda a, b: a // b),
    "u8 % u8": _of("", _U8, _U8, more=QUOTIENT_PACKETS)(lambda a, b: a % b),
    "i8 / i8": _of("", _I8, _I8, more=QUOTIENT_PACKETS)(lambda a, b: a // b),
}


def best_of(problem: Problem, generator: str) -> tuple[Measurement | None, str]:
    """The best of what a generator begins with, and whose it is."""
    kernel, found = find_kernel(problem.workload.kernel), list[tuple[Measurement, str]]()
    starts = find_generator(generator).starts(kernel, problem)
    for config in dict.fromkeys(starts.values()):
        trial, _ = measure(problem, config, generator=generator)
        if trial.measurement and trial.measurement.verified:
            found.append((trial.measurement, str(config.get(GENERATOR, generator))))
    return min(found, key=lambda one: one[0].cycles, default=(None, "-"))


def options(parser: argparse.ArgumentParser) -> None:
    """Which expressions, and by what."""
    add_names(parser, "EXPRESSION", EXPRESSIONS)
    parser.add_argument("--generator", default="portfolio")


def run(given: argparse.Namespace, report: Report) -> None:
    """Measures the expressions, and tells a row for each."""
    figures = {"vectors": ",", "at most": ",.0f", "best": ","}
    report.table({"expression": "", "instruction": "", **figures, "by": "", "beyond": ""})
    missed = 0
    for name in given.names:
        tell(name)
        one = EXPRESSIONS[name]
        problem = find_problem(
            keep_pipeline(one.pipeline()), {"x": WIDTH, "y": HEIGHT}, DEFAULT_TARGET, "static"
        )
        kernel, size = find_kernel(problem.workload.kernel), problem.target.vector_bytes
        buffers = kernel.buffers(problem.workload.params)
        vectors = sum(spec.payload_bytes // size for spec in buffers)
        most = TIMES * vectors + BESIDES_CYCLES + one.more * WIDTH * HEIGHT // size
        found, by = best_of(problem, given.generator)
        is_beyond = found is None or found.cycles > most
        missed += is_beyond
        cycles = found.cycles if found else None
        report.row(name, one.instruction, vectors, most, cycles, by, "*" if is_beyond else "")
    report.bar("expressions beyond their line", missed, most=0)
