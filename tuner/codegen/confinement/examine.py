"""Which layers come into place around a compiling process on this machine.

Run as ``python -m tuner.codegen.confinement.examine``: confines itself and prints them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tuner.codegen.confinement.confine import LAYERS, LAYERS_OF_ROOT, Limits, confine
from tuner.codegen.confinement.roles import COMPILER
from tuner.errors import InternalError

_LIMITS = Limits(memory_bytes=1 << 28, cpu_s=10, file_bytes=1 << 20)
_SECONDS = 60


def examine_confinement() -> tuple[list[str], list[str]]:
    """The layers in place, and those that this machine refuses, in words for people."""
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    with tempfile.TemporaryDirectory(prefix="hvxtune-confined-") as folder:
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    if done.returncode:
        raise InternalError(f"a process that confines itself fails: {done.stderr.strip()[-300:]}")
    active: list[str] = json.loads(done.stdout)
    expected = [one for one in LAYERS if os.geteuid() == 0 or one not in LAYERS_OF_ROOT]
    return active, [layer for layer in expected if layer not in active]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(confine(COMPILER, Path("."), _LIMITS).seal()))
