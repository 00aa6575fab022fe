"""A worker that drives phones: emulated ones, over real adb, behind a real scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

import tuner
from tests.rig.phones import TOOL, Phone, require_rig, running_phones
from tests.tuner.executor.cluster.started import Started, started_cluster
from tuner.errors import ToolchainError
from tuner.executor import EXECUTOR_VARIABLE, examine_executor
from tuner.executor.cluster import devices, offers
from tuner.executor.cluster.offers import Offer
from tuner.keeping.memory_store import MemoryStore
from tuner.measure.android.adb import ADB_VARIABLE
from tuner.measure.farm.farm_file import FARM_FILE_VARIABLE
from tuner.measure.farm.roster import MemoryRoster
from tuner.records.documents import read_record
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState

pytestmark = pytest.mark.slow

SMALL = {"width": 256, "height": 8}


@pytest.fixture(scope="module")
def phone() -> Iterator[Phone]:
    require_rig()
    with running_phones(1) as phones:
        yield phones[0]


def farm_file(folder: Path, phone: Phone) -> Path:
    place = folder / "farm.toml"
    place.write_text(
        f'[[phone]]\nname = "emulated"\naddress = "{phone.address}"\narch = "v66"\n'
        f'tool = "{TOOL}"\ntags = ["desk"]\n[limits]\nrecheck_s = 0.1\n'
    )
    return place


@pytest.fixture(scope="module")
def cluster(phone: Phone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A worker without devices, and one on the machine with the cable."""
    folder = tmp_path_factory.mktemp("workers")
    farm = farm_file(folder, phone)
    with started_cluster(folder, "plain") as started:
        started.add(
            "cables", options=("--farm", str(farm)), more={ADB_VARIABLE: str(require_rig().adb)}
        )
        started.until_there("cables")
        yield started


@pytest.fixture(autouse=True)
def use(cluster: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXECUTOR_VARIABLE, cluster.executor)


def test_a_job_is_measured_and_another_promoted_on_the_phone_of_a_worker() -> None:
    """The machine that searches needs no adb, and no farm file."""
    [tags] = examine_executor().abilities.devices
    assert {"desk", "emulated", "phone", "v66"} <= set(tags)
    store = MemoryStore()
    options = {"contract": "static", "sampler": "random", "store": store}
    done = tuner.tune("add_u8", SMALL, trials=4, measurer="farm", on="desk", **options)
    assert done.job.state is JobState.DONE
    measured = [trial.measurement for trial in store.trials(done.job.id)]
    assert {(one.fidelity, one.device) for one in measured if one} == {("hardware", "emulated")}
    assert [trial.outcome for trial in store.trials(done.job.id)] == [Outcome.OK] * 4
    upper = tuner.tune("add_u8", SMALL, trials=4, promote_to="desk", promote=2, **options)
    promotions = store.promotions(upper.job.id)
    assert [one.outcome for one in promotions] == [Outcome.OK] * 2
    assert {one.measurement.device for one in promotions if one.measurement} == {"emulated"}
    assert {one.measurement.fidelity for one in store.trials(upper.job.id) if one.measurement} == {
        "model"
    }


def test_tags_that_no_worker_has_are_told() -> None:
    with pytest.raises(ToolchainError, match=r"no worker of dask://.* has a device tagged 'moon'"):
        tuner.tune("add_u8", SMALL, contract="static", trials=1, measurer="farm", on="moon")


def test_devices_are_checked_when_due_and_offered_while_in_service(
    phone: Phone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker looks, again and again, beside the jobs that use them."""
    monkeypatch.setenv(FARM_FILE_VARIABLE, str(farm_file(tmp_path, phone)))
    monkeypatch.setenv(ADB_VARIABLE, str(require_rig().adb))
    roster = MemoryRoster()
    monkeypatch.setattr(devices, "ROSTER", roster)
    [offered] = [one for one in offers.examine().measurers if one.name == "farm"]
    assert offered.targets
    assert offered.serves("desk,v66")
    assert not offered.serves("desk,v73")
    checked = roster.device("emulated").last_check_at
    again = offers.examine()
    assert offered in again.measurers
    assert read_record(Offer, json.loads(json.dumps(asdict(again)))) == again
    assert roster.device("emulated").last_check_at == checked
    roster.quarantine("emulated", "smoke")
    out = offers.examine()
    assert "farm" not in {one.name for one in out.measurers}
    assert out.devices == ()
    assert "farm: emulated is quarantined (smoke)" in [lack.text for lack in out.without]
    assert out.fit, "it compiles for others"
