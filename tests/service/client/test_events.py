"""Events of a job, over connections that break."""

from __future__ import annotations

import pytest

from service.client import (
    Client,
    UnreachableError,
)
from tests.service.client.replies import BUSY, event, good, stream


def test_events_go_on_where_the_connection_broke(server, client):
    server.script = [
        stream(b": here\n\n", event(1, "state", state="running"), event(2, "trial", trial=0)),
        stream(event(2, "trial", trial=0), event(3, "trial", trial=1), breaks_off=True),
        BUSY,
        stream(event(4, "news", x=1), event(5, "state", state="done", paused=False, note="")),
    ]
    events = list(client.events("job1"))
    assert [(one.id, one.kind) for one in events] == [
        (1, "state"),
        (2, "trial"),
        (3, "trial"),
        (5, "state"),
    ]
    continued = [asked.headers.get("last-event-id") for asked in server.asked]
    assert continued == [None, "2", "3", "3"]


def test_a_stream_that_only_breaks_is_given_up(server, cache):
    server.script = [stream(b": here\n\n")]
    with (
        Client(server.url, cache=cache, patience_s=0.3) as client,
        pytest.raises(UnreachableError, match="keeps breaking off"),
    ):
        list(client.events("job1"))


def test_waiting_ends_with_the_job(server, client):
    done = event(2, "state", state="done", paused=False, note="")
    server.script = lambda asked: (
        stream(event(1, "trial", trial=0), done)
        if asked.path.endswith("/events")
        else good({"job": "job1", "state": "done"})
    )
    seen = []
    assert client.wait("job1", seen.append)["state"] == "done"
    assert [one.kind for one in seen] == ["trial", "state"]
