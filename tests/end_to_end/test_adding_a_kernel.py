"""The kernel shown in docs/adding-a-kernel.md works as the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-kernel.md"
HVXTUNE = Path(sys.executable).with_name("hvxtune")


@pytest.mark.slow
def test_the_kernel_of_the_page_can_be_measured_and_tuned(tmp_path):
    text = PAGE.read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (session,) = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "brighten_u8.py").write_text(code)
    export, *commands = session.strip().splitlines()
    variable, _, value = export.removeprefix("export ").partition("=")
    environment = {
        **os.environ,
        variable: value,
        "PYTHONPATH": str(tmp_path),
        "HVXTUNE_DATABASE_URL": f"sqlite:///{tmp_path}/hvxtune.sqlite",
    }
    answers = []
    for command in commands:
        program, *arguments = command.split()
        assert program == "hvxtune"
        done = subprocess.run(
            [HVXTUNE, *arguments, "--json"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(json.loads(done.stdout))
    measured, tuned = answers
    assert measured["verified"] is True
    assert tuned["outcomes"] == {"ok": 4}
    assert tuned["best"]["cycles"] <= tuned["textbook"]["cycles"] == measured["cycles"]
