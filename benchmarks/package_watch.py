"""Times `hvxtune package watch`: from a save to the new figure, for a small C kernel.

    python -m benchmarks.package_watch [--saves 10]

The skeleton's kernel is edited as people edit: each save changes its code, so that it is built,
verified on all cases and timed anew. The first figure, which starts the compile server, is apart.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path

from tuner.packages.check import Saved, watched
from tuner.packages.skeletons import write_skeleton
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.target import find_target

LIMIT_S = 3.0
"""The promise: a figure after at most so long."""


def seconds_of(saves: int) -> tuple[float, list[float]]:
    """Wall seconds to the first figure, and from each save to its figure."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "blur"
        write_skeleton("c", folder)
        source = folder / "blur.c"
        text = source.read_text()
        figures = watched(folder, find_target(DEFAULT_TARGET), stop=threading.Event())
        begun = time.perf_counter()
        first, taken = next(figures), []
        first_s = time.perf_counter() - begun
        for number in range(saves):
            # Another place to begin, of a row or none: other code each time, and right.
            edited = text.replace("int y = 0", f"int y = -(height < {number})")
            begun = time.perf_counter()
            source.write_text(edited)
            saved = next(figures)
            taken.append(time.perf_counter() - begun)
            require_figure(saved)
        require_figure(first)
        figures.close()
        return first_s, taken


def require_figure(saved: Saved) -> None:
    """Ends the benchmark if an edit did not give right code."""
    if saved.checked is None or saved.checked.explanation is None:
        raise SystemExit(f"no figure: {saved.fault or saved.checked}")


def main() -> None:
    """Prints the times, and whether they keep the promise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--saves", type=int, default=10)
    first_s, taken = seconds_of(parser.parse_args().saves)
    print(f"first figure {first_s:.2f} s")
    middle, longest = statistics.median(taken), max(taken)
    kept = sum(one <= LIMIT_S for one in taken)
    print(f"save to figure: median {middle:.2f} s, longest {longest:.2f} s,", end=" ")
    print(f"{kept} of {len(taken)} within {LIMIT_S:g} s")


if __name__ == "__main__":
    main()
