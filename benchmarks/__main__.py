"""Runs a benchmark by its name; without one, lists them."""

from __future__ import annotations

import sys

from benchmarks.harness import BENCHMARKS, purpose_of, run

if __name__ == "__main__":
    if sys.argv[1:] in ([], ["--help"]):
        width = max(map(len, BENCHMARKS))
        print("\n".join(f"{name:{width}}  {purpose_of(name)}" for name in BENCHMARKS))
        sys.exit(0)
    sys.exit(run(sys.argv[1], sys.argv[2:]))
