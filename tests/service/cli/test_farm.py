"""``hvxtune farm``, with stand-ins for the phones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from db import open_store
from db.access.audit import newest_entries
from tests.rig.stand_in_devices import SCRIPTS, Script, stand_in_phones
from tests.rig.stand_ins import StandInGenerator, standing_in_for
from tuner.executor import executor
from tuner.jobs import one_config
from tuner.measure.farm.farm_file import FARM_FILE_VARIABLE
from tuner.space import Config

FARM = """
[limits]
repeats = 6
[[phone]]
name = "pixel"
arch = "v66"
serial = "1"
tags = ["lab-2"]
[[phone]]
name = "nokia"
arch = "v66"
serial = "2"
"""


@pytest.fixture(autouse=True)
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "farm.toml"
    file.write_text(FARM)
    monkeypatch.setenv(FARM_FILE_VARIABLE, str(file))
    stand_in_phones(monkeypatch)


class Objects:
    """What configs are compiled to: texts that say what the stand-ins make of them."""

    def text(self, config: Config) -> str:
        return "4321"


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Objects:
    made = Objects()

    def find_stand_in(name: str) -> Callable[..., StandInGenerator]:
        stand_in = standing_in_for(name)
        return lambda workers=1: stand_in(workers, object_of=lambda c: made.text(c))

    for module in (executor, one_config):
        monkeypatch.setattr(module, "find_generator", find_stand_in)
    return made


def test_a_farm_is_checked_and_listed(hvxtune) -> None:
    SCRIPTS["nokia"] = Script(silent=True)
    new = hvxtune("farm", "list", "--json").json["devices"]
    assert [(one["name"], one["state"]) for one in new] == [
        ("nokia", "suspect"),
        ("pixel", "suspect"),
    ]
    checked = hvxtune("farm", "check")
    assert checked.status == 1
    assert "no answer in 3 s" in checked.out
    assert "2/2" in checked.err
    listed = hvxtune("farm", "list")
    assert "offline" in listed.out
    assert "passed its check" in listed.out
    one = hvxtune("farm", "check", "--on", "lab-2", "--json")
    assert one.status == 0
    assert one.json["ok"]
    assert [(d["name"], d["failure"], d["gold_cycles"]) for d in one.json["devices"]] == [
        ("pixel", "", 1000)
    ]
    assert [
        d["name"] for d in hvxtune("farm", "list", "--on", "lab-2", "--json").json["devices"]
    ] == ["pixel"]


def test_a_device_is_taken_out_and_comes_back_checked(hvxtune) -> None:
    hvxtune("farm", "check")
    drained = hvxtune("farm", "drain", "pixel", "--reason", "new battery")
    assert "pixel is drained" in drained.out
    assert "new battery" in drained.out
    assert hvxtune("farm", "check", "--json").json["ok"] is False
    assert hvxtune("farm", "release", "pixel", "--json").json["state"] == "ready"
    assert hvxtune("farm", "quarantine", "pixel").out.startswith("pixel is quarantined")
    SCRIPTS["pixel"].silent = True
    assert hvxtune("farm", "release", "pixel").out.startswith("pixel is offline: no answer")
    with open_store() as store:
        actions = [entry.action for entry in newest_entries(store, 10)]
    assert actions[::-1] == [
        "device.drain",
        "device.release",
        "device.quarantine",
        "device.release",
    ]


def test_one_schedule_is_run_on_a_device(hvxtune, objects: Objects) -> None:
    measure = ["kernel", "measure", "scale_u8", "--measurer", "farm", "--config"]
    ran = hvxtune(*measure, "textbook", "--on", "lab-2")
    assert "pixel: 4,321 cycles (hardware" in ran.out
    told = hvxtune(*measure, "default", "--json").json
    assert (told["outcome"], told["cycles"], told["fidelity"]) == ("ok", 4321, "hardware")
    objects.text = lambda config: "4321 run_error"
    bad = hvxtune(*measure, "textbook")
    assert bad.status == 1
    assert "run_error: it is bad" in bad.out


def test_a_job_runs_on_the_farm(hvxtune, objects: Objects) -> None:
    objects.text = lambda config: str(2000 + int(config.digest[:4], 16))
    job = hvxtune(
        "tune", "scale_u8", "--measurer", "farm", "--on", "phone", "--trials", "12", "--json"
    )
    assert job.status == 0
    assert (job.json["state"], job.json["measurer"], job.json["on"]) == ("done", "farm", "phone")
    assert job.json["outcomes"] == {"ok": 12}
    assert job.json["best"]["fidelity"] == "hardware"
    assert job.json["workers"] == 2 * 2 * 16
    devices = hvxtune("farm", "list", "--json").json["devices"]
    assert {one["state"] for one in devices} == {"ready"}
    assert sum(one["trials"] for one in devices) >= 12


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["farm", "drain", "nobody"], "no device 'nobody'"),
        (["farm", "release", "pixel"], "nothing to release it from"),
        (["farm", "check", "--on", "lab-3"], "tagged 'lab-3'"),
        (["tune", "scale_u8", "--on", "phone"], "with the measurer 'qemu'"),
        (["tune", "scale_u8", "--measurer", "farm", "--cache", "cold"], "cache 'cold' on a farm"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(hvxtune, arguments: list[str], says: str) -> None:
    hvxtune("farm", "list")
    assert says in hvxtune(*arguments).error_line
