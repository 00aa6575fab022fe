"""Devices over HTTP: as the roster has them, and taken out and back by who may operate."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from db.access.audit import newest_entries
from db.devices.roster import SqlRoster
from db.sql_store import SqlStore
from tuner.measure.farm.roster import Checked, DeviceState, Enrolment, Purpose

pytestmark = pytest.mark.sqlite


@pytest.fixture
def roster(store: SqlStore) -> SqlRoster:
    """With a phone that is ready and a simulator nobody has checked."""
    roster = SqlRoster(store)
    roster.enrol(Enrolment("pixel", "phone", "hardware", ("v68", "lab-2")))
    roster.enrol(Enrolment("sim", "simulator", "model"))
    lease = roster.lease("pixel", "test", Purpose.CHECK)
    assert lease is not None
    roster.give_back(lease, DeviceState.READY, "checked", checked=Checked(temperature_c=31.5))
    return roster


def test_a_device_is_taken_out_and_comes_back(
    client: TestClient, roster: SqlRoster, store: SqlStore
) -> None:
    taken = client.post("/v1/devices/pixel/quarantine", json={"reason": "smells of smoke"})
    assert taken.status_code == 200
    assert taken.json()["state"] == "quarantined"
    assert taken.json()["reason"].endswith("smells of smoke")
    refused = client.post("/v1/devices/pixel/drain")
    assert refused.status_code == 409
    assert "farm release pixel" in refused.json()["next_step"]
    assert client.post("/v1/devices/pixel/release").json()["state"] == "suspect"
    assert client.post("/v1/devices/pixel/release").status_code == 409
    assert client.post("/v1/devices/pixel/drain").json()["state"] == "drained"
    assert [e.action for e in newest_entries(store, 10)] == [
        "device.drain",
        "device.release",
        "device.quarantine",
    ]
    told = client.get("/v1/devices/pixel/events", params={"limit": 3}).json()
    assert [e["after"] for e in told["items"]] == ["drained", "suspect", "quarantined"]
    rest = client.get("/v1/devices/pixel/events", params={"cursor": told["next_cursor"]}).json()
    assert [e["after"] for e in rest["items"]] == ["ready", "suspect"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("verb", ["drain", "quarantine", "release"])
def test_what_is_not_there_is_404_and_what_cannot_be_read_422(
    client: TestClient, roster: SqlRoster, verb: str
) -> None:
    missing = client.post(f"/v1/devices/nokia/{verb}")
    assert missing.status_code == 404
    assert missing.json()["accepted"] == "pixel, sim"
    assert client.post(f"/v1/devices/pixel/{verb}", json={"why": "x"}).status_code == 422
    assert client.get("/v1/devices/nokia/events").status_code == 404


def test_devices_are_counted_for_prometheus(client: TestClient, roster: SqlRoster) -> None:
    lines = client.get("/metrics").text.splitlines()
    assert 'hvxtune_devices{kind="phone",state="ready"} 1.0' in lines
    assert 'hvxtune_devices{kind="simulator",state="suspect"} 1.0' in lines
