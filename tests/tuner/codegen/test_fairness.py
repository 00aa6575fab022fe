"""Places in turn among users, and what a user may have of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context

import pytest

from tuner.codegen.fairness import ON_BEHALF_OF, FairPlaces, Ledger
from tuner.conformance.patience import PATIENCE_S, until
from tuner.errors import ComeBackLaterError


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def places(
    count: int, ledger: Ledger | None = None, patience_s: float = PATIENCE_S
) -> FairPlaces[int]:
    return FairPlaces(
        range(count),
        what="test",
        ledger=ledger or Ledger(60.0, 600.0),
        most_waiting=4,
        patience_s=patience_s,
    )


@contextmanager
def on_behalf_of(user: str) -> Iterator[None]:
    token = ON_BEHALF_OF.set(user)
    try:
        yield
    finally:
        ON_BEHALF_OF.reset(token)


class Asking:
    """Threads that ask for a place, keep it until told, and note who got one."""

    def __init__(self, of: FairPlaces[int]) -> None:
        self.of = of
        self.served: list[str] = []
        self.refused: list[str] = []
        self.go = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []

    def ask(self, user: str) -> None:
        with on_behalf_of(user):
            context = copy_context()
        before = len(self.of._line) + len(self.served) + len(self.refused)
        thread = threading.Thread(target=context.run, args=(self._ask, user))
        self.threads.append(thread)
        thread.start()
        until(lambda: len(self.of._line) + len(self.served) + len(self.refused) > before)

    def _ask(self, user: str) -> None:
        try:
            with self.of.one():
                self.served.append(user)
                assert self.go.acquire(timeout=PATIENCE_S)
        except ComeBackLaterError:
            self.refused.append(user)

    def end(self) -> None:
        self.go.release(100)
        for thread in self.threads:
            thread.join()


def test_a_user_never_has_all_places() -> None:
    asking = Asking(places(2))
    for _ in range(3):
        asking.ask("ann")
    assert asking.served == ["ann"]
    asking.ask("bob")
    until(lambda: asking.served == ["ann", "bob"])
    asking.end()
    assert asking.served.count("ann") == 3


def test_who_had_least_of_late_goes_first() -> None:
    ledger = Ledger(60.0, 600.0)
    ledger.charge("ann", 10.0)
    asking = Asking(places(1, ledger))
    asking.ask("eve")
    for user in ("ann", "ann", "bob"):
        asking.ask(user)
    asking.go.release()
    until(lambda: len(asking.served) == 2)
    assert asking.served == ["eve", "bob"]
    asking.end()


def test_who_waits_with_too_many_is_refused_at_once() -> None:
    asking = Asking(places(1))
    for _ in range(6):
        asking.ask("ann")
    assert (asking.served, asking.refused) == (["ann"], ["ann"])
    asking.ask("bob")
    assert asking.refused == ["ann"]
    asking.end()


def test_who_had_too_much_comes_back_later_and_others_do_not() -> None:
    clock = Clock()
    ledger = Ledger(60.0, 600.0, clock)
    ledger.charge("ann", 61.0)
    free = places(2, ledger)
    with on_behalf_of("ann"), pytest.raises(ComeBackLaterError) as refused, free.one():
        pass
    assert (refused.value.of_user, refused.value.wait_s) == (True, 10)
    with on_behalf_of("bob"), free.one():
        pass
    clock.now += 10.0
    with on_behalf_of("ann"), free.one():
        pass
