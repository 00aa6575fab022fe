"""Halide, in the neighbourhood of the textbook schedule: a small space for few trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.codegen.halide.generator import HalideGenerator
from tuner.space import Config, Knob, Space

if TYPE_CHECKING:
    from tuner.kernels import Kernel
    from tuner.records.candidate import Problem


class NearTextbook(HalideGenerator):
    """Knobs reach from the default's choice to the textbook's, and one step beyond either.

    Every config is one of the kernel's own space, so Halide's generator compiles it as it is.
    """

    name = "halide-near"

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        space = kernel.space(problem)
        starts = (kernel.default_config(problem), kernel.textbook_config(problem))
        return replace(space, knobs=tuple(_narrowed(knob, starts) for knob in space.knobs))

    def fingerprint(self) -> Mapping[str, str]:
        return {**super().fingerprint(), "generator": self.name}


def _narrowed(knob: Knob, starts: tuple[Config, ...]) -> Knob:
    """``knob`` with the choices near those of ``starts``; a categorical knob keeps all."""
    places = [knob.choices.index(config[knob.name]) for config in starts if knob.name in config]
    if not knob.ordered or not places:
        return knob
    near = knob.choices[max(0, min(places) - 1) : max(places) + 2]
    return replace(knob, choices=near)
