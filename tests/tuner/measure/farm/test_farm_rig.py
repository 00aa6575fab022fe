"""Tuning jobs on three emulated phones and two simulators where phones go wrong at random, from a
seed: nothing is lost or doubled, no wrong measurement is accepted, the bad phone is out with its
reason, the good ones stay busy.

Four jobs of five search on the phones, the fifth on the simulators and promotes to the phones,
which wait for it in between: how busy they are is asked of the four.
adb and adbd are real, the phones behind them are emulated (tests/rig/phones). Prints a table.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import ClassVar

import pytest

from tests.rig.phones import TOOL, Fault, Phone, Setting, require_rig, running_phones
from tests.tuner.measure.candidates import scale_artifact
from tuner import tuning
from tuner.candidate import Artifact, Candidate
from tuner.codegen import CodeGenerator, find_generator
from tuner.measure.farm.caretaker import Caretaker
from tuner.measure.farm.farm_file import FARM_FILE_VARIABLE, read_farm
from tuner.measure.farm.orders import Order, OrderQueue
from tuner.measure.farm.states import DeviceRecord, DeviceState
from tuner.memory_store import MemoryStore
from tuner.outcome import Outcome
from tuner.promotion import Promotion
from tuner.trial import JobState, Trial

pytestmark = pytest.mark.slow

SEEDS = 20
TRIALS = 30
PROMOTED = 8
KERNEL = ("add_u8", {"width": 256, "height": 32})
LEAST_BUSY = 0.85
BUSY: list[float] = []
"""What share of its time each good phone worked, job after job."""
CYCLES_MAY_BE_OFF = 0.10
"""A batch counts as long as the reference in it is no slower than this."""
LIMITS = """
[limits]
cool_down_s = 0.3
recheck_s = 0.1
task_s = 1.5
turn_s = 2
wait_s = 30
bundle = 4
repeats = 6
gold_interval_s = 60
checks_to_quarantine = 2

[[simulator]]
name = "sim"
slots = 2
"""
LINK = (Fault.ADBD_KILLED, Fault.DISCONNECT, Fault.FROZEN)
"""A phone that does not answer is offline; it is not to blame."""
BAD = (
    Fault.SLOW,
    Fault.WRONG_RESULT,
    Fault.CRASH,
    Fault.HANG,
    Fault.TRUNCATED,
    Fault.FULL_DISK,
    *LINK,
)
_DOES_WRONG = {0: "NOTHING_AT_ALL", 1: "RETURNS_AN_ERROR", 2: "NULL_STORE"}

Truth = Mapping[str, tuple[Outcome, int | None]]
"""Outcome and cycles of a config on devices without a fault."""


class KeptObjects(CodeGenerator):
    """Compiles each config once for all jobs of this module; some become bad candidates."""

    name = "halide"
    _kept: ClassVar[dict[str, Artifact]] = {}

    def __init__(self, workers: int = 1) -> None:
        self._generator = find_generator("halide")(workers)

    def fingerprint(self) -> Mapping[str, str]:
        return self._generator.fingerprint()

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        digest = candidate.config.digest
        if digest not in self._kept:
            wrong = _DOES_WRONG.get(int(digest[:4], 16) % 16)
            self._kept[digest] = (
                self._generator.compile(candidate)
                if wrong is None
                else scale_artifact(candidate.problem, wrong, ("-fPIC",))
            )
        return self._kept[digest]

    def close(self) -> None:
        self._generator.close()


@dataclass(frozen=True)
class Ran:
    """A job and what became of its devices."""

    store: MemoryStore
    state: JobState
    trials: list[Trial]
    promotions: list[Promotion]
    seconds: float
    busy: Mapping[str, float]
    """Share of the time in which the device was in work and there was work for it."""


@pytest.fixture(scope="module", autouse=True)
def patched() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HVXTUNE_ADB", str(require_rig().adb))
        patch.setattr(tuning, "find_generator", lambda name: KeptObjects)
        yield


@pytest.fixture(scope="module")
def truths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Truth, Truth]:
    """What every config of the job comes to where nothing goes wrong: on phones, on simulators."""
    farm = tmp_path_factory.mktemp("truth") / "farm.toml"
    with running_phones(3) as phones:
        on_phones = truth_of(run_job(phones, farm, ladder=False).trials)
        climbed = run_job(phones, farm, ladder=True)
    assert {outcome for outcome, _ in on_phones.values()} == {
        Outcome.OK,
        Outcome.WRONG_OUTPUT,
        Outcome.RUN_ERROR,
    }
    assert len(climbed.promotions) == min(PROMOTED, distinct_good(climbed.trials))
    return on_phones, truth_of(climbed.trials)


def truth_of(trials: list[Trial]) -> Truth:
    return {
        t.config.digest: (t.outcome, t.measurement.cycles if t.measurement else None)
        for t in trials
    }


def distinct_good(trials: list[Trial]) -> int:
    return sum(t.measurement is not None and t.duplicate_of is None for t in trials)


def run_job(phones: list[Phone], farm: Path, *, ladder: bool) -> Ran:
    """One job, as ``hvxtune tune --measurer farm --on phone`` runs it, or ``--on simulator
    --promote-to phone``."""
    farm.write_text(LIMITS + "".join(table(n, phone) for n, phone in enumerate(phones)))
    store = MemoryStore()
    starved: dict[str, list[tuple[float, float]]] = defaultdict(list)
    take = OrderQueue.take

    def counting(queue: OrderQueue, device: str, most: int, wait_s: float) -> list[Order]:
        asked = time.time()
        try:
            return take(queue, device, most, wait_s)
        finally:
            starved[device].append((asked, time.time()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FARM_FILE_VARIABLE, str(farm))
        patch.setattr(OrderQueue, "take", counting)
        kernel, params = KERNEL
        job = tuning.submit(
            kernel,
            params,
            store=store,
            trials=TRIALS,
            sampler="random",
            seed=1,
            measurer="farm",
            on="simulator" if ladder else "phone",
            promote_to="phone" if ladder else "",
            promote=PROMOTED,
            workers=24,
        )
        began = time.time()
        result = tuning.run(job.id, store)
    trials, promotions = store.trials(job.id), store.promotions(job.id)
    ended = max(one.finished_at or 0.0 for one in (*trials, *promotions))
    busy = {}
    for record in store.roster().devices():
        out_s = out_of_work_s(store, record, began, ended)
        idle_s = sum(max(0.0, min(to, ended) - at) for at, to in starved[record.name])
        theirs = ended - began - idle_s - out_s
        busy[record.name] = record.busy_s / theirs if theirs > 0 else 0.0
    return Ran(store, result.job.state, trials, promotions, ended - began, busy)


def table(number: int, phone: Phone) -> str:
    return f"""
[[phone]]
name = "phone-{number}"
address = "{phone.address}"
arch = "v66"
tool = "{TOOL}"
"""


def out_of_work_s(store: MemoryStore, record: DeviceRecord, began: float, ended: float) -> float:
    """How long a device was neither ready nor leased between two times."""
    working = (DeviceState.READY, DeviceState.LEASED)
    total, since, state = 0.0, began, DeviceState.SUSPECT
    for event in reversed(store.roster().events(record.name, 1000)):
        at = min(max(event.at, began), ended)
        total += 0.0 if state in working else at - since
        since, state = at, event.after
    return total + (0.0 if state in working else ended - since)


def settled_state(store: MemoryStore, farm: Path, name: str) -> DeviceRecord:
    """The bad phone, once those who look after the farm have made up their minds."""
    members = [m for m in read_farm(farm).members if m.name == name]
    caretaker = Caretaker(read_farm(farm), store.roster(), "test")
    deadline = time.monotonic() + 60
    out = (DeviceState.QUARANTINED, DeviceState.OFFLINE)
    while (record := store.roster().device(name)).state not in out:
        assert time.monotonic() < deadline, record
        list(caretaker.check(members))
    return record


@pytest.mark.parametrize("seed", range(SEEDS))
def test_jobs_end_well_whatever_happens_to_a_phone(
    seed: int,
    truths: tuple[Truth, Truth],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ladder = seed % 5 == 4
    choose = random.Random(seed)
    bad, other = choose.sample(range(3), 2)
    fault = BAD[seed % len(BAD)]
    setting = Setting(
        fault,
        seed=seed,
        cycles_ppm=choose.randrange(1_200_000, 3_000_000),
        at_write=choose.randrange(1, 12),
    )
    farm = tmp_path / "farm.toml"
    with running_phones(3) as phones:
        if choose.random() < 0.5:
            phones[other].set(Fault.NOISY, seed=seed)
        switch = threading.Timer(choose.uniform(0.3, 1.5), phones[bad].set, [setting])
        switch.start()
        try:
            ran = run_job(phones, farm, ladder=ladder)
        finally:
            switch.join()
        record = settled_state(ran.store, farm, f"phone-{bad}")
    good = [f"phone-{n}" for n in range(3) if n != bad]
    off = max(wrong_by(ran, truths, ladder), wrong_by_promotion(ran, truths[0]))
    with capsys.disabled():
        print_row(seed, fault, ladder, ran, off, record, good)
    assert ran.state is JobState.DONE
    assert [t.number for t in ran.trials] == list(range(TRIALS)), "lost or doubled"
    assert not ran.store.pending(ran.store.jobs()[0].id)
    expected = truths[1] if ladder else truths[0]
    assert {t.config.digest: t.outcome for t in ran.trials} == {
        digest: outcome for digest, (outcome, _) in expected.items()
    }
    assert len({p.trial for p in ran.promotions}) == len(ran.promotions)
    assert len(ran.promotions) == (min(PROMOTED, distinct_good(ran.trials)) if ladder else 0), (
        "lost or doubled"
    )
    assert {p.outcome for p in ran.promotions} <= {Outcome.OK}
    assert off <= CYCLES_MAY_BE_OFF
    assert record.reason
    out = DeviceState.OFFLINE if fault in LINK else DeviceState.QUARANTINED
    assert record.state is out
    for name in good:
        assert ran.store.roster().device(name).state is DeviceState.READY
        if not ladder:
            BUSY.append(ran.busy[name])


def test_good_phones_were_busy() -> None:
    """Over all jobs: in one of a second or two, whatever else the machine does is a large part."""
    if not BUSY:
        pytest.skip("the jobs above tell; run them, too")
    assert fmean(BUSY) >= LEAST_BUSY


def wrong_by(ran: Ran, truths: tuple[Truth, Truth], ladder: bool) -> float:
    """By which share the worst accepted trial is off; simulators are never off."""
    found = [
        abs(trial.measurement.cycles / cycles - 1)
        for trial in ran.trials
        if trial.measurement
        for _, cycles in [truths[ladder][trial.config.digest]]
        if cycles is not None
    ]
    assert not (ladder and any(found))
    return max(found)


def wrong_by_promotion(ran: Ran, truth: Truth) -> float:
    """By which share the worst accepted promotion is off."""
    digests = {trial.number: trial.config.digest for trial in ran.trials}
    return max(
        (
            abs(promotion.measurement.cycles / cycles - 1)
            for promotion in ran.promotions
            if promotion.measurement
            for _, cycles in [truth[digests[promotion.trial]]]
            if cycles is not None
        ),
        default=0.0,
    )


def print_row(
    seed: int,
    fault: Fault,
    ladder: bool,
    ran: Ran,
    off: float,
    record: DeviceRecord,
    good: list[str],
) -> None:
    if seed == 0:
        print(  # noqa: T201
            "\nseed fault         search on   job  trials promoted   off bad phone    busy  busy"
            "    s  why"
        )
    print(  # noqa: T201
        f"{seed:>4} {fault.value:<13} {'simulators' if ladder else 'phones':<10} "
        f"{ran.state.value:<5}{len(ran.trials):>6} {len(ran.promotions):>8} {off:>5.1%} "
        f"{record.state.value:<11} "
        + " ".join(f"{ran.busy[name]:>5.0%}" for name in good)
        + f" {ran.seconds:>4.1f}  {record.reason[:70]}"
    )
