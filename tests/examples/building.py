"""Builds a CMake project for Hexagon as a user would, and runs what comes out."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tuner.codegen.toolchain import find_toolchain
from tuner.conformance.patience import PATIENCE_S
from tuner.measure.qemu.simulator import find_simulator
from tuner.paths import cached

ROOT = Path(__file__).parents[2]
CMAKE = Path(sys.executable).with_name("cmake")
HVXTUNE = f"{sys.executable};-m;service.cli"


@dataclass
class Project:
    """A CMake project in ``source``, built in ``build``."""

    source: Path
    build: Path
    environment: dict[str, str]

    def configure(self, *options: str) -> subprocess.CompletedProcess[str]:
        return self._run(
            *(CMAKE, "-G", "Unix Makefiles", "-S", self.source, "-B", self.build),
            *("--toolchain", ROOT / "cmake" / "hexagon-zig.cmake"),
            f"-DHVXTUNE_ZIG={find_toolchain().zig}",
            f"-DHVXTUNE_EXECUTABLE:STRING={HVXTUNE}",
            *options,
        )

    def make(self) -> subprocess.CompletedProcess[str]:
        return self._run(CMAKE, "--build", self.build)

    def _run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={**os.environ, **self.environment},
        )


def build_environment(state: Path, **more: str) -> dict[str, str]:
    """For a build that uses the state directory ``state`` and what the machine's cache holds."""
    zig_cache = cached("zig-of-tests")
    return {
        "HVXTUNE_STATE_DIR": str(state),
        "PYTHONPATH": str(ROOT),
        "ZIG_GLOBAL_CACHE_DIR": str(zig_cache),
        "ZIG_LOCAL_CACHE_DIR": str(zig_cache),
        **more,
    }


def simulate(program: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program for Hexagon to its end, without timing it."""
    command = [*find_simulator().command, str(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def gemm_checksum(m: int, n: int, k: int) -> int:
    """What examples/gemm must print, by NumPy."""
    state, values = 1, []
    for _ in range(m * k + k * n):
        state = (state * 1664525 + 1013904223) % 2**32
        values.append(state >> 24)
    numbers = np.array(values, np.uint64)
    product = numbers[: m * k].reshape(m, k) @ numbers[m * k :].reshape(k, n)
    checksum = 0
    for value in product.ravel():
        checksum = (checksum * 31 + int(value)) % 2**32
    return checksum
