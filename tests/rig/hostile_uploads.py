"""Uploads that mean harm: programs that Halide's front end lets one write, and bytes changed where
it does not. Each stands beside what its refusal has to say.

``python -m tests.rig.hostile_uploads`` writes them to standard output as JSON.
"""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from tuner.codegen.halide.uploads import serialized
from tuner.codegen.halide.uploads.serialized import TABLES, UNIONS, Node

CALLS = r"its stage \S+ calls {}"
DAMAGED = "not a pipeline"

PREAMBLE = """
import halide as hl
x, y, u = hl.Var("x"), hl.Var("y"), hl.Var("u")
image, r = hl.ImageParam(hl.UInt(8), 2, "image"), hl.RDom([(0, 3)], "r")
f, g = hl.Func("f"), hl.Func("g")
pixel = image[x, y]
sine, wave = hl.u8(hl.sin(hl.f32(pixel))), hl.i32(hl.sin(hl.f32(image.width())))
f[x, y] = pixel + hl.u8(1)
"""
_DEFINED = "g[x, y] = f[x, y] * hl.u8(3)\n"
_UPDATED = f"{_DEFINED}g[x, y] += image[x + r, y]\n"
_KILL = {"sin_f32": "kill"}
_PRINT = "g[x, y] = hl.print(f[x, y])"
_ROOT = "g[x, y] = hl.u8(hl.sqrt(hl.f32(pixel)))"

PROGRAMS: dict[str, tuple[str, dict[str, str], str]] = {
    # Code of the host, called by an expression
    "print": (_PRINT, {}, CALLS.format(r"halide_print \(Extern\)")),
    **{
        f"extern {name}": (
            "g[x, y] = hl.print_when(f[x, y] > 3, f[x, y])",
            {"halide_print": name},
            CALLS.format(rf"{name} \(Extern\)"),
        )
        for name in ("prlimit", "system")
    },
    "square root": (_ROOT, {}, CALLS.format(r"sqrt_f32 \(PureExtern\)")),
    **{
        f"pure {name}": (_ROOT, {"sqrt_f32": name}, CALLS.format(rf"{name} \(PureExtern\)"))
        for name in ("system", "unlink")
    },
    # The same, wherever else there is an expression
    "in an update": (f"{_DEFINED}g[x, y] += sine", _KILL, CALLS.format("kill")),
    "in an update's place": (
        f"{_DEFINED}g[hl.i32(hl.sin(hl.f32(r.x))), y] = hl.u8(0)",
        _KILL,
        CALLS.format("kill"),
    ),
    "in an update's condition": (
        f"r.where(hl.sin(hl.f32(r.x)) > 0)\n{_UPDATED}",
        _KILL,
        CALLS.format("kill"),
    ),
    "in a reduction's extent": (
        f"r = hl.RDom([(0, wave)], 'r')\n{_UPDATED}",
        _KILL,
        CALLS.format("kill"),
    ),
    "in an index": ("g[x, y] = f[hl.i32(sine), y]", _KILL, CALLS.format("kill")),
    "in a condition": (
        "g[x, y] = hl.select(sine > 3, pixel, f[x, y])",
        _KILL,
        CALLS.format("kill"),
    ),
    "in a choice": (
        "g[x, y] = hl.mux(hl.i32(sine), [pixel, f[x, y]])",
        _KILL,
        CALLS.format("kill"),
    ),
    "behind a hint": ("g[x, y] = hl.likely(sine)", _KILL, CALLS.format("kill")),
    "in a value of a tuple": ("g[x, y] = (pixel, sine)", _KILL, CALLS.format("kill")),
    # Intrinsics that do more than compute
    "undefined": ("g[x, y] = hl.undef(hl.UInt(8))", {}, CALLS.format("undef")),
    "memoize_tag": ("g[x, y] = hl.memoize_tag(pixel)", {}, CALLS.format("memoize_expr")),
    "require": (
        "g[x, y] = hl.require(pixel > 3, pixel, pixel)",
        {},
        "calls (require|halide_error)",
    ),
    "target": ("g[x, y] = hl.u8(hl.target_bits())", {}, CALLS.format("target_bits")),
    **{
        f"intrinsic {name}": (
            f"g[x, y] = hl.{long}(pixel, f[x, y])",
            {long: name},
            CALLS.format(rf"{name} \(PureIntrinsic\)"),
        )
        for name, long in (
            ("debug_to_file", "rounding_halving_add"),
            ("register_destructor", "rounding_halving_add"),
            ("trace", "halving_sub"),
        )
    },
    # What a Func may be asked for beside its values
    "debug_to_file": (f"{_DEFINED}f.debug_to_file('/tmp/seen.tiff')", {}, "debug_to_file"),
    "define_extern": (
        "o = hl.Func('o')\no.define_extern('system', [f], hl.UInt(8), 2)\ng[x, y] = o[x, y]",
        {},
        r"its stage \S+ is code from elsewhere \(define_extern 'system'\)",
    ),
}


@cache
def hostile_uploads() -> dict[str, tuple[bytes, str]]:
    """Name to bytes, and a pattern of the reason. From another process: Halide counts names."""
    command = [sys.executable, "-m", "tests.rig.hostile_uploads"]
    done = subprocess.run(command, capture_output=True, check=True)
    made = json.loads(done.stdout)
    return {name: (base64.b64decode(data), reason) for name, (data, reason) in made.items()}


def written(program: str) -> bytes:
    """The output ``g`` of a program after the preamble, serialized."""
    scope: dict[str, Any] = {}
    exec(PREAMBLE + program, scope)  # noqa: S102 - the programs above
    hl = scope["hl"]
    return bytes(hl.serialize_pipeline(scope.get("out") or hl.Pipeline(scope["g"])))


def renamed(data: bytes, old: str, new: str) -> bytes:
    """``data`` with one text in the place of another that is at least as long."""
    text, other = (struct.pack("<I", len(name)) + name.encode() for name in (old, new))
    assert text in data, old
    assert len(other) <= len(text), new
    return data.replace(text, other.ljust(len(text), b"\0"))


class Patched:
    """Serialized bytes with the places of what is in them."""

    def __init__(self, program: str) -> None:
        data = written(program)
        self.data = bytearray(data)
        places: list[tuple[int, serialized._Table]] = []

        class Spy(serialized._Table):
            def __init__(self, buffer: serialized._Buffer, position: int) -> None:
                super().__init__(buffer, position)
                places.append((position, self))

        kept, serialized._Table = serialized._Table, Spy  # type: ignore[misc]
        try:
            self.root, self._nodes = serialized.read(data)
        finally:
            serialized._Table = kept  # type: ignore[misc]
        self._places = dict(zip(self._nodes, places, strict=True))

    def found(self, kind: str, **fields: Any) -> list[Node]:
        """The tables of a kind with these values."""
        return [
            node
            for node in self._nodes
            if node.kind == kind and all(node[name] == value for name, value in fields.items())
        ]

    def put(self, form: str, node: Node, field: str, value: int) -> None:
        """Overwrites a number."""
        struct.pack_into(form, self.data, self._place(node, field), value)

    def lengthen(self, node: Node, field: str, count: int) -> None:
        """Has a vector say that it is as long as ``count``."""
        place = self._place(node, field)
        place += struct.unpack_from("<I", self.data, place)[0]
        struct.pack_into("<I", self.data, place, count)

    def point(self, node: Node, field: str, other: Node) -> None:
        """Has the expression ``field`` of ``node`` be ``other``, which lies behind it."""
        struct.pack_into(
            "<B", self.data, self._place(node, field, 1), UNIONS["Expr"].index(other.kind)
        )
        place = self._place(node, field)
        struct.pack_into("<I", self.data, place, (self._places[other][0] - place) & 0xFFFFFFFF)

    def _place(self, node: Node, field: str, before: int = 0) -> int:
        """Where a field lies, or what stands ``before`` it: the kind of a union."""
        (one,) = (each for each in TABLES[node.kind] if each.name == field)
        found = self._places[node][1].place(one.number - before, 1)
        assert found is not None, (
            f"the {field} of the {node.kind} has its default, which is not kept"
        )
        return found


def _doubled(p: Patched) -> None:
    """Each sum is that of the next with itself: 2 ** 40 of them to whom copies them."""
    for add in p.found("Add"):
        if add["b"].kind == "Add":
            p.point(add, "a", add["b"])


def _own_part(p: Patched) -> None:
    """Offsets lead forwards alone, so there is no such thing."""
    add = p.found("Add")[0]
    p.point(add, "a", add)


def _as_extern(p: Patched) -> None:
    for call in p.found("Call", call_type="PureIntrinsic"):
        p.put("<B", call, "call_type", 3)


_SUMS = "g[x, y] = " + "image[x, y] + (" * 40 + "pixel" + ")" * 40
_DEEP = "value = pixel\nfor n in range(600): value = hl.u8(hl.u16(value))\ng[x, y] = value"
_TABLE = "t = hl.Buffer(hl.UInt(8), [16], 't')\ng[x, y] = t[hl.clamp(x, 0, 15)]"
_ABSD = "g[x, y] = hl.absd(pixel, f[x, y])"

BYTES: dict[str, tuple[str, Callable[[Patched], Any], str]] = {
    "vectors": (
        _DEFINED,
        lambda p: [p.put("<i", one, "lanes", 1 << 20) for one in p.found("Type")],
        "has a vector type",
    ),
    "pointers": (
        _ABSD,
        lambda p: [p.put("<B", one, "code", 3) for one in p.found("Type", code="uint")],
        "has a pointer",
    ),
    "odd numbers": (
        _DEFINED,
        lambda p: p.put("<B", p.found("Type", bits=8)[0], "bits", 7),
        "a type of 7 bits",
    ),
    "an intrinsic as code of the host": (_ABSD, _as_extern, CALLS.format(r"absd \(PureExtern\)")),
    "an expression in itself": (_SUMS, _own_part, "an offset leads out of it"),
    "expressions that double": (_SUMS, _doubled, "unfolds to more than"),
    "a vector without end": (
        _DEFINED,
        lambda p: p.lengthen(p.root, "funcs", 0x7FFFFFFF),
        "longer than it",
    ),
    "fewer arguments": (
        _ABSD,
        lambda p: p.lengthen(p.found("Call", name="absd")[0], "args", 1),
        "their kinds",
    ),
    "a table of another size": (
        _TABLE,
        lambda p: p.put("<i", p.found("BufferDimension")[0], "extent", 8),
        "has other data",
    ),
    "a table that overlaps itself": (
        _TABLE,
        lambda p: p.put("<i", p.found("BufferDimension")[0], "stride", -1),
        "overlap",
    ),
}


def _others() -> dict[str, tuple[bytes, str]]:
    plain = written(_DEFINED)
    return {
        "zeros": (bytes(64), DAMAGED),
        "text": (b"no pipeline at all, but a text that is long enough", DAMAGED),
        "another version": (renamed(plain, "18.0.1", "18.0.0"), "of the form '18.0.0'"),
        "a requirement": (
            written(f"{_DEFINED}out = hl.Pipeline(g)\nout.add_requirement(image.width() > 3)"),
            "add_requirement",
        ),
        "depth": (written(_DEEP), "nests more than"),
    }


def main() -> None:
    """Writes all."""
    made = _others()
    for name, (program, names, reason) in PROGRAMS.items():
        data = written(program)
        for old, new in names.items():
            data = renamed(data, old, new)
        made[name] = (data, reason)
    for name, (program, change, reason) in BYTES.items():
        patched = Patched(program)
        change(patched)
        made[name] = (bytes(patched.data), reason)
    form = {name: (base64.b64encode(data).decode(), why) for name, (data, why) in made.items()}
    json.dump(form, sys.stdout)


if __name__ == "__main__":
    main()
