"""The class table against LLVM's own itineraries, where a libLLVM for Hexagon is installed.

Each instruction is read by the plugin's parser, from QEMU's disassembly, and decoded by LLVM's
MC layer, from its encoding. The stages at which results are ready and operands are needed must be
the same.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tuner.measure.qemu.microbenchmark import MODEL, PREAMBLE, run_packets
from tuner.codegen.toolchain import NativePart, built
from tuner.measure.qemu import simulator

pytestmark = pytest.mark.nightly  # a C++ program against LLVM's headers is built first

SCALAR = [
    "r4 = add(r1, r2)",
    "r4 = asl(r1, #2)",
    "r4 = max(r1, r2)",
    "r4 += asl(r1, #2)",
    "r4 += mpyi(r1, r2)",
    "r4 = sfadd(r1, r2)",
    "p0 = cmp.eq(r1, r2)",
    "p0 = and(p1, p2)",
    "m0 = r1",
    "loop0(1f, #1)",
    "r4 = memw(r10+r0<<#0)",
    "memd(r10+#8) = r3:2",
]
VECTOR = [
    "v4.b = vadd(v1.b, v2.b)",
    "v5:4.h = vadd(v3:2.h, v1:0.h)",
    "v5:4.h = vsub(v1.ub, v2.ub)",
    "v4.ub = vabsdiff(v1.ub, v2.ub)",
    "v5:4.h = vmpy(v1.ub, r2.b)",
    "v4.uw += vrmpy(v1.ub, v2.ub)",
    "v5:4.h = vmpa(v3:2.ub, r1.b)",
    "v4.w += vasr(v1.w, r2)",
    "v5:4 = vshuff(v1, v2, r3)",
    "v4.ub = vpack(v1.h, v2.h):sat",
    "v4.b = vshuffe(v1.b, v2.b)",
    "v5:4.h = vsxt(v1.b)",
    "q0 = vcmp.gt(v1.b, v2.b)",
    "if (q0) v4.b += v1.b",
    "vmem(r10+#0) = v1",
]


KNOWN = [*SCALAR, *VECTOR]
UNKNOWN_PROCESSOR = 3
"""What itineraries.cpp ends with where its LLVM is too old."""


class Operand(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint8) for name in ("reg", "stage", "cause")]


class Packet(ctypes.Structure):
    """``struct packet`` of plugin/packet.h, with room for what follows its operands."""

    _fields_ = [
        ("read", Operand * 48),
        ("write", Operand * 24),
        ("reads", ctypes.c_uint8),
        ("writes", ctypes.c_uint8),
        ("rest", ctypes.c_uint8 * 64),
    ]


class ClassTable(ctypes.Structure):
    """``struct class_table`` of plugin/packet.h."""

    _fields_ = [
        ("rules", ctypes.c_char_p),
        ("count", ctypes.c_uint32),
        ("memory", ctypes.c_uint8 * len(MODEL.rules.memory)),
    ]


@dataclass(frozen=True)
class Stages:
    """When results are ready and operands needed, without repetition (pairs count once)."""

    written: frozenset[int]
    read: frozenset[int]


@dataclass(frozen=True)
class Encoded:
    """An instruction in a packet of its own: QEMU's disassembly, and the words of its encoding."""

    text: str
    words: tuple[str, ...]


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Encoded]:
    """All instructions, run once in a row behind a packet that marks their beginning."""
    marker = "r9 = ##0x5a5a5a5a"
    packets = [f"{{ {text} }}" for text in (marker, *KNOWN)]
    folder = tmp_path_factory.mktemp("instructions")
    code = PREAMBLE + "\n".join(packets) + "\n1:\n"
    run = run_packets(code, folder, keep_text=True)
    order = run.results.packet_table["address"].argsort(kind="stable")
    texts = [run.texts[i] for i in order]
    first = next(i for i, text in enumerate(texts) if "5a5a5a5a" in text) + 1
    return {
        name: Encoded(text, tuple(re.findall(r"0x([0-9a-f]{8})\t", text)))
        for name, text in zip(KNOWN, texts[first:], strict=False)
    }


@pytest.fixture(scope="module")
def parser() -> ctypes.CDLL:
    """The plugin's own reader of packets."""
    folder = simulator.PLUGIN.sources[0].parent
    part = NativePart(
        "packet-parser",
        "host",
        sources=(folder / "packet.c", folder / "traits.c"),
        headers=(folder / "packet.h", folder / "traits.h"),
        flags=("-fvisibility=default",),
    )
    return ctypes.CDLL(str(built(part)))


@pytest.fixture(scope="module")
def itineraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that prints LLVM's itineraries; skips where it cannot be built."""
    config = shutil.which("llvm-config")
    compiler = shutil.which("c++")
    if config is None or compiler is None:
        pytest.skip("no llvm-config or no C++ compiler: package llvm-dev")

    def ask(*questions: str) -> list[str]:
        done = subprocess.run([config, *questions], capture_output=True, text=True, check=True)
        return done.stdout.split()

    if "Hexagon" not in ask("--targets-built"):
        pytest.skip("the installed LLVM has no Hexagon back end")
    program = tmp_path_factory.mktemp("itineraries") / "itineraries"
    source = Path(__file__).parents[1] / "sources" / "itineraries.cpp"
    flags = ["-std=c++17", "-fno-rtti", *ask("--cxxflags", "--ldflags")]
    libraries = ask("--link-shared", "--libs")
    done = subprocess.run(
        [compiler, source, "-o", program, *flags, *libraries],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"LLVM's headers do not serve: {done.stderr.splitlines()[0]}")
    return program


def stages_of_table(parser: ctypes.CDLL, encoded: Encoded) -> Stages:
    rules = MODEL.rules
    memory = (ctypes.c_uint8 * len(rules.memory)).from_buffer_copy(rules.memory)
    table = ClassTable(rules.packed, rules.count, memory)
    packet = Packet()
    assert parser.packet_parse(ctypes.byref(packet), ctypes.byref(table), encoded.text.encode()), (
        encoded
    )
    return Stages(
        frozenset(packet.write[i].stage for i in range(packet.writes)),
        frozenset(packet.read[i].stage for i in range(packet.reads)),
    )


def stages_of_llvm(program: Path, encoded: Encoded) -> Stages:
    done = subprocess.run(
        [program], input=" ".join(encoded.words) + "\n", capture_output=True, text=True, check=True
    )
    *_, instruction, _ = done.stdout.split(";")  # behind a constant extender, if there is one
    results, *cycles = map(int, instruction.split()[1:])
    known = [cycle for cycle in cycles if cycle >= 0]
    return Stages(frozenset(known[:results]), frozenset(known[results:]))


def test_the_class_table_has_the_stages_of_llvms_itineraries(
    encoded: dict[str, Encoded], parser: ctypes.CDLL, itineraries: Path
) -> None:
    for name in KNOWN:
        of_llvm = stages_of_llvm(itineraries, encoded[name])
        assert stages_of_table(parser, encoded[name]) == of_llvm, name


@pytest.mark.parametrize("arch", ["v68", "v73"])
def test_newer_archs_have_the_stages_of_v66(arch: str, itineraries: Path) -> None:
    """What docs/targets.md says about timing them by the rules of v66."""
    done = subprocess.run(
        [itineraries, f"hexagon{arch}"], capture_output=True, text=True, check=False
    )
    if done.returncode == UNKNOWN_PROCESSOR:
        pytest.skip(f"this LLVM does not know {arch}")
    *different, compared = done.stdout.split()
    assert int(compared) > 2500
    assert set(different) <= {"V6_vassign_tmp", "V6_vcombine_tmp"}
