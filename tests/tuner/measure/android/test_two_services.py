"""Two services, processes of their own, drive one phone: they take turns, and none harms the other.

Each has its own adb server and knows nothing of the other but what lies on the phone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.phones import Phone as EmulatedPhone
from tests.rig.phones import require_rig, running_phones
from tests.tuner.measure.android.phones import outcomes, task
from tuner.conformance.patience import PATIENCE_S, until
from tuner.errors import DeviceError
from tuner.measure.android.adb import ADB_VARIABLE
from tuner.measure.android.call import PhoneSettings
from tuner.measure.android.phone import Phone
from tuner.measure.device import Bundle, Limits

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[4]
BATCHES = 2


def service(address: str, way: str) -> None:
    """What one service does with the phone; a line of JSON on standard output for each batch."""
    settings = PhoneSettings(name="emu", arch="v66", address=address)
    with Phone(
        settings, "emu", Limits(task_s=2 * PATIENCE_S if way == "hang" else PATIENCE_S)
    ) as device:
        print("ready", flush=True)  # noqa: T201 - to the test
        sys.stdin.readline()
        for _ in range(BATCHES):
            device.clean()  # as a check does
            behaviours = ["HANGS"] if way == "hang" else ["WELL", "WRONG_BYTE"]
            found = device.run(Bundle([task(behaviour) for behaviour in behaviours], task()))
            print(json.dumps(outcomes(found)), flush=True)  # noqa: T201


@pytest.fixture
def emulated(private_state: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPhone]:
    monkeypatch.setenv(ADB_VARIABLE, str(require_rig().adb))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with running_phones(1) as [phone]:
        yield phone


def started(emulated: EmulatedPhone, way: str) -> subprocess.Popen[str]:
    code = f"from {__name__} import service; service({emulated.address!r}, {way!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_they_take_turns_and_checks_kill_no_batch_of_the_other(emulated: EmulatedPhone) -> None:
    services = [started(emulated, "work") for _ in range(2)]
    told = [process.communicate("go\n", timeout=PATIENCE_S)[0].splitlines() for process in services]
    assert [process.returncode for process in services] == [0, 0]
    for lines in told:
        assert [json.loads(line) for line in lines] == [["ok", "wrong_output"]] * BATCHES
    assert not [path for path in emulated.files() if "run-" in path or path.endswith("/lock")]


def test_one_that_waits_is_told_who_works_there_and_follows_when_that_is_killed(
    emulated: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = started(emulated, "hang")
    assert first.stdin is not None
    first.stdin.write("go\n")
    first.stdin.flush()
    until(lambda: any(path.endswith("/results") for path in emulated.files()), look_every_s=0.1)
    settings = PhoneSettings(name="emu", arch="v66", address=emulated.address)
    monkeypatch.setattr("tuner.measure.android.phone._BUSY_S", 0.0)
    with Phone(settings, "emu", Limits(task_s=PATIENCE_S)) as device:
        with pytest.raises(DeviceError, match=f"in use by process {first.pid} on ") as caught:
            device.clean()
        assert caught.value.attempts == 0
        assert any(path.endswith("/results") for path in emulated.files()), "its batch goes on"
        first.send_signal(signal.SIGKILL)
        first.wait()
        # What it left on the phone is ended before anything else runs there.
        assert outcomes(device.run(Bundle([task()], task()))) == ["ok"]
        assert not [path for path in emulated.files() if "run-" in path]
