"""Where there can be no emulated phones, it is said why and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rig.phones import rig
from tests.rig.phones.phone import RigUnavailableError


def kernel(folder: Path, **values: str) -> Path:
    """A stand-in for /proc/sys."""
    for name, value in values.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{value}\n")
    return folder


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"kernel__apparmor_restrict_unprivileged_userns": "1"}, "AppArmor"),
        ({"user__max_user_namespaces": "0"}, "sysctl user.max_user_namespaces"),
        ({"user__max_user_namespaces": "63000"}, "--privileged"),
        ({}, "--privileged"),
    ],
)
def test_the_remedy_is_that_for_what_the_kernel_says(
    tmp_path: Path, values: dict[str, str], told: str
) -> None:
    assert told in rig.namespaces_remedy(kernel(tmp_path, **values))


def test_tests_skip_with_the_reason_or_fail_where_phones_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> None:
        raise RigUnavailableError("no namespaces: Operation not permitted")

    monkeypatch.setattr(rig, "find_programs", refused)
    monkeypatch.setattr(rig, "_programs_or_reason", rig._programs_or_reason.__wrapped__)
    monkeypatch.delenv(rig.REQUIRED_VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"Operation not permitted \("):
        rig.require_rig()
    monkeypatch.setenv(rig.REQUIRED_VARIABLE, "1")
    with pytest.raises(pytest.fail.Exception, match="no emulated phones here"):
        rig.require_rig()
