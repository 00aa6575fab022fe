"""The lock on a phone: one holder at a time, whoever asks and however a holder ends."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tuner.errors import DeviceError
from tuner.measure.android import call as lock
from tuner.measure.android.adb import ShellOutput
from tuner.measure.android.call import PhoneLock, release_script, renew_script, take_script

ONE, OTHER = "ab" * 16, "cd" * 16


class HereLink:
    """In the place of a phone: this machine's shell."""

    async def shell(self, server: object, command: str, timeout_s: float) -> ShellOutput:
        done = await asyncio.to_thread(run, command)
        return ShellOutput(done.encode(), b"", 0)


def run(script: str) -> str:
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lock, "_LOOKS", 2)
    monkeypatch.setattr(lock, "_held", set())
    return tmp_path / "hvxtune"


@pytest.fixture
def phone_lock(folder: Path) -> PhoneLock:
    return PhoneLock(HereLink(), str(folder))  # type: ignore[arg-type]


def take(of: PhoneLock, nonce: str) -> bool:
    return asyncio.run(of.take(None, nonce, wait_s=0))  # type: ignore[arg-type]


def release(of: PhoneLock, nonce: str) -> None:
    asyncio.run(of.release(None, nonce))  # type: ignore[arg-type]


def put(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "lock").unlink(missing_ok=True)
    (folder / "lock").symlink_to(text)


def test_who_asks_while_it_is_held_is_told_who_holds_it(phone_lock: PhoneLock) -> None:
    assert take(phone_lock, ONE) is False
    with pytest.raises(DeviceError, match=f"in use by process {os.getpid()} on ") as caught:
        take(phone_lock, OTHER)
    assert caught.value.attempts == 0, "the phone is not to blame"
    release(phone_lock, ONE)
    assert take(phone_lock, OTHER) is False


def test_one_that_expired_is_taken_over(folder: Path, phone_lock: PhoneLock) -> None:
    put(folder, f"{OTHER} {int(time.time()) - 1} elsewhere:1:1:feed")
    assert take(phone_lock, ONE) is True
    assert os.readlink(folder / "lock").startswith(ONE)
    assert os.listdir(folder) == ["lock"]


def test_one_of_another_machine_is_not_before(folder: Path, phone_lock: PhoneLock) -> None:
    put(folder, f"{OTHER} {int(time.time()) + 100} elsewhere:1:1:feed")
    with pytest.raises(DeviceError, match="process 1 on elsewhere"):
        take(phone_lock, ONE)


def test_one_of_a_process_that_has_ended_here_is_at_once(
    folder: Path, phone_lock: PhoneLock
) -> None:
    code = "from tuner.measure.android.call import _owner; print(_owner())"
    owner = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    put(folder, f"{OTHER} {int(time.time()) + 100} {owner}")
    assert take(phone_lock, ONE) is True


def test_one_of_a_call_that_broke_off_here_is_at_once(folder: Path, phone_lock: PhoneLock) -> None:
    assert take(phone_lock, OTHER) is False
    lock._held.clear()
    assert take(phone_lock, ONE) is True


def test_renewing_and_releasing_touch_no_lock_but_the_own(folder: Path) -> None:
    put(folder, f"{ONE} 1 me")
    for script in (renew_script, release_script):
        run(script(str(folder), OTHER))
        assert os.readlink(folder / "lock") == f"{ONE} 1 me"
    run(renew_script(str(folder), ONE))
    nonce, expires, _ = os.readlink(folder / "lock").split()
    assert (nonce, int(expires) > time.time()) == (ONE, True)
    run(release_script(str(folder), ONE))
    assert os.listdir(folder) == []


def test_of_many_who_find_it_expired_one_gets_it(folder: Path) -> None:
    nonces = [f"{number:032x}" for number in range(8)]
    for _ in range(2):
        put(folder, f"{OTHER} 1 elsewhere:1:1:feed")
        with ThreadPoolExecutor(len(nonces)) as pool:
            said = list(pool.map(lambda n: run(take_script(str(folder), n, "")), nonces))
        assert sum(not one.startswith("busy") for one in said) == 1
        assert os.listdir(folder) == ["lock"]
