"""Job ids: short, sorted by time, readable."""

from __future__ import annotations

import itertools
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db import open_store
from db.jobs import new_job as new_job_module
from db.jobs.ids import ALPHABET, as_typed, new_job_id
from tuner.conformance.records import SPACE, TOOLCHAIN, spec

TIMES = st.floats(1735689600, 2800000000)


@given(TIMES, TIMES)
def test_ids_sort_as_the_jobs_were_made(one: float, other: float) -> None:
    first, second = sorted([one, other])
    earlier, later = new_job_id(first), new_job_id(second)
    assert len(earlier) == len(later) == 10
    assert set(earlier) <= set(ALPHABET)
    if second - first > 1 / 16:
        assert earlier < later


def test_misread_letters_and_capitals_are_understood() -> None:
    assert as_typed(" 1RSL0IO ") == "1rs1010"
    made = new_job_id(1.8e9)
    assert as_typed(made.upper()) == as_typed(made) == made


def test_an_id_that_is_taken_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = itertools.chain(["aaaaaaaaaa", "aaaaaaaaaa", "bbbbbbbbbb"])
    monkeypatch.setattr(new_job_module, "new_job_id", lambda now_s: next(drawn))
    with closing(open_store()) as store:
        made = [store.create_job(spec(), SPACE, TOOLCHAIN).id for _ in range(2)]
        assert made == ["aaaaaaaaaa", "bbbbbbbbbb"]
        assert store.job("AAA").id == "aaaaaaaaaa"
