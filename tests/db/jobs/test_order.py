"""Whose turn it is: priority first, users in turn, nobody never."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from db.jobs.queue import AGEING_S, Service, Waiting, next_in_line

NOW = 1_000_000.0


def job(
    name: str, user: str = "ann", *, priority: int = 0, waited_s: float = 0.0, spent_s: float = 0.0
) -> Waiting:
    return Waiting(name, user, priority, NOW - waited_s - spent_s, waited_s)


def first(*waiting: Waiting, service: Mapping[str, Service] | None = None) -> str | None:
    found = {
        (chosen.job_id if chosen else None)
        for order in itertools.permutations(waiting)
        for chosen in [next_in_line(order, service or {}, NOW)]
    }
    assert len(found) == 1, "the order of rows must not matter"
    return found.pop()


def test_nobody_waits() -> None:
    assert first() is None


def test_higher_priority_goes_first() -> None:
    assert first(job("low", waited_s=30), job("high", priority=1)) == "high"
    assert first(job("low", waited_s=30), job("high", "bob", priority=1)) == "high"


def test_the_oldest_of_equals_goes_first() -> None:
    assert first(job("new", waited_s=1), job("old", waited_s=2)) == "old"


def test_who_got_least_service_goes_first_among_equals() -> None:
    service = {"ann": Service(120.0, NOW - 1), "bob": Service(10.0, NOW - 1)}
    assert first(job("a", "ann", waited_s=9), job("b", "bob"), service=service) == "b"
    new_user = first(job("a", "ann", waited_s=9), job("c", "cid"), service=service)
    assert new_user == "c"


def test_a_thousand_jobs_of_one_user_do_not_stand_before_one_of_another() -> None:
    flood = [job(f"a{i}", "ann", waited_s=3600.0 + i) for i in range(5)]
    service = {"ann": Service(500.0, NOW - 1)}
    assert first(*flood, job("b", "bob", waited_s=1), service=service) == "b"


def test_waiting_outweighs_priority_in_the_end() -> None:
    service = {"ann": Service(500.0, NOW - 1)}
    urgent = job("urgent", "ann", priority=5, waited_s=9)
    patient = [job("b", "bob", priority=-5, waited_s=AGEING_S * n) for n in (9, 11)]
    assert first(urgent, patient[0], service=service) == "urgent"
    assert first(urgent, patient[1], service=service) == "b"


def test_ones_own_low_priority_waits_no_longer_for_ever() -> None:
    urgent = job("urgent", priority=5)
    assert first(urgent, job("low", waited_s=AGEING_S * 4)) == "urgent"
    assert first(urgent, job("low", waited_s=AGEING_S * 6)) == "low"


def test_an_old_job_of_low_priority_does_not_hold_its_users_urgent_ones_back() -> None:
    service = {"ann": Service(50.0, NOW - 1), "bob": Service(500.0, NOW - 1)}
    old = job("old", "ann", priority=-100, waited_s=AGEING_S * 300)
    urgent = job("urgent", "ann", priority=100)
    assert first(old, urgent, job("b", "bob", priority=50), service=service) in {"old", "urgent"}


def test_time_in_which_a_job_ran_does_not_count_as_waiting() -> None:
    ran_long = job("ran", spent_s=AGEING_S * 10)
    assert first(ran_long, job("new", priority=1, waited_s=1)) == "new"
