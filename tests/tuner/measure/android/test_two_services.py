"""Two services, processes of their own, drive one phone: they take turns, and none harms the other.

Each has its own adb server and knows nothing of the other but what lies on the phone.
"""

from __future__ import annotations

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


def service(address: str) -> None:
    """What the other service does with the phone, until it is killed."""
    settings = PhoneSettings(name="emu", arch="v66", address=address)
    with Phone(settings, "emu", Limits(task_s=2 * PATIENCE_S)) as device:
        device.run(Bundle([task("HANGS")], task()))


@pytest.fixture
def emulated(private_state: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPhone]:
    monkeypatch.setenv(ADB_VARIABLE, str(require_rig().adb))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with running_phones(1) as [phone]:
        yield phone


def test_one_that_waits_is_told_who_works_there_and_follows_when_that_is_killed(
    emulated: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"from {__name__} import service; service({emulated.address!r})"
    first = subprocess.Popen([sys.executable, "-c", code], env=dict(os.environ))
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
