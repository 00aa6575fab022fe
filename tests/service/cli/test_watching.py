"""``--watch``: what is at work, again and again, until Ctrl-C."""

from __future__ import annotations

import pytest

from db import open_store
from service.cli import watching
from tests.service.stored import unfit_conductor
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.measure.farm.roster import Enrolment
from tuner.records.trial import Submission


@pytest.fixture
def store(hvxtune):
    with open_store() as opened:
        yield opened


@pytest.fixture
def between(monkeypatch):
    """Lets a test act between two screens; after its last action comes Ctrl-C."""
    actions = []

    def sleep(_seconds: float) -> None:
        if not actions:
            raise KeyboardInterrupt
        actions.pop(0)()

    monkeypatch.setattr(watching.time, "sleep", sleep)
    return actions


@pytest.mark.parametrize("command", [["jobs"], ["cluster", "list"], ["farm", "list"]], ids=" ".join)
def test_lists_are_shown_again_when_they_change(command, hvxtune, store, between):
    def change() -> None:
        store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann"))
        store.roster().enrol(Enrolment("pixel", "phone", "hardware"))
        unfit_conductor(store)

    between += [lambda: None, change]
    once = hvxtune(*command).out
    answer = hvxtune(*command, "--watch")
    assert answer.status == 0
    assert answer.out == f"{once}\n{hvxtune(*command).out}"
    assert once != hvxtune(*command).out
