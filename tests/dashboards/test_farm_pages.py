"""The farm's devices on their pages: their states, and taking one out and back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from db.access.audit import newest_entries
from db.devices.roster import SqlRoster
from db.sql_store import SqlStore
from service.auth.caller import Scope
from tests.dashboards.conftest import Browser
from tests.dashboards.test_more_pages import words
from tests.service.stored import unfit_conductor
from tuner.measure.farm.roster import Checked, DeviceState, Enrolment, Purpose, Tally

pytestmark = pytest.mark.sqlite

LogIn = Callable[..., Browser]


@pytest.fixture
def roster(store: SqlStore) -> SqlRoster:
    """With a warm phone at work and one with a name that is no good for an address."""
    roster = SqlRoster(store)
    roster.enrol(Enrolment("pixel", "phone", "hardware", ("v68", "lab-2")))
    roster.enrol(Enrolment("sim <i>", "simulator", "model"))
    check = roster.lease("pixel", "a check", Purpose.CHECK)
    assert check is not None
    found = Checked(temperature_c=31.5, gold_cycles=4321, details={"build": "TQ3A"})
    roster.give_back(check, DeviceState.READY, "checked", checked=found)
    work = roster.lease("pixel", "job 1rt on lab7")
    assert work is not None
    roster.renew(work, Tally(trials=3, faults=1, busy_s=9.0))
    return roster


def test_the_farm_lists_its_devices(logged_in: LogIn, roster: SqlRoster) -> None:
    page = logged_in(Scope.READ).get("/ui/farm").text
    shown = words(page)
    assert "pixel phone · hardware · v68, lab-2 leased job 1rt on lab7 work 31.5 °C" in shown
    assert "25.0 %" in shown
    assert "suspect new: not checked yet free" in shown
    assert 'href="/ui/farm/sim%20%3Ci%3E"' in page


def test_the_farm_lists_conductors_and_why_some_are_unfit(
    logged_in: LogIn, store: SqlStore
) -> None:
    browser = logged_in(Scope.READ)
    assert "No conductor runs." in words(browser.get("/ui/farm").text)
    unfit_conductor(store)
    shown = words(browser.get("/ui/farm").text)
    assert "lab7 process 4711 unfit artifacts: not where the service has them 0 of 2 qemu" in shown


def test_without_devices_the_farm_says_how_to_add_one(logged_in: LogIn) -> None:
    assert "docs/devices.md" in logged_in(Scope.READ).get("/ui/farm").text


def test_a_device_is_quarantined_and_released_by_who_may(
    logged_in: LogIn, roster: SqlRoster, store: SqlStore
) -> None:
    stranger = logged_in(Scope.READ, Scope.SUBMIT, name="eve")
    refused = stranger.form("/ui/jobs", "/ui/farm/pixel/quarantine", reason="x")
    assert refused.status_code == 403
    assert roster.device("pixel").state is DeviceState.LEASED

    operator = logged_in(Scope.READ, Scope.OPERATE)
    place = "/ui/farm/pixel"
    page = operator.form(place, f"{place}/quarantine", reason="smells of <b>smoke").text
    assert "quarantine by ada: smells of &lt;b&gt;smoke" in page
    assert roster.device("pixel").state is DeviceState.QUARANTINED
    assert operator.form(place, f"{place}/drain", reason="").status_code == 409
    operator.form(place, f"{place}/release")
    assert roster.device("pixel").state is DeviceState.SUSPECT
    actions = [entry.action for entry in newest_entries(store, 2)]
    assert actions == ["device.release", "device.quarantine"]


@pytest.mark.parametrize("place", ["/ui/farm/nobody", "/ui/farm/pixel/explode"])
def test_what_is_not_there_is_not_found(logged_in: LogIn, roster: SqlRoster, place: str) -> None:
    operator = logged_in(Scope.ADMIN)
    answer = operator.form("/ui/farm/pixel", place) if "pixel" in place else operator.get(place)
    assert answer.status_code == 404
