"""Targets by their short names."""

from __future__ import annotations

import pytest

from tuner.errors import UserError
from tuner.problem.target import TARGETS, find_target


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_is_found_with_and_without_its_prefix(name: str) -> None:
    assert find_target(name) is find_target(name.removeprefix("hexagon-")) is TARGETS[name]


@pytest.mark.parametrize("name", ["", "hexagon-", "v99", "hexagon-hexagon-v66", "V66"])
def test_others_are_refused_with_the_next_step(name: str) -> None:
    with pytest.raises(UserError, match=r"accepted: hexagon-v65, .*(did you mean|hvxtune targets)"):
        find_target(name)
