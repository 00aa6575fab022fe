"""The timing model of a target: class table, memory hierarchy and costs out of one file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tuner.measure.qemu.hierarchy import Hierarchy, HierarchySources, hierarchy_of
from tuner.measure.qemu.model_file import model_path, read_model_file
from tuner.measure.qemu.parameters import Parameters, ParameterSpecs, parameters_of, specs_of
from tuner.measure.qemu.rules import Rules, rules_of


@dataclass(frozen=True)
class TimingModel:
    """Everything that turns a run into cycles. ``digest`` is that of the file."""

    rules: Rules
    hierarchy: Hierarchy
    hierarchy_sources: HierarchySources
    specs: ParameterSpecs
    digest: str

    @property
    def parameters(self) -> Parameters:
        """What events cost."""
        return parameters_of(self.specs)


def find_model(arch: str) -> TimingModel:
    """The model for ``arch`` (``v66``); ``ToolchainError`` names a broken line of its file."""
    return load_model(model_path(arch))


@cache
def load_model(path: Path) -> TimingModel:
    """The model in the file at ``path``, checked; ``ToolchainError`` names the line."""
    file = read_model_file(path)
    hierarchy, sources = hierarchy_of(file)
    return TimingModel(rules_of(file), hierarchy, sources, specs_of(file), file.digest)
