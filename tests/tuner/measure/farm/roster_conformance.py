"""What every roster must do. A roster's test module inherits the class and makes it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tuner.errors import UserError
from tuner.measure.farm.roster import (
    LEASE_S,
    Checked,
    DeviceRecord,
    DeviceState,
    Enrolment,
    Lease,
    LeaseLostError,
    Purpose,
    Roster,
    Tally,
)

PHONE = Enrolment("pixel", "phone", "hardware", ("phone", "v68", "lab-2"))
PASSED = Checked(
    temperature_c=31.5, gold_cycles=900, fingerprint={"os": "13"}, details={"build": "x"}
)


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class RosterConformance:
    """Inherited with a fixture ``roster`` over ``clock``, without devices."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def roster(self, clock: Clock) -> Iterator[Roster]:
        raise NotImplementedError

    def leased(self, roster: Roster, purpose: Purpose = Purpose.WORK) -> Lease:
        lease = roster.lease(PHONE.name, "ann", purpose)
        assert lease is not None
        return lease

    def ready(self, roster: Roster) -> DeviceRecord:
        """The phone, enrolled and checked."""
        roster.enrol(PHONE)
        lease = self.leased(roster, Purpose.CHECK)
        return roster.give_back(lease, DeviceState.READY, "checked", checked=PASSED)

    def test_a_new_device_is_suspect_until_it_passed_a_check(
        self, roster: Roster, clock: Clock
    ) -> None:
        new = roster.enrol(PHONE)
        assert (new.state, new.since) == (DeviceState.SUSPECT, 1000.0)
        assert roster.devices() == [new]
        assert roster.lease(PHONE.name, "ann") is None
        clock.now = 1001.5
        ready = self.ready(roster)
        assert (ready.state, ready.reason, ready.since) == (DeviceState.READY, "checked", 1001.5)
        assert (ready.last_check_at, ready.last_check) == (1001.5, "passed")
        assert (ready.temperature_c, ready.gold_cycles) == (31.5, 900)
        assert ready.fingerprint == {"os": "13"}
        assert roster.device(PHONE.name) == ready

    def test_a_device_has_one_lease_at_a_time(self, roster: Roster) -> None:
        self.ready(roster)
        lease = self.leased(roster)
        assert roster.device("pixel").state is DeviceState.LEASED
        assert roster.lease("pixel", "bob") is None
        assert roster.lease("pixel", "bob", Purpose.CHECK) is None
        roster.give_back(lease, DeviceState.READY, tally=Tally(trials=16, busy_s=2.5))
        again = roster.lease("pixel", "bob")
        assert again is not None
        assert again.token > lease.token
        assert (roster.device("pixel").trials, roster.device("pixel").busy_s) == (16, 2.5)

    def test_of_many_who_want_it_at_once_one_gets_it(self, roster: Roster) -> None:
        self.ready(roster)
        with ThreadPoolExecutor(8) as pool:
            got = list(pool.map(lambda n: roster.lease("pixel", f"thread {n}"), range(16)))
        assert sum(lease is not None for lease in got) == 1

    def test_a_stale_token_is_refused(self, roster: Roster) -> None:
        self.ready(roster)
        stale = self.leased(roster)
        roster.give_back(stale, DeviceState.READY)
        lease = self.leased(roster)
        for late in (
            lambda: roster.renew(stale),
            lambda: roster.give_back(stale, DeviceState.READY, tally=Tally(trials=1)),
        ):
            with pytest.raises(LeaseLostError, match="lease of ann"):
                late()
        assert roster.device("pixel").lease == lease
        assert roster.device("pixel").trials == 0

    def test_a_lease_that_is_not_renewed_ends_and_its_device_is_suspect(
        self, roster: Roster, clock: Clock
    ) -> None:
        self.ready(roster)
        lease = self.leased(roster)
        clock.now += LEASE_S - 1
        roster.renew(lease, Tally(trials=3, faults=1))
        clock.now += LEASE_S - 1
        assert roster.device("pixel").state is DeviceState.LEASED
        clock.now += 1
        lapsed = roster.device("pixel")
        assert (lapsed.state, lapsed.lease) == (DeviceState.SUSPECT, None)
        assert "lease of ann ran out" in lapsed.reason
        with pytest.raises(LeaseLostError):
            roster.give_back(lease, DeviceState.READY)
        assert roster.lease("pixel", "bob") is None
        assert roster.lease("pixel", "bob", Purpose.CHECK) is not None
        assert (lapsed.recent, lapsed.failure_share) == ("...x", 0.25)

    @pytest.mark.parametrize("purpose", Purpose)
    def test_who_was_killed_and_began_anew_ends_its_old_leases_and_nobody_elses(
        self, roster: Roster, purpose: Purpose
    ) -> None:
        self.ready(roster)
        lease = self.leased(roster, purpose)
        roster.free_left_behind("bob")
        assert roster.device(PHONE.name).lease == lease
        roster.free_left_behind("ann")
        found = roster.device(PHONE.name)
        assert found.lease is None
        if purpose is Purpose.WORK:
            assert (found.state, found.reason) == (
                DeviceState.SUSPECT,
                "ann was killed and restarted",
            )
        with pytest.raises(LeaseLostError):
            roster.renew(lease)
        assert roster.lease(PHONE.name, "ann", Purpose.CHECK) is not None

    def test_a_failed_check_is_remembered(self, roster: Roster) -> None:
        self.ready(roster)
        for count in (1, 2):
            lease = self.leased(roster, Purpose.CHECK)
            failed = Checked("no answer in 3 s")
            found = roster.give_back(lease, DeviceState.OFFLINE, failed.failure, checked=failed)
            assert (found.failed_checks, found.last_check) == (count, "no answer in 3 s")
            assert found.gold_cycles == 900
        assert roster.events("pixel")[0].reason == "no answer in 3 s"
        assert len(roster.events("pixel")) == 3, "the same reason twice is told once"
        lease = self.leased(roster, Purpose.CHECK)
        back = roster.give_back(lease, DeviceState.READY, "answers again", checked=PASSED)
        assert back.failed_checks == 0

    def test_draining_lets_work_end_and_then_gives_none(self, roster: Roster) -> None:
        self.ready(roster)
        lease = self.leased(roster)
        roster.drain("pixel", "new battery")
        assert roster.renew(lease).state is DeviceState.DRAINED
        after = roster.give_back(lease, DeviceState.READY, tally=Tally(trials=2))
        assert (after.state, after.reason, after.trials) == (
            DeviceState.DRAINED,
            "new battery",
            2,
        )
        assert roster.drain("pixel", "again") == after
        assert roster.lease("pixel", "bob") is None
        assert roster.lease("pixel", "bob", Purpose.CHECK) is None

    def test_quarantine_ends_work_at_once(self, roster: Roster) -> None:
        self.ready(roster)
        lease = self.leased(roster)
        found = roster.quarantine("pixel", "smells of smoke")
        assert (found.state, found.lease) == (DeviceState.QUARANTINED, None)
        with pytest.raises(LeaseLostError, match="smells of smoke"):
            roster.renew(lease)
        assert roster.quarantine("pixel", "again").reason == "smells of smoke"
        with pytest.raises(UserError, match="quarantined"):
            roster.drain("pixel", "no")
