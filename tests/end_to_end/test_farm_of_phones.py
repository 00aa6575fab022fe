"""A farm of emulated phones (tests/rig/phones), by the commands of the documents.

And ``kill -9`` of a process that promotes to them: no promotion is lost or doubled, and the phones
are at work again at once.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import db
import tuner
from tests.end_to_end.test_kill_and_resume import ROOT, kill_at
from tests.rig.phones import TOOL, require_rig, running_phones
from tests.rig.scale_u8 import KERNELS
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.measure.android.adb import ADB_VARIABLE
from tuner.measure.farm.farm_file import FARM_FILE_VARIABLE
from tuner.records.outcome import Outcome

HVXTUNE = Path(sys.executable).with_name("hvxtune")
TRIALS = 20
KILLS = 3

pytestmark = pytest.mark.slow


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """That of the commands, with a farm of two phones."""
    monkeypatch.setenv("HVXTUNE_DATABASE_URL", f"sqlite:///{tmp_path}/hvxtune.sqlite")
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(ADB_VARIABLE, str(require_rig().adb))
    farm = tmp_path / "farm.toml"
    monkeypatch.setenv(FARM_FILE_VARIABLE, str(farm))
    with running_phones(2) as phones:
        tables = (
            f'[[phone]]\nname = "emulated-{n}"\naddress = "{phone.address}"\narch = "v66"\n'
            f'tool = "{TOOL}"\n'
            for n, phone in enumerate(phones, 1)
        )
        farm.write_text("[limits]\nrecheck_s = 0.1\nbundle = 2\n" + "".join(tables))
        yield dict(os.environ)


def test_kills_lose_and_double_no_promotion(environment: dict[str, str]) -> None:
    with db.open_store() as store:
        job = tuner.submit(
            "scale_u8",
            store=store,
            trials=TRIALS,
            workers=1,
            seed=7,
            promote_to="phone",
            promote=TRIALS,
        )
    resume = [str(HVXTUNE), "job", "resume", job.id, "--json"]
    points = random.Random(3)
    ended: dict[int, object] = {}
    for kill in range(1, KILLS + 1):
        wanted = kill * points.choice([2, 3])

        def reached(wanted: int = wanted) -> bool:
            with db.open_store() as store:
                promoted = [p for p in store.promotions(job.id) if p.outcome is not None]
                return len(promoted) > 0 and len(store.trials(job.id)) + len(promoted) >= wanted

        kill_at(resume, environment, reached, points.uniform(0.0, 0.1))
        with db.open_store() as store:
            now = {p.trial: p for p in store.promotions(job.id) if p.outcome is not None}
        assert now.items() >= ended.items(), "a promotion that had ended was lost or changed"
        ended = now
    done = subprocess.run(resume, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with db.open_store() as store:
        trials, promotions = store.trials(job.id), store.promotions(job.id)
        devices = store.roster().devices()
    assert [t.number for t in trials] == list(range(TRIALS))
    distinct = [t.number for t in trials if t.outcome is Outcome.OK and t.duplicate_of is None]
    assert [p.trial for p in promotions] == distinct
    assert {p.outcome for p in promotions} == {Outcome.OK}
    assert {p.measurement.device for p in promotions if p.measurement} <= {d.name for d in devices}
    answer = json.loads(done.stdout)
    assert len(answer["ladder"]["promotions"]) == len(distinct)
    assert {device.faults for device in devices} == {0}, "being killed is no fault of a phone"


def shown(page: str, heading: str) -> list[list[str]]:
    """The commands that a section of a page shows in its first block."""
    section = (ROOT / "docs" / page).read_text().partition(f"\n## {heading}\n")[2]
    block = section.partition("```sh\n")[2].partition("```")[0]
    return [shlex.split(line, comments=True) for line in block.splitlines()]


def test_the_commands_of_the_documents_work_on_a_farm_of_phones(
    environment: dict[str, str],
) -> None:
    """Searches are made short. The last one promotes to the phones."""
    commands = [*shown("devices.md", "First steps"), *shown("fidelity.md", "Promote")]
    assert len(commands) == 5
    said = {}
    for command in commands:
        short = ["--trials", "4", "--promote", "3"] if "--promote-to" in command else []
        short = short or (["--trials", "4"] if command[1] == "tune" else [])
        done = subprocess.run(
            [str(HVXTUNE), *command[1:], *short, "--json"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        said[" ".join(command[1:3])] = json.loads(done.stdout)
    ladder = said["tune gemm_u8"]["ladder"]
    assert len(ladder["promotions"]) == 3
    for one in ladder["promotions"]:
        assert (one["outcome"], one["fidelity"]) == ("ok", "hardware")
        assert one["trial_fidelity"] == "model"
        assert one["device"] in ("emulated-1", "emulated-2")
    best = [str(HVXTUNE), "best", "gemm_u8", "--json"]
    told = subprocess.run(best, env=environment, capture_output=True, text=True, check=True)
    answer = json.loads(told.stdout)
    assert answer["fidelity"] == "hardware"
    assert answer["cycles"] <= min(one["cycles"] for one in ladder["promotions"])
