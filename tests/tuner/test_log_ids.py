"""Ids go with the work, across threads and workers."""

from __future__ import annotations

from tuner.executor.cluster.tasks import Answer, followed
from tuner.log_ids import bound, ids


def test_ids_are_bound_within_and_no_longer() -> None:
    with bound(job="ab12"):
        with bound(trial=3):
            assert ids() == {"job": "ab12", "trial": "3"}
        assert ids() == {"job": "ab12"}
    assert ids() == {}


def test_calls_elsewhere_have_the_ids_of_who_asked() -> None:
    def call() -> Answer[dict[str, str]]:
        return Answer("w1", dict(ids()))

    with bound(job="ab12", trial=3):
        brought = dict(ids())
    with bound(job="other work of the worker"):
        answer = followed(brought, call)
    assert answer.result() == {"job": "ab12", "trial": "3"}
    assert ids() == {}
