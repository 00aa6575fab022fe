"""What Halide makes of a kernel by itself: with no schedule, or one of its autoschedulers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tuner.codegen.halide.generator import HalideGenerator
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config, Knob, Space

NONE: Final = "none"
_AUTOSCHEDULER = Knob(
    "autoscheduler",
    # Anderson2021, the fourth that Halide brings, is for GPUs only.
    (NONE, "Mullapudi2016", "Li2018", "Adams2019"),
    "which of Halide's autoschedulers, if any",
)


class AutoscheduledGenerator(HalideGenerator):
    """For comparison: what users have who do not schedule. Its space is a single knob.

    None of the autoschedulers was made for HVX: some give wrong code, some abort. Both are outcomes
    as of any candidate.
    """

    name = "halide-auto"

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        return Space(kernel.name, (_AUTOSCHEDULER,))

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        return {
            "default": Config({"autoscheduler": NONE}),
            "textbook": Config({"autoscheduler": "Mullapudi2016"}),
        }

    def fingerprint(self) -> Mapping[str, str]:
        return {**super().fingerprint(), "generator": self.name}

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        problem, chosen = candidate.problem, candidate.config.text("autoscheduler")
        kinds = ["object", "header", *(["assembly"] if with_assembly else [])]
        with self.servers.one() as server:
            files = self._emitted(
                server,
                problem,
                candidate.config,
                kinds,
                autoscheduler="" if chosen == NONE else chosen,
            )
        return Artifact(digest_of_bytes(files["object"]), problem.symbol, files)
