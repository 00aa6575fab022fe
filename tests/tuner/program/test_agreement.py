"""Everything that knows a program gives it one value: the reference, Halide, and plain C of it
and of its normal form, under each contract."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

NIGHTLY, PIECES = 2000, 40
MOST_REFUSED = 0.08


def faults_of(first: int, count: int) -> list[str]:
    """How programs of ``count`` seeds are wrong, by a process of its own, which may crash."""
    command = [sys.executable, "-m", "tests.tuner.program.agreement", str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    found = [line for line in lines if not re.fullmatch(r"\d+ same(, refused by .*)?", line)]
    refused = [line for line in lines if "refused by" in line]
    if len(refused) > MOST_REFUSED * count:
        found += refused
    if done.returncode or len(lines) < count:
        found.append(f"it ended with {done.returncode} after {lines[-1:]}: {done.stderr[-2000:]}")
    return found


@pytest.mark.slow
def test_random_programs_have_one_value() -> None:
    assert not faults_of(0, 8)


@pytest.mark.slow
def test_a_normal_form_whose_reads_can_no_longer_be_told_is_not_taken() -> None:
    assert not faults_of(41, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("piece", range(PIECES))
def test_two_thousand_random_programs_have_one_value(piece: int) -> None:
    assert not faults_of(100 + piece * NIGHTLY // PIECES, NIGHTLY // PIECES)
