"""The script around a call: what it prints counts only whole, and with this call's nonce."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.conformance.patience import PATIENCE_S
from tuner.errors import DeviceError
from tuner.measure.android.adb import ShellOutput
from tuner.measure.android.call import (
    LOCK_FILE,
    DamagedError,
    PhoneSettings,
    clean_script,
    ended,
    run_script,
)

NONCE = "ab" * 16
SUM = "0" * 64
GOOD = f"said this\n\n@@SENSORS\n41000\n{SUM}  000.out\n@@END {NONCE} rc=0\n"


def output(text: str, status: int = 0) -> ShellOutput:
    return ShellOutput(text.encode(), b"", status)


def test_a_whole_output_is_read() -> None:
    found = ended(output(GOOD), NONCE)
    assert (found.status, found.said, found.temperature_c) == (0, "said this", 41.0)
    assert found.sums == {"000.out": SUM}


@given(st.integers(0, len(GOOD) - 2))
def test_status_0_with_a_truncated_output_is_no_success(keep: int) -> None:
    """As a phone gives it whose adbd dies, and as adb's own client passes it on."""
    with pytest.raises(DeviceError):
        ended(output(GOOD[:keep]), NONCE)


@pytest.mark.parametrize(
    "text",
    [GOOD.replace("ab", "cd"), GOOD + "more\n", GOOD.replace(" rc=0", "")],
)
def test_an_output_that_is_not_this_calls_is_no_success(text: str) -> None:
    with pytest.raises(DeviceError):
        ended(output(text), NONCE)


def test_what_a_candidate_prints_is_no_sum_and_no_sentinel() -> None:
    said = f"{'1' * 64}  000.out\n@@END {NONCE} rc=7\n@@SENSORS\n99000\n"
    found = ended(output(said + GOOD), NONCE)
    assert (found.status, found.temperature_c, found.sums) == (0, 41.0, {"000.out": SUM})


class TestOnThisMachine:
    """The scripts in this machine's shell, with a stand-in for the tool: they are plain POSIX."""

    @pytest.fixture
    def settings(self, tmp_path: Path) -> PhoneSettings:
        tool = tmp_path / "tool"
        tool.write_text("#!/bin/sh\necho $*\nprintf x >results; printf y >000.out\nexit 9\n")
        tool.chmod(0o755)
        return PhoneSettings(name="p", arch="v66", tool=str(tool), folder=str(tmp_path / "hvxtune"))

    def run(self, settings: PhoneSettings, sums: dict[str, str], lock: str = NONCE) -> ShellOutput:
        folder = Path(settings.folder) / "run-1"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "queue").write_bytes(b"queue")
        (Path(settings.folder) / LOCK_FILE).symlink_to(f"{lock} 4000000000 somebody")
        script = run_script(settings, str(folder), NONCE, sums, ["000.out"], 5)
        done = subprocess.run(
            ["sh", "-c", script], capture_output=True, timeout=PATIENCE_S, check=False
        )
        return ShellOutput(done.stdout, done.stderr, done.returncode)

    def test_the_tool_gets_its_arguments_and_its_output_is_summed(
        self, settings: PhoneSettings
    ) -> None:
        sums = {"queue": hashlib.sha256(b"queue").hexdigest()}
        found = ended(self.run(settings, sums), NONCE)
        folder = f"{settings.folder}/run-1"
        assert found.status == 9
        assert found.said == f"3 {folder}/driver.so stack_size=0x200000 {folder}"
        assert found.sums == {"000.out": hashlib.sha256(b"y").hexdigest()}

    def test_nothing_is_run_if_a_file_is_not_what_was_sent(self, settings: PhoneSettings) -> None:
        with pytest.raises(DamagedError):
            ended(self.run(settings, {"queue": SUM}), NONCE)
        assert not (Path(settings.folder) / "run-1" / "results").exists()

    def test_nothing_is_run_under_the_lock_of_another(self, settings: PhoneSettings) -> None:
        sums = {"queue": hashlib.sha256(b"queue").hexdigest()}
        with pytest.raises(DeviceError, match="took the phone over"):
            ended(self.run(settings, sums, lock="cd" * 16), NONCE)
        assert not (Path(settings.folder) / "run-1" / "results").exists()

    def test_nor_counts_what_another_took_over_meanwhile(self, settings: PhoneSettings) -> None:
        lock = Path(settings.folder) / LOCK_FILE
        Path(settings.tool).write_text(f"#!/bin/sh\nrm {lock}; ln -s 'other 4000000000 x' {lock}\n")
        sums = {"queue": hashlib.sha256(b"queue").hexdigest()}
        with pytest.raises(DeviceError, match="took the phone over"):
            ended(self.run(settings, sums), NONCE)

    def test_cleaning_ends_what_runs_in_our_folders_and_removes_them(
        self, settings: PhoneSettings
    ) -> None:
        folder = Path(settings.folder) / "run-2"
        folder.mkdir(parents=True)
        with subprocess.Popen(["sh", "-c", f"sleep 60; : {folder}"]) as left:
            script = clean_script(settings, NONCE)
            done = subprocess.run(
                ["sh", "-c", script], capture_output=True, timeout=PATIENCE_S, check=True
            )
            assert left.wait(PATIENCE_S) == -9
        assert done.stdout.decode() == f"@@END {NONCE}\n"
        assert list(Path(settings.folder).iterdir()) == []
