"""The conformance suites of hvxtune, run over the entries of this package."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tuner.conformance.generators import GeneratorConformance
from tuner.conformance.kernels import KernelConformance
from tuner.conformance.samplers import SamplerConformance
from tuner.kernels import Kernel, find_kernel


class TestAbsdiff(KernelConformance):
    @pytest.fixture
    def kernel(self) -> Kernel:
        return find_kernel("absdiff_u8")


class TestAnnealing(SamplerConformance):
    name: ClassVar[str] = "annealing"


class TestNearTextbook(GeneratorConformance):
    name: ClassVar[str] = "halide-near"
