"""Where there can be no emulated phones, it is said why and what to do."""

from __future__ import annotations

import pytest

from tests.rig.phones import rig
from tests.rig.phones.phone import RigUnavailableError


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
