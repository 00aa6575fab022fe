"""The units of HVX that instructions take, held against the packets that LLVM's assembler takes."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tuner.measure.explained import explain_packets, region_with
from tests.tuner.measure.qemu.microbenchmark import MODEL
from tuner.codegen.toolchain import find_toolchain
from tuner.measure.explanation import UNITS
from tuner.measure.qemu.disassembly import Decoded, decode

OF_HEADER = re.compile(
    r"#if __HVX_ARCH__ >= (\d+)|Assembly Syntax: +(.*)\n.*\n +Instruction Type: +(\S+)"
)
"""clang's header of intrinsics: each instruction of HVX, under the first arch that has it."""
ARCH = 68
NOT_ALONE = re.compile(r"vextract|=hi\(|=lo\(|V..32=#0|\.s?f(16|32|\b)|\.[hbq]f|\.f8|fext|fmv")
"""Whatever is not one instruction of a packet, and floating point, which the simulator lacks."""
ACCESSES = [
    "v0 = vmem(r1+#0)",
    "v0 = vmemu(r1+#0)",
    "v0.cur = vmem(r1+#0)",
    "v0.tmp = vmem(r1+#0)",
    "if (p0) v0 = vmem(r1+#0)",
    "vmem(r1+#0) = v4",
    "vmemu(r1+#0) = v4",
    "vhist",
    "vwhist256(q1)",
    "vshuff(v0,v1,r1)",
    "if (p0) v1:0 = vcombine(v4,v5)",
]
"""More, in forms that intrinsics do not have."""
BESIDE = [
    ["v20 = vror(v21,r0)"],
    ["v20.w = vasl(v21.w,r0)"],
    ["v20.w = vrmpy(v21.ub,r0.b)"],
    ["v20.w = vrmpy(v21.ub,r0.b)", "v22.w = vrmpy(v23.ub,r0.b)"],
    ["v28 = vand(v21,v21)", "v29 = vand(v21,v21)", "v30 = vand(v21,v21)"],
    ["v29:28.b = vadd(v23:22.b,v25:24.b)", "v31:30.b = vadd(v23:22.b,v25:24.b)"],
    ["v20 = vmem(r0+#0)"],
]
"""What each instruction is put in a packet with: it fits if there are units for all."""


def instructions() -> Iterator[str]:
    header = find_toolchain().zig.parent / "lib/include/hvx_hexagon_protos.h"
    arch = 0
    for since, syntax, _ in OF_HEADER.findall(header.read_text()):
        arch = int(since) if since else arch
        if syntax and arch <= ARCH and not NOT_ALONE.search(syntax):
            yield concrete(syntax)
    yield from ACCESSES


def concrete(syntax: str) -> str:
    """``Vxx32.h+=vmpy(Vu32.ub,Rt32.b)`` with registers: ``v1:0.h += vmpy(v4.ub,r1.b)``."""
    pairs = {"dd": "v1:0", "xx": "v1:0", "uu": "v5:4", "vv": "v7:6"}
    single = {"d": "v0", "x": "v0", "u": "v4", "v": "v6", "w": "v8", "s": "v4"}
    text = re.sub(r"V(dd|xx|uu|vv)32", lambda found: pairs[found[1]], syntax)
    text = re.sub(r"V([dxuvws])32", lambda found: single[found[1]], text)
    text = re.sub(r"Q([a-z])4", lambda found: "q0" if found[1] in "dx" else "q1", text)
    text = re.sub(r"R[a-z](32|8)", "r1", text.replace("Rtt32", "r3:2").replace("Mu2", "m0"))
    return re.sub(r"([-+|&^]?=)(?![^(]*\))", r" \1 ", re.sub(r"#[us]\d", "#0", text))


def decoded(*words: str) -> Decoded:
    lines = "\n0x00000010:  ".join(f"0x11111111\t\t{word}" for word in words)
    return decode(0x10, lines.replace("\t\t", "\t{\t", 1) + " }", MODEL.rules)


def slots_for(*words: str) -> bool:
    """Whether there are slots for all: an unaligned access takes both of memory's."""
    accesses = sum(("vmem" in word) + ("vmemu(" in word) for word in words)
    return accesses <= 2 and len(words) + sum("vmemu(" in word for word in words) <= 4


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, int]]:
    """Which instructions the assembler does not take beside which of :data:`BESIDE`."""
    folder = tmp_path_factory.mktemp("packets")
    tried = [(each, place) for each in instructions() for place in range(len(BESIDE))]
    packets = [f"{{ {' ; '.join([*BESIDE[place], each])} }}\n" for each, place in tried]
    (folder / "packets.s").write_text("".join(packets))
    flags = ["-target", "hexagon-linux-musl", f"-mcpu=hexagonv{ARCH}+hvxv{ARCH}+hvx_length128b"]
    done = subprocess.run(
        [find_toolchain().zig, "cc", *flags, "-c", "packets.s", "-o", "packets.o"],
        cwd=folder,
        env={"ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"packets\.s:(\d+):\d+: error: (.*)", done.stderr)
    assert {reason.partition(": ")[0] for _, reason in errors} == {"invalid instruction packet"}
    return {tried[int(line) - 1] for line, _ in errors}


def test_what_fits_a_packet_takes_no_more_units_than_it_has(refused: set[tuple[str, int]]) -> None:
    wrong = []
    for each in instructions():
        own = decoded(each).units
        for place, beside in enumerate(BESIDE):
            taken = Counter(decoded(*beside).units)
            taken.update(own)
            fits = all(taken[unit] <= most for unit, most in UNITS.items())
            if (fits and slots_for(each, *beside)) == ((each, place) in refused):
                wrong.append((each, dict(own), beside))
    assert not wrong, wrong[:20]


@pytest.mark.parametrize(
    ("packets", "unit"),
    [
        ("{ v1:0.h = vmpy(v4.ub,v5.b) }", "vector multiply"),
        ("{ v0.w = vrmpy(v4.ub,r1.b) ; v1.w = vrmpy(v5.ub,r1.b) }", "vector multiply"),
        ("{ v1:0 = vshuff(v4,v5,r1) }", "vector permute"),
        ("{ v5 = vmemu(r10+#1) }", "vector load"),
        ("{ v1:0.h = vadd(v5:4.h,v7:6.h) ; v3:2.h = vsub(v5:4.h,v7:6.h) }", "vector arithmetic"),
    ],
)
def test_a_loop_that_fills_a_unit_keeps_it_busy(tmp_path: Path, packets: str, unit: str) -> None:
    loop = f"{{ r9 = #50 }}\n{{ loop0(1f,r9) }}\n1: {packets}\n{packets}:endloop0\n"
    region = region_with(explain_packets(loop, tmp_path), ":endloop0")
    assert region.busiest_unit == (unit, 1.0)
