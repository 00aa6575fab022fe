"""Breaks the product in each of the ways of ``mutants.toml``, one at a time, and runs the tests
that should notice. Works in a copy of the tree. A text to replace that is not there exactly once is
an error: whoever moves or changes it looks for the mutant's new place.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutants.toml")
_LIMIT_S = 900
_TESTS_FAILED = 1
"""The only status of pytest that may be a catch; Python has it too, where there is no pytest."""


@dataclass(frozen=True)
class Mutant:
    """``old`` in ``file`` replaced by ``new``, which one of ``tests`` should notice. ``slow`` if
    only slow tests do."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    slow: bool = False

    def applied(self, text: str) -> str:
        """``text`` of the file, broken. ``ValueError`` unless ``old`` is there exactly once."""
        if text.count(self.old) != 1 or self.old == self.new:
            raise ValueError(
                f"mutant '{self.name}': {self.file} has {text.count(self.old)} times\n{self.old}\n"
                "Accepted: once. Find the place of the same breakage in today's code."
            )
        return text.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    """All of them."""
    listed = tomllib.loads(LIST.read_text())["mutant"]
    return [Mutant(**{**one, "tests": tuple(one["tests"])}) for one in listed]


def copied(folder: Path) -> None:
    """A copy of what git has or would take, as it is in the tree now."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


def tried(mutant: Mutant, folder: Path, number: int) -> tuple[str, str]:
    """Whether its tests noticed (``caught``, ``missed`` or ``error``), and pytest's last words."""
    path = folder / mutant.file
    text = path.read_text()
    changed = time.time() + 2 * number  # Python tells stale byte code by seconds and size alone
    path.write_text(mutant.applied(text))
    os.utime(path, (changed, changed))
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"),
                *("-m", "not nightly" if mutant.slow else "not slow and not nightly"),
                *mutant.tests,
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "caught", f"no end in {_LIMIT_S} s"
    finally:
        path.write_text(text)
        os.utime(path, (changed + 1, changed + 1))
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    said = (lines or done.stdout.splitlines()[-1:] or [done.stderr[-200:].strip()])[0]
    found = "missed" if done.returncode == 0 else "error"
    return ("caught" if done.returncode == _TESTS_FAILED and lines else found), said[:150]


def results(chosen: Sequence[Mutant]) -> Iterator[tuple[Mutant, str, float, str]]:
    """Each mutant, what became of it, its seconds, and pytest's last words."""
    with tempfile.TemporaryDirectory(prefix="hvxtune-mutants-") as place:
        folder = Path(place)
        copied(folder)
        for number, mutant in enumerate(chosen):
            began = time.monotonic()
            found, said = tried(mutant, folder, number)
            yield mutant, found, time.monotonic() - began, said


def tell(text: str) -> None:
    """A line on standard output, now."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="only mutants with one of these in name or file")
    words = parser.parse_args().words
    every = mutants()
    for one in every:
        one.applied((ROOT / one.file).read_text())
    chosen = [m for m in every if not words or any(w in f"{m.name} {m.file}" for w in words)]
    missed = 0
    for mutant, found, seconds, said in results(chosen):
        missed += found != "caught"
        tell(f"{found:7} {seconds:6.1f} s  {mutant.file}: {mutant.name}\n{'':18}{said}")
    tell(f"{len(chosen) - missed} of {len(chosen)} caught")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
