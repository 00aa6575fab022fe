"""The examples for GitHub Actions and GitLab run what they say: their commands, in their order."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.cli.statuses import Exit

EXAMPLES = Path(__file__).parents[3] / "examples" / "ci"


def of_github(document: dict[str, Any]) -> list[str]:
    (job,) = document["jobs"].values()
    assert job["env"].keys() == {"HVXTUNE_SERVER", "HVXTUNE_TOKEN"}
    return [step["run"] for step in job["steps"] if "run" in step]


def of_gitlab(document: dict[str, Any]) -> list[str]:
    (job,) = document.values()
    assert "HVXTUNE_SERVER" in job["variables"]
    return list(job["script"])


@pytest.mark.parametrize("commands", [of_github, of_gitlab])
def test_a_pipeline_fails_once_a_pin_is_too_slow(
    commands: Callable[[dict[str, Any]], list[str]], hvxtune: Any, bench: Any, tmp_path: Path
) -> None:
    name = commands.__name__.removeprefix("of_")
    install, *checks = commands(yaml.safe_load((EXAMPLES / f"{name}.yml").read_text()))
    assert install == "pip install hvxtune"
    assert hvxtune("tune", "scale_u8", "--trials", "3", "--workers", "1").status == 0
    assert hvxtune("fetch", "scale_u8", "--name", "scale").status == 0

    def run() -> int:
        """The first status that is not 0, as a pipeline ends there."""
        statuses = [hvxtune(*shlex.split(line)[1:]).status for line in checks]
        return next((status for status in statuses if status), 0)

    assert checks
    assert run() == 0
    lock = tmp_path / "hvxtune.lock"
    best = hvxtune("best", "scale_u8", "--json").json["cycles"]
    lock.write_text(lock.read_text().replace(f"cycles = {best}\n", f"cycles = {2 * best}\n"))
    assert run() == Exit.FAILED
