"""The slot of each instruction, and the rule of the timing model that it falls under."""

from __future__ import annotations

import pytest

from tests.tuner.measure.qemu.microbenchmark import MODEL
from tests.tuner.measure.qemu.test_disassembly import packet

CLASSES = MODEL.rules.classes


@pytest.mark.parametrize(
    ("words", "slots"),
    [
        (
            [
                "V16.uw += vrmpy(V17.ub,R7.ub)",
                "V15.uw += vrmpy(V18.ub,R7.ub)",
                "R8 = memw(R6+#0x0)",
                "V18.cur = vmem(R5+#0x0)",
            ],
            [3, 2, 1, 0],
        ),
        (["R7 = memw(R6+#0x0)", "V17 = vmem(R5+#0x0)"], [1, 0]),
        (["R25 = R0", "immext(#0x40)", "P0 = cmp.eq(R0,#0); if (P0.new) jump:t PC+76"], [3, 2, 2]),
    ],
)
def test_slots_descend_and_memory_comes_last(words: list[str], slots: list[int]) -> None:
    assert [each.slot for each in packet(*words).placed] == slots


@pytest.mark.parametrize(
    ("word", "mnemonic", "name", "forms"),
    [
        ("V7:6.h = vadd(V5.ub,V2.ub)", "vadd", "vector multiply", ("widens",)),
        ("vmemu(R4+#0x0) = V2", "vmemu", "unaligned vector store", ()),
        ("R1 += add(R2,R3)", "add", "scalar slow arithmetic", ("accumulates",)),
    ],
)
def test_an_instruction_tells_its_rule(
    word: str, mnemonic: str, name: str, forms: tuple[str, ...]
) -> None:
    (found,) = packet(word).placed
    assert found.mnemonic == mnemonic
    assert found.latency is not None
    assert (CLASSES[found.latency].name, CLASSES[found.latency].forms) == (name, forms)
    assert "hexagonv66" in CLASSES[found.latency].source
