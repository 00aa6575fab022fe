"""Tuning jobs on three emulated phones and two simulators where things go wrong at random, from a
seed: nothing is lost or doubled, no wrong measurement is accepted, the bad phone is out with its
reason.

The simulators search while every good candidate goes on to the phones; in one job the phones
themselves are searched on, so that they meet bad candidates, too. adb and adbd are real, the phones
behind them are emulated (tests/rig/phones).
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.rig.phones import Fault, Phone, Setting, require_rig, running_phones
from tests.tuner.measure.farm.rig_jobs import TRIALS, KeptObjects, Truth, run_job
from tuner.conformance.patience import PATIENCE_S
from tuner.keeping.memory_store import MemoryStore
from tuner.measure.android import call
from tuner.measure.android.link import background
from tuner.measure.farm.farm_file import read_farm
from tuner.measure.farm.health import Caretaker
from tuner.measure.farm.roster import DeviceRecord, DeviceState
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState

pytestmark = pytest.mark.slow

CYCLES_MAY_BE_OFF = 0.10
"""A batch counts as long as the reference in it is no slower than this."""
FOREVER_MS = 3_600_000


GOOD = Setting()


@dataclass(frozen=True)
class Trouble:
    """What goes wrong in a job: with ``setting`` of the bad phone's switch, with adb's server, or
    with a phone that comes and goes. ``ends`` says whether the phone with this record is where it
    ought to be at last."""

    name: str
    ends: Callable[[DeviceRecord], bool]
    setting: Setting = GOOD
    every: int = 0
    """It happens again after so many measurements; 0: once, for good."""


def _is(state: DeviceState, why: str = "") -> Callable[[DeviceRecord], bool]:
    return lambda record: record.state is state and why in record.reason


def _flapped(record: DeviceRecord) -> bool:
    """Out after three faults, or two in checks; one that was idle when it went away is in order."""
    if record.recent_faults >= 3:
        return record.state is DeviceState.QUARANTINED
    return record.state in (DeviceState.QUARANTINED, DeviceState.READY)


_HOT = Setting(Fault.THROTTLING, hot_after=30_000, rest_ms=FOREVER_MS)
_LOOSE = Setting(Fault.ADBD_KILLED, restart_after_s=0.2)
QUARANTINED = _is(DeviceState.QUARANTINED)
OFFLINE = _is(DeviceState.OFFLINE)
"""A phone that does not answer is not to blame."""
TROUBLES = (
    Trouble("slow", QUARANTINED, Setting(Fault.SLOW)),
    Trouble("wrong_result", QUARANTINED, Setting(Fault.WRONG_RESULT)),
    Trouble("crash", QUARANTINED, Setting(Fault.CRASH)),
    Trouble("hang", QUARANTINED, Setting(Fault.HANG)),
    Trouble("truncated", QUARANTINED, Setting(Fault.TRUNCATED)),
    Trouble("full_disk", QUARANTINED, Setting(Fault.FULL_DISK)),
    Trouble("flapping", _flapped, _LOOSE, every=8),
    Trouble("throttling", _is(DeviceState.SUSPECT, "too hot: 92 degrees"), _HOT),
    Trouble("adbd_killed", OFFLINE, Setting(Fault.ADBD_KILLED)),
    Trouble("disconnect", OFFLINE, Setting(Fault.DISCONNECT)),
    Trouble("frozen", OFFLINE, Setting(Fault.FROZEN)),
    Trouble("server_killed", _is(DeviceState.READY), every=10),
)
_OFTEN = ("wrong_result", "crash", "adbd_killed", "server_killed")
"""A wrong answer, none, one broken off, and one that is nobody's fault; the others are alike."""
JOBS = [
    pytest.param(
        seed, trouble.name != "crash", trouble,
        id=trouble.name, marks=[] if trouble.name in _OFTEN else pytest.mark.nightly,
    )
    for seed, trouble in enumerate(TROUBLES)
]  # fmt: skip


class Switch:
    """Makes trouble once enough measurements have come back."""

    def __init__(self, trouble: Trouble, bad: Phone, choose: random.Random) -> None:
        self._trouble = trouble
        self._bad = bad
        self._next = choose.randrange(3, TRIALS)
        self._adjusted = {
            "seed": choose.randrange(1 << 31),
            "cycles_ppm": choose.randrange(1_200_000, 3_000_000),
            "at_write": choose.randrange(1, 12),
        }

    def __call__(self, done: int) -> None:
        if done < self._next:
            return
        self._next = done + self._trouble.every if self._trouble.every else 1 << 30
        if self._trouble.setting is not GOOD:
            self._bad.set(self._trouble.setting, **self._adjusted)
        elif (server := background().server.pid) is not None:
            os.kill(server, signal.SIGKILL)


@pytest.fixture(scope="module", autouse=True)
def patched() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HVXTUNE_ADB", str(require_rig().adb))
        patch.setattr("tuner.executor.executor.find_generator", lambda name: KeptObjects)
        patch.setattr(
            call, "_START_S", 8.0
        )  # a driver that hangs at once is not waited for as long
        yield


@pytest.fixture(scope="module")
def truths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Truth, Truth]:
    """What every config of the job comes to where nothing goes wrong: on phones, on simulators."""
    farm = tmp_path_factory.mktemp("truth") / "farm.toml"
    with running_phones(3) as phones:
        on_phones = run_job(phones, farm, ladder=False).truth()
        climbed = run_job(phones, farm, ladder=True)
    assert {outcome for outcome, _ in on_phones.values()} == {
        Outcome.OK,
        Outcome.WRONG_OUTPUT,
        Outcome.RUN_ERROR,
    }
    assert len(climbed.promotions) == climbed.distinct_good
    return on_phones, climbed.truth()


def given_back(
    store: MemoryStore, farm: Path, name: str, ends: Callable[[DeviceRecord], bool]
) -> DeviceRecord:
    """A phone, once those who look after the farm have made up their minds."""
    members = [m for m in read_farm(farm).members if m.name == name]
    caretaker = Caretaker(read_farm(farm), store.roster(), "test")
    give_up = time.monotonic() + PATIENCE_S
    while not ends(record := store.roster().device(name)):
        assert record.state is not DeviceState.QUARANTINED, record
        assert time.monotonic() < give_up, record
        list(caretaker.check(members))
    return record


@pytest.mark.parametrize(("seed", "ladder", "trouble"), JOBS)
def test_jobs_end_well_whatever_happens_to_a_phone(
    seed: int,
    ladder: bool,
    trouble: Trouble,
    truths: tuple[Truth, Truth],
    tmp_path: Path,
) -> None:
    choose = random.Random(seed)
    bad, other = choose.sample(range(3), 2)
    farm = tmp_path / "farm.toml"
    with running_phones(3) as phones:
        if choose.random() < 0.5:
            phones[other].set(Fault.NOISY, seed=seed)
        switch = Switch(trouble, phones[bad], choose)
        ran = run_job(phones, farm, ladder=ladder, on_progress=switch)
        if trouble.every:
            phones[bad].ok()
        else:
            switch(1 << 30)  # whatever the job came to, the phone is bad now
        record = given_back(ran.store, farm, f"phone-{bad}", trouble.ends)
        good = [f"phone-{n}" for n in range(3) if n != bad]
        for name in good:  # one may wait for a check: its server, not it, had ended
            given_back(ran.store, farm, name, _is(DeviceState.READY))
    off = ran.worst_error(truths[1] if ladder else None, truths[0])
    assert ran.state is JobState.DONE
    assert [t.number for t in ran.trials] == list(range(TRIALS)), "lost or doubled"
    assert not ran.store.pending(ran.store.jobs()[0].id)
    assert {digest: outcome for digest, (outcome, _) in ran.truth().items()} == {
        digest: outcome for digest, (outcome, _) in truths[ladder].items()
    }
    assert len({p.trial for p in ran.promotions}) == len(ran.promotions)
    assert len(ran.promotions) == (ran.distinct_good if ladder else 0), "lost or doubled"
    assert {p.outcome for p in ran.promotions} <= {Outcome.OK}
    assert off <= CYCLES_MAY_BE_OFF
    assert record.reason
