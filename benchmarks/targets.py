"""Every kernel on every architecture that is simulated here, its outputs verified.

    python -m benchmarks.targets [--target hexagon-v66 ...] [--json] [KERNEL ...]

Prints the model cycles of each kernel's default and textbook schedule at its default shape, or what
became of it. `hvxtune setup --target v73` builds the simulator that v68 and later need. The exit
status is 1 if a schedule was not verified, for want of a simulator too.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass

from tuner.errors import HvxtuneError
from tuner.jobs.one_config import measure, named_config
from tuner.jobs.tuning import find_problem
from tuner.kernels import kernel_names

TARGETS = ("hexagon-v66", "hexagon-v68", "hexagon-v73")
CONFIGS = ("default", "textbook")


@dataclass(frozen=True)
class Verified:
    """One schedule on one target: model ``cycles``, or why there are none."""

    kernel: str
    target: str
    config: str
    cycles: int | None
    reason: str = ""


def verified(kernel: str, target: str, name: str) -> Verified:
    """Compiles, simulates and verifies a schedule by its name."""
    try:
        problem = find_problem(kernel, None, target, "static")
        config = named_config(problem, name)
        assert config is not None  # noqa: S101 - every kernel has both
        trial, _ = measure(problem, config)
    except HvxtuneError as error:
        return Verified(kernel, target, name, None, str(error))
    if trial.measurement is None:
        return Verified(kernel, target, name, None, f"{trial.outcome.value}: {trial.error}")
    return Verified(kernel, target, name, trial.measurement.cycles)


def main() -> int:
    """Prints a row for each kernel as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernel", nargs="*", default=kernel_names(), metavar="KERNEL")
    parser.add_argument("--target", action="append", help=f"by default {', '.join(TARGETS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args()
    targets = asked.target or TARGETS
    found: list[Verified] = []
    if not asked.json:
        heads = [
            f"{target.removeprefix('hexagon-')} {name}" for target in targets for name in CONFIGS
        ]
        print("| kernel | " + " | ".join(heads) + " |")
        print("| --- |" + " ---: |" * len(heads), flush=True)
    for kernel in asked.kernel:
        row = [verified(kernel, target, name) for target in targets for name in CONFIGS]
        found += row
        if not asked.json:
            cells = [f"{one.cycles:,}" if one.cycles is not None else "none" for one in row]
            print(f"| {kernel} | " + " | ".join(cells) + " |", flush=True)
    lacking = [one for one in found if one.cycles is None]
    for one in lacking:
        sys.stderr.write(f"{one.kernel} {one.config} on {one.target}: {one.reason}\n")
    if asked.json:
        print(json.dumps([one.__dict__ for one in found]))
    else:
        print(f"\n{len(found) - len(lacking)} of {len(found)} schedules verified")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
