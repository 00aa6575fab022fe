"""Pipelines that between them call every intrinsic an upload may, with operands of each kind.

``python -m tests.rig.arithmetic_pipelines NAME`` writes one to standard output, serialized.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Any

SIZE = {"x": 128, "y": 2}

_SIGNED = "a, b, c = i16(p) * 257 + 99, i16(q) * -129, i16(o)"
EXPRESSIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "bits": (
        "a, b = p, q",
        (
            "(a & b) | (~a ^ u8(85))",
            "a << (b & 7)",
            "i8(a) >> i8(clamp(i8(b), -7, 7))",
            "i16(a) << i16(b & 15)",
            "count_leading_zeros(u16(a) * 3)",
            "count_trailing_zeros(u16(a) << 4)",
            "popcount(i32(a) * -99)",
            "concat_bits([a, b])",
            "extract_bits(UInt(8), u16(a) * 771, 5)",
            "reinterpret(Int(8), a)",
        ),
    ),
    "unsigned": (
        "a, b = p, q",
        (
            "absd(a, b)",
            "halving_add(a, b)",
            "halving_sub(a, b)",
            "rounding_halving_add(a, b)",
            "saturating_add(a, b)",
            "saturating_sub(a, b)",
            "widening_add(a, b)",
            "widening_sub(a, b)",
            "widening_mul(a, b)",
            "widening_shift_left(a, b & 7)",
            "widening_shift_right(a, b & 7)",
            "mul_shift_right(a, b, 7)",
        ),
    ),
    "signed": (
        _SIGNED,
        (
            "absd(a, b)",
            "abs(a)",
            "halving_add(a, b)",
            "halving_sub(a, b)",
            "rounding_halving_add(a, b)",
            "saturating_add(a, b)",
            "saturating_sub(a, b)",
            "widening_add(a, b)",
            "widening_sub(a, b)",
            "widening_mul(a, b)",
            "mul_shift_right(a, b, 15)",
            "rounding_mul_shift_right(a, b, 15)",
        ),
    ),
    "rounding": (
        _SIGNED,
        (
            "rounding_shift_right(a, 3)",
            "rounding_shift_right(a, clamp(c - 128, -7, 7))",
            "rounding_shift_left(a, clamp(c - 128, -7, 7))",
            "widen_right_add(i32(a), b)",
            "widen_right_sub(i32(a), b)",
            "widen_right_mul(i32(c), b)",
            "saturating_cast(UInt(8), a)",
            "saturating_cast(Int(8), b)",
            "saturating_cast(UInt(16), i32(a) * 3)",
            "lerp(p, q, o)",
            "lerp(u16(p) * 257, u16(q) * 200, o)",
            "lerp(i8(p), i8(q), o)",
        ),
    ),
    "division": (
        "a, b, c = i16(p) - 99, i16(q) - 128, i32(o)",
        (
            "a / 7",
            "a % 7",
            "a / b",
            "a % b",
            "i32(a) * 1000 / -9",
            "p / q",
            "p % q",
            "div_round_to_zero(a, b | 1)",
            "mod_round_to_zero(a, b | 1)",
            "mux(c % 4, [p, q, p + q])",
            "select((p > 3) & (q < 9) | ~(p == q), likely(p), likely_if_innermost(q))",
            "image[x + unsafe_promise_clamped(i32(q), 0, 255), y]",
        ),
    ),
    "wide": (
        (
            "a, b = i64(i8(p)) << i64(56), (i64(i8(q)) << i64(56)) + i64(o)\n"
            "c, d, u, v = i32(a >> i64(32)), i32(b >> i64(31)), u64(a), u64(b)\n"
            "top = lambda value: u32(u64(value) >> u64(32))"
        ),
        (
            "i32_sat((i64(c) * i64(d) + (i64(1) << i64(30))) >> i64(31))",
            "i32((i64(c) + i64(d)) >> i64(1))",
            "rounding_mul_shift_right(c, d, 31)",
            "top(halving_add(a, b)) ^ top(halving_add(u, v))",
            "top(halving_sub(a, b)) ^ top(halving_sub(u, v))",
            "top(rounding_halving_add(a, b)) ^ top(rounding_halving_add(u, v))",
            "top(saturating_add(a, b)) ^ top(saturating_add(u, v))",
            "top(saturating_sub(a, b)) ^ top(saturating_sub(u, v))",
            "top(absd(a, b)) ^ top(absd(u, v))",
            "u32(rounding_shift_right(a, 50)) ^ u32(rounding_shift_right(u, 50))",
            "u32(rounding_shift_left(b >> i64(9), 3)) ^ u32(rounding_shift_left(v >> u64(9), 3))",
            "u8(count_leading_zeros(u >> u64(3)) + popcount(v) + count_trailing_zeros(v))",
            "top(widen_right_add(a >> i64(1), c)) ^ top(widen_right_mul(u64(o), u32(d)))",
            "u8_sat(a >> i64(60)) ^ u8(u >> u64(60)) ^ u8(u32_sat(v) >> u32(24))",
            "top((a >> i64(1)) / ((b >> i64(40)) | i64(1))) ^ top(u % (v | u64(1)))",
        ),
    ),
}
"""For each pipeline the operands, and an output for each expression of them; ``o``, ``p`` and ``q``
are bytes of the input."""


@cache
def arithmetic_pipeline(name: str) -> bytes:
    """One of :data:`EXPRESSIONS`, serialized, from a process of its own."""
    command = [sys.executable, "-m", "tests.rig.arithmetic_pipelines", name]
    return subprocess.run(command, capture_output=True, check=True).stdout


def main() -> None:
    """Writes the pipeline that is asked for."""
    import halide as hl

    operands, expressions = EXPRESSIONS[sys.argv[1]]
    scope: dict[str, Any] = {name: getattr(hl, name) for name in dir(hl) if name[0] != "_"}
    x, y, image = hl.Var("x"), hl.Var("y"), hl.ImageParam(hl.UInt(8), 2, "image")
    pixels = {name: image[x + number, y] for number, name in enumerate("opq")}
    scope |= {"x": x, "y": y, "image": image, **pixels}
    exec(operands, scope)  # noqa: S102 - those above
    outputs = []
    for number, expression in enumerate(expressions):
        output = hl.Func(f"out{number}")
        output[x, y] = eval(expression, scope)  # noqa: S307 - those above
        outputs.append(output)
    sys.stdout.buffer.write(hl.serialize_pipeline(hl.Pipeline(outputs)))


if __name__ == "__main__":
    main()
