"""The token that commands on the same machine find: only one that nobody else could read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from service.auth.local_token import keep_local_token, local_token, local_token_file
from service.token_text import new_token_text
from tuner.errors import StoreError, UserError

TEXT = new_token_text().text


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refusal() -> str:
    with pytest.raises(UserError) as refused:
        local_token()
    assert TEXT not in str(refused.value)
    assert "hvxtune token create --local" in refused.value.next_step
    return refused.value.message


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_it_is_kept_for_its_user_alone(umask: int) -> None:
    keep_local_token("an older one, with a wider mode")
    local_token_file().chmod(0o644)
    before = os.umask(umask)
    try:
        path = keep_local_token(TEXT)
    finally:
        os.umask(before)
    assert path == local_token_file()
    assert mode_of(path) == 0o600
    assert local_token() == TEXT
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def test_without_a_file_there_is_none() -> None:
    assert local_token() is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o666, 0o610, 0o777])
def test_a_wider_mode_is_refused(mode: int) -> None:
    keep_local_token(TEXT).chmod(mode)
    assert f"{mode:04o}" in refusal()


def test_a_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    keep_local_token(TEXT).rename(tmp_path / "elsewhere")
    local_token_file().symlink_to(tmp_path / "elsewhere")
    assert str(local_token_file()) in refusal()


def test_what_is_no_file_is_refused() -> None:
    keep_local_token(TEXT).unlink()
    os.mkfifo(local_token_file(), 0o600)
    assert str(local_token_file()) in refusal()
    local_token_file().unlink()
    local_token_file().mkdir(0o700)
    assert str(local_token_file()) in refusal()


def test_a_place_that_cannot_be_written_is_named(state: Path) -> None:
    state.write_text("in the way")
    with pytest.raises(StoreError, match=str(state)) as failed:
        keep_local_token(TEXT)
    assert TEXT not in str(failed.value)
