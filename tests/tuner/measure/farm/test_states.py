"""Whatever happens to a device, in whatever order, its record stays one that can be."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import UserError
from tuner.measure.farm.roster import (
    LEASE_S,
    RECENT_RUNS,
    Checked,
    DeviceState,
    Enrolment,
    Lease,
    LeaseLostError,
    MemoryRoster,
    Purpose,
    Tally,
)

STATES = list(DeviceState)
PHONE = Enrolment("pixel", "phone", "hardware")
GIVEN_BACK = [s for s in STATES if s not in (DeviceState.LEASED, DeviceState.DRAINED)]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("lease"), st.sampled_from(Purpose)),
        st.tuples(st.just("renew"), st.integers(0, 20)),
        st.tuples(st.just("give back"), st.integers(0, 20), st.sampled_from(GIVEN_BACK)),
        st.tuples(st.just("wait"), st.sampled_from([1.0, LEASE_S, 70.0])),
        st.tuples(st.sampled_from(["drain", "quarantine", "release"])),
    ),
    max_size=40,
)


@given(steps)
@settings(max_examples=60)
def test_any_order_of_things_leaves_a_sound_record(happened: list[tuple]) -> None:
    now = 1000.0
    roster = MemoryRoster(lambda: now)
    roster.enrol(PHONE)
    leases: list[Lease] = []
    counted = 0
    for what, *details in happened:
        before = roster.device(PHONE.name)
        try:
            match what:
                case "lease":
                    lease = roster.lease(PHONE.name, "ann", details[0])
                    if lease is not None:
                        assert before.lease is None, "of two leases one is lost"
                        assert all(lease.token > earlier.token for earlier in leases)
                        leases.append(lease)
                case "wait":
                    now += details[0]
                case "renew" | "give back" if leases:
                    lease = leases[details[0] % len(leases)]
                    valid = before.lease is not None and before.lease.token == lease.token
                    try:
                        if what == "renew":
                            roster.renew(lease, Tally(trials=1))
                        else:
                            checked = Checked("x") if lease.purpose is Purpose.CHECK else None
                            roster.give_back(
                                lease, details[1], tally=Tally(trials=1), checked=checked
                            )
                        counted += 1
                        assert valid, "a stale token was accepted"
                    except LeaseLostError:
                        assert not valid
                case "drain" | "quarantine" | "release":
                    getattr(roster, what)(PHONE.name, what)
        except UserError:
            assert roster.device(PHONE.name) == before
        after = roster.device(PHONE.name)
        assert (after.state is DeviceState.LEASED) <= (after.lease is not None)
        assert after.state is not DeviceState.QUARANTINED or after.lease is None
        assert after.trials == counted, "lost or doubled"
        assert len(after.recent) <= RECENT_RUNS
    told = roster.events(PHONE.name, 1000)[::-1]
    assert told[0].before is None
    for earlier, later in pairwise(told):
        assert later.before is earlier.after or DeviceState.LEASED in (
            later.before,
            earlier.after,
        ), "the events tell the whole way, but for healthy leases"
