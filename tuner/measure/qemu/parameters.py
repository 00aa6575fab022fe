"""What events cost: the part of the timing model that calibration can fit.

``v66.toml`` holds a value, bounds and a source for each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tuner.measure.qemu.events import LEADS, WINDOWS
from tuner.measure.qemu.model_file import BadEntryError, ModelFile


@dataclass(frozen=True)
class Parameters:
    """Costs in packet times of one hardware thread, unless said otherwise."""

    mispredict: float
    """A conditional jump that goes the rarer of its two ways."""
    loop_end: float
    """A packet that closes a hardware loop."""
    line_split: float
    """A vector access that touches two lines."""
    l1_miss: float
    """A scalar load that L1 does not have and L2 has."""
    l2_access: float
    """A line of L2 that a vector load or store touches, beyond the pipeline's latency."""
    vtcm_access: float
    """The same for VTCM."""
    gather: float
    """A vgather, beyond its issue."""
    scatter: float
    """A vscatter, beyond its issue."""
    ddr_latency: float
    """From asking DDR for a line to having it."""
    ddr_overlap: float
    """Loads that come at most so long after one that waits for DDR wait together with it."""
    ddr_bandwidth: float
    """Bytes a packet time between DDR and L2, both directions together, shared by all threads."""
    l2_bandwidth: float
    """Lines a packet time that all threads together get from L2."""
    parallel_loop: float
    """Beginning and ending a parallel loop."""
    task: float
    """Beginning one task of a parallel loop."""


@dataclass(frozen=True)
class ParameterSpec:
    """A parameter as its file gives it: ``low`` and ``high`` bound what calibration may find."""

    value: float
    low: float
    high: float
    source: str

    @property
    def assumed(self) -> bool:
        """Whether nobody has published the number."""
        return self.source.startswith("assumed")


ParameterSpecs = Mapping[str, ParameterSpec]

PARAMETER_NAMES = tuple(field.name for field in fields(Parameters))
"""All parameters, in the order of the fields."""

_MOST = {"ddr_latency": float(LEADS[-1]), "ddr_overlap": float(WINDOWS[-1])}
_LEAST = {"ddr_overlap": float(WINDOWS[0]), "ddr_bandwidth": 1 / 16, "l2_bandwidth": 1 / 16}
"""Beyond these the events that are counted do not tell the cost."""


def specs_of(file: ModelFile) -> ParameterSpecs:
    """The parameters in ``file``; ``ToolchainError`` names the line of a broken one."""
    try:
        table = file.table("parameters")
        for name in table:
            if name not in PARAMETER_NAMES:
                raise BadEntryError(
                    f"unknown parameter {name!r}; accepted: {', '.join(PARAMETER_NAMES)}",
                    rf"^\[parameters\.{re.escape(name)}\]",
                )
        return {name: _spec(name, table.get(name)) for name in PARAMETER_NAMES}
    except BadEntryError as error:
        raise file.bad_entry(error) from None


def parameters_of(specs: ParameterSpecs) -> Parameters:
    """The values alone."""
    return Parameters(**{name: specs[name].value for name in PARAMETER_NAMES})


def _spec(name: str, entry: Any) -> ParameterSpec:
    place = f"parameters.{name}"
    if entry is None:
        raise BadEntryError(f"parameter {name!r} is missing", r"\Z")
    least, most = _LEAST.get(name, 0.0), _MOST.get(name, 1e6)
    low = number(place, entry, "low", least, most)
    high = number(place, entry, "high", low, most)
    value = number(place, entry, "value", low, high)
    return ParameterSpec(value, low, high, source(place, entry, ("value", "low", "high", "source")))


def number(place: str, entry: Any, key: str, least: float, most: float) -> float:
    """The number under ``key`` of the table ``[place]``; ``BadEntryError`` if it is none."""
    value = entry.get(key) if isinstance(entry, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise BadEntryError(
            f"{key} = {value!r} in [{place}]; accepted: {least:g} to {most:g}", _line(place, key)
        )
    return float(value)


def source(place: str, entry: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """The source of a number, which must be told; no other keys than ``keys`` may be there."""
    for key in entry:
        if key not in keys:
            raise BadEntryError(f"unknown key {key!r} in [{place}]", _line(place, key))
    told = entry.get("source")
    if not isinstance(told, str) or not told.strip():
        raise BadEntryError(
            f"[{place}] tells no source; accepted: where the number is published, or 'assumed'",
            _line(place, "source"),
        )
    return told


def _line(place: str, key: str) -> str:
    """Finds ``key`` in the table ``[place]``, or at least its heading."""
    heading = rf"^\[{re.escape(place)}\]"
    return rf"{heading}(?:(?!\n\[)[\s\S])*?\n\s*{re.escape(key)}\s*=|{heading}"
