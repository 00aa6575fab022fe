"""QEMU's disassembly as people read it: text, kinds of instructions, where control goes."""

from __future__ import annotations

import pytest

from tests.tuner.measure.qemu.microbenchmark import MODEL
from tuner.measure.qemu.disassembly import Decoded, Flow, decode

AT = 0x100010


def packet(*words: str, end: str = "") -> Decoded:
    """A packet at ``AT`` of which QEMU prints ``words``, as QEMU prints it."""
    lines = [f"0x{0x11111111 * i:08x}\t\t{word}" for i, word in enumerate(words, 1)]
    lines[0] = lines[0].replace("\t\t", "\t{\t", 1)
    text = f"\n0x{AT:08x}:  ".join(lines) + " }" + (f"  :{end}" if end else "")
    return decode(AT, text, MODEL.rules, {0x100100: "memcpy"})


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["R5 = add(R4,#0xfffff900)"], "{ r5 = add(r4,#-1792) }"),
        (["memw(R2+#0xc) = N6.new"], "{ memw(r2+#12) = r6.new }"),
        (["immext(#0x6060600)", "R17 = ##0x6060606"], "{ r17 = ##0x6060606 }"),
        (["if (!P0) jump:nt PC+76"], "{ if (!p0) jump:nt 0x10005c }"),
        (["call PC+240"], "{ call memcpy }"),
    ],
)
def test_text_is_hexagon_assembly(words: list[str], text: str) -> None:
    assert packet(*words).text == text


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("V7:6.h = vadd(V5.ub,V2.ub)", "vector multiply"),
        ("V7:6.h = vadd(V5:4.h,V3:2.h)", "vector arithmetic"),
        ("vtmp.w = vgather(R4,M0,V5.w).w", "vector gather"),
        ("if (cmp.gtu(R1,N7.new)) jump:t PC+24", "branch"),
        ("R31:30 = dealloc_return(R30):raw", "branch"),
    ],
)
def test_kinds_of_instructions(word: str, kind: str) -> None:
    assert packet(word).kinds == {kind: 1}


@pytest.mark.parametrize(
    ("words", "end", "flow"),
    [
        (
            ["if (P0) jump:nt PC+8", "jump PC+16"],
            "",
            Flow(targets=(AT + 8, AT + 16), falls_through=False),
        ),
        (["call PC+240"], "", Flow(calls=(0x100100,))),
        (["jumpr R31"], "", Flow(falls_through=False)),
        (["if (P0) jumpr:nt R31"], "", Flow()),
        (
            ["loop0(PC+12,R5)", "loop1(PC+##24,#0x8)"],
            "",
            Flow(loop_starts=((0, AT + 12), (1, AT + 24))),
        ),
    ],
)
def test_where_control_goes(words: list[str], end: str, flow: Flow) -> None:
    assert packet(*words, end=end).flow == flow
