"""What hexagon-sim prints, read from samples that were made from the documented format.

None of them was recorded here: there was no SDK. The form of the last lines is that of transcripts
that others have published.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuner.measure.hexagon_sim.report import (
    read_counters,
    read_pcycles,
)

COUNTS = st.integers(0, 10**18)


def tail(threads: list[tuple[int, int]], pcycles: int) -> str:
    lines = [f"\tT{n}: Insns={i} Packets={p}" for n, (i, p) in enumerate(threads)]
    total = sum(instructions for instructions, _ in threads)
    return "\n".join(["", "Done!", *lines, f"\tTotal: Insns={total} Pcycles={pcycles}", ""])


@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=8), COUNTS)
def test_every_tail_of_that_form_is_read_back(threads: list[tuple[int, int]], cycles: int) -> None:
    assert read_pcycles(tail(threads, cycles)) == cycles


@given(st.text(), st.text(alphabet="T0:Insns=Packet Total:Pcycles=\n\t0123456789"))
def test_no_text_is_a_fault(one: str, other: str) -> None:
    read_pcycles(one)
    read_pcycles(other)
    read_counters(one)
    read_counters(other)


@given(COUNTS, COUNTS)
def test_what_a_candidate_prints_before_the_end_does_not_count(forged: int, true: int) -> None:
    printed = f"Total: Insns=1 Pcycles={forged}\nT0: Insns=1 Packets=7\n"
    assert read_pcycles(printed + tail([(5, 3)], true)) == true


def test_counters_are_read_by_name_or_number_and_the_last_value_counts() -> None:
    text = "PMU statistics\nHVX_REG_ORDER : 12\n0x2a = 7\nPCYCLES  100\nPCYCLES  200\n\n---\n"
    counters = read_counters(text)
    assert counters == {"HVX_REG_ORDER": 12, "0x2a": 7, "PCYCLES": 200}
