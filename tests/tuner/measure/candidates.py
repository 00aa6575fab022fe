"""Objects for measurers to run, made from C or assembly rather than by a code generator."""

from __future__ import annotations

from pathlib import Path

from tests.rig.scale_u8 import ScaleU8
from tuner.codegen.toolchain import NativePart, built
from tuner.identity import digest_of_bytes
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact, Problem

_SOURCES = Path(__file__).parent / "sources"


def scale_problem(contract: Contract = Contract.STATIC, h: int = 4, n: int = 500) -> Problem:
    """The problem that ``sources/scale_u8.c`` solves. Its rows do not fill whole vectors."""
    return ScaleU8().problem({"h": h, "n": n}, contract, find_target("hexagon-v66"))


def scale_artifact(
    problem: Problem, behaviour: str = "WELL", flags: tuple[str, ...] = ()
) -> Artifact:
    """``sources/scale_u8.c`` compiled to do ``behaviour`` (an ``enum behaviour`` of it).

    For a phone it must be compiled with the flag ``-fPIC``.
    """
    return artifact_of(
        _SOURCES / "scale_u8.c",
        problem.symbol,
        (f"-DENTRY={problem.symbol}", f"-DBEHAVIOUR={behaviour}", *flags),
    )


def artifact_of(source: Path, symbol: str, flags: tuple[str, ...] = ()) -> Artifact:
    """The object of one source file, as an artifact with entry ``symbol``."""
    part = NativePart(f"test-{source.stem}", "hexagon", (source,), arch="v66", flags=flags)
    data = built(part).read_bytes()
    return Artifact(digest_of_bytes(data), symbol, {"object": data})
