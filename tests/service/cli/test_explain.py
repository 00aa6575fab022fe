"""``measure --explain`` and ``--against``: what is printed of an explanation."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

from tests.rig.stand_ins import StandInMeasurer
from tuner import measure
from tuner.errors import CandidateError
from tuner.measure.explanation import ExplainedPacket, Explanation, Part, Region
from tuner.records.outcome import Outcome
from tuner.records.roofline import Bound, Roofline

BEGIN = 0x100000
STALLS = 40
MEASURE = ["kernel", "measure", "scale_u8", "--config", "default"]
INNER = [
    ("{ v1 = vmem(r4+#0) }", {"vector load": 1}),
    ("{ v2.uw = vrmpy(v1.ub,v0.ub) ; v3.uw = vrmpy(v1.ub,v0.ub) ; vmemu(r5++#1) = v2 }:endloop0",
     {"vector multiply": 2, "vector store": 1}),
]  # fmt: skip
OUTER = [("{ vmem(r29+#1) = v2 }", {"vector store": 1}), ("{ r4 = #0 }", {"scalar": 1})]


def explanation_of(cycles: int) -> Explanation:
    """Twenty turns of a loop that stalls and stores unaligned, inside of two of a loop that
    spills; what is left of ``cycles`` is waiting for contexts."""
    inner = [packet(BEGIN + 16 * i, 20, *what) for i, what in enumerate(INNER, 1)]
    inner[1] = packet(
        BEGIN + 32, 20, *INNER[1], stalls={"vector multiply": STALLS}, events={"l1_misses": 3},
        unaligned=1,
    )  # fmt: skip
    outer = [
        packet(BEGIN, 2, *OUTER[0], spills=1),
        packet(BEGIN + 48, 2, *OUTER[1]),
    ]
    issue = 2 * 20 + 2 * 2
    return Explanation(
        cycles=cycles,
        core_cycles=cycles,
        fidelity="model",
        device="stand-in",
        cache="warm",
        code_bytes=64,
        output_vectors=16,
        parts=(
            Part("issue", "packets with vector instructions", issue - 2),
            Part("issue", "packets without", 2),
            Part("dependency", "vector multiply", STALLS),
            Part("parallel", "HVX contexts", cycles - issue - STALLS),
        ),
        roofline=Roofline((Bound("slots", "bytes of units", 2048, 512.0),)),
        regions=(
            Region(
                "loop", "scale_u8_h4_n512_static", BEGIN + 16, BEGIN + 48, 20, BEGIN, tuple(inner)
            ),
            Region("loop", "memcpy", BEGIN, BEGIN + 64, 2, None, tuple(outer)),
        ),
    )


def packet(address, count, text, kinds, *, stalls=None, events=None, unaligned=0, spills=0):
    return ExplainedPacket(
        address=address,
        size_bytes=16,
        count=count,
        issue=count,
        text=text,
        stalls=stalls or {},
        events=events or {},
        kinds=kinds,
        units=kinds,
        slots=sum(kinds.values()),
        unaligned=unaligned,
        spills=spills,
    )


class ExplainingMeasurer(StandInMeasurer):
    def explain(self, problem, artifact):
        return explanation_of(self.measure(problem, artifact).measurement.cycles)


@pytest.fixture
def explaining(bench, monkeypatch):
    """``explain`` works, and the candidate's cycles are as few as its explanation can hold."""
    monkeypatch.setattr(bench, "cycles", lambda text: 100 + sum(text.encode()) % 100)
    monkeypatch.setattr(
        measure, "find_measurer", lambda name: partial(ExplainingMeasurer, bench.cycles)
    )


def explained(hvxtune, *arguments: str) -> str:
    answer = hvxtune(*MEASURE, "--explain", *arguments)
    assert answer.status == 0, answer.err
    return answer.out


def line_with(text: str, out: str) -> str:
    found = [line for line in out.splitlines() if text in line]
    assert len(found) == 1, found
    return found[0]


def test_an_explanation_is_printed_with_causes_bounds_loops_and_packets(
    hvxtune, explaining, monkeypatch
):
    out = explained(hvxtune)
    assert re.search(r"packets issued +44 ", out)
    assert re.search(r"  packets without +2 ", out)
    assert re.search(r"waiting for operands +40 ", out)
    assert re.search(r"  operands of vector multiply +40 ", out)
    assert "issue slots bind: at least 4 cycles" in out
    multiply, remark = out[out.index("  100020 ") :].splitlines()[:2]
    assert multiply.split()[:3] == ["100020", "20", "40"]
    assert remark.strip() == "^ waits for operands of vector multiply; 3 L1 misses; unaligned"
    assert line_with("vmem(r29+#1)", out).endswith("^ spill")
    assert line_with("v1 = vmem(r4+#0)", out).endswith("}")
    lines = out.splitlines()
    (place,) = [i for i, line in enumerate(lines) if "... loop 0x100010: 20 times" in line]
    assert "vmem(r29+#1)" in lines[place - 1]
    assert "r4 = #0" in lines[place + 1]
    assert any(line.startswith("1. loop 0x100010, inside loop 0x100000: ") for line in lines)
    assert "loop 0x100000 in memcpy" in out
    cycles = hvxtune(*MEASURE, "--json").json["cycles"]
    assert f"{cycles - 2 * 20 - 2 * 2 - STALLS:,} cycles belong to no packet" in out
    monkeypatch.setenv("COLUMNS", "80")
    narrow = explained(hvxtune)
    listing = narrow[narrow.index("\n1. loop") :]
    assert max(len(line) for line in listing.splitlines()) <= 80
    for text in (*(text for text, _ in INNER), *(text for text, _ in OUTER)):
        for instruction in text.split(" ; "):
            assert instruction in listing, "packets are not broken inside of an instruction"


def test_long_regions_leave_out_what_there_is_nothing_to_say_about(explaining, capsys):
    from service.cli.listing import LISTED_PACKETS, print_listing

    dull = [packet(16 * i, 5, "{ nop }", {"nop": 1}) for i in range(LISTED_PACKETS + 1)]
    dull[3] = packet(48, 5, "{ v1 = v2 }", {"vector arithmetic": 1}, spills=1)
    region = Region("loop", "k", 0, 16 * len(dull), 5, None, tuple(dull))
    print_listing(region, explanation_of(200))
    out = capsys.readouterr().out
    assert "{ nop }" not in out
    assert "... 3 packets, 15 cycles" in out
    assert f"... {LISTED_PACKETS - 3} packets, {5 * (LISTED_PACKETS - 3)} cycles" in out
    assert "{ v1 = v2 }  ^ spill" in out


def test_json_holds_the_explanation(hvxtune, explaining):
    answer = hvxtune(*MEASURE, "--explain", "--json").json
    wanted = explanation_of(answer["cycles"]).as_dict()
    assert answer["explanation"] == json.loads(json.dumps(wanted))
    assert "against" not in answer


def test_two_schedules_side_by_side(hvxtune, explaining):
    arguments = ("kernel", "measure", "scale_u8", "--config", "textbook", "--against", "default")
    found = hvxtune(*arguments, "--json").json
    assert found["origin"] == found["against"]["origin"] == "measure"
    assert found["config"] != found["against"]["config"]
    own, other = found["cycles"], found["against"]["cycles"]
    assert own != other
    assert found["comparison"]["speedup"] == pytest.approx(other / own, abs=1e-4)
    verdict = line_with(" than default (", hvxtune(*arguments).out)
    assert (
        f"textbook takes {abs(own - other):,} cycles {'less' if own < other else 'more'}" in verdict
    )
    assert f"threads {own - other:+,}" in verdict
    assert line_with("vectors", hvxtune(*arguments).out).split() == ["vectors", "2", "1"]


def test_a_measurer_that_cannot_explain_says_so(hvxtune, bench):
    answer = hvxtune(*MEASURE, "--explain")
    assert answer.status == 2
    assert "'stand-in' cannot tell where cycles go" in answer.error_line


def test_a_bad_candidate_is_told_and_the_good_one_too(hvxtune, explaining, bench, monkeypatch):
    crash = CandidateError(Outcome.COMPILER_CRASH, "the compiler aborted")
    monkeypatch.setattr(bench, "fault", lambda config: crash if config["vectors"] == 2 else None)
    answer = hvxtune(*MEASURE, "--against", "textbook", "--json")
    assert answer.status == 1
    assert answer.json["outcome"] == "ok"
    assert answer.json["against"]["outcome"] == "compiler_crash"
    assert answer.json["comparison"] is None
