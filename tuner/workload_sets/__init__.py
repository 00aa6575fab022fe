"""Sets of workloads that belong together, such as all layers of a network, as data files.

A set is a TOML file: a ``summary``, and ``[[layers]]`` with a ``name``, a ``kernel`` and its
``params``. Layers of equal kernel and parameters are one workload, which counts as often as it
occurs. Sets in this folder go by their name, others by their path.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import UserError
from tuner.kernels import find_kernel
from tuner.problem.workload import Workload

_HERE = Path(__file__).parent
_SUFFIX = ".toml"
_MOST_LAYERS = 10_000


@dataclass(frozen=True)
class Member:
    """A workload of a set and the names of the layers that are it."""

    workload: Workload
    layers: tuple[str, ...]

    @property
    def occurrences(self) -> int:
        """How many layers are this workload."""
        return len(self.layers)


@dataclass(frozen=True)
class WorkloadSet:
    """Distinct workloads in the order in which they first occur."""

    name: str
    summary: str
    members: tuple[Member, ...]


def set_names() -> list[str]:
    """The sets in this folder."""
    return sorted(path.stem for path in _HERE.glob(f"*{_SUFFIX}"))


def find_set(name: str) -> WorkloadSet:
    """The set called ``name``, or in the file ``name`` if that ends in ``.toml``.

    ``UserError`` for an unknown set, or one with a layer that is not a workload.
    """
    if name.endswith(_SUFFIX):
        return _read(Path(name))
    known = set_names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        raise UserError(
            f"unknown set '{name}'",
            accepted=", ".join([*known, f"a file NAME{_SUFFIX}"]),
            next_step=f"did you mean {near[0]}?" if near else "docs/cli.md shows how to write one",
        )
    return _read(_HERE / f"{name}{_SUFFIX}")


def _read(path: Path) -> WorkloadSet:
    try:
        data = tomllib.loads(path.read_text())
        layers = data["layers"]
        if not 0 < len(layers) <= _MOST_LAYERS:
            raise ValueError(f"{len(layers)} layers")
        named = [(_name_of(layer), _workload_of(layer)) for layer in layers]
        summary = str(data.get("summary", ""))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is not a set of workloads: {type(error).__name__} {error}",
            accepted=f"[[layers]] with name, kernel and params, 1 to {_MOST_LAYERS} of them",
        ) from None
    return set_of(path.stem, summary, named)


def set_of(name: str, summary: str, layers: Iterable[tuple[str, Workload]]) -> WorkloadSet:
    """The set called ``name`` of ``layers``, each with its own name; equal workloads are one
    member."""
    workloads: dict[str, Workload] = {}
    names: dict[str, list[str]] = {}
    for layer, workload in layers:
        workloads.setdefault(workload.digest, workload)
        names.setdefault(workload.digest, []).append(layer)
    members = tuple(Member(workloads[digest], tuple(names[digest])) for digest in workloads)
    return WorkloadSet(name, summary, members)


def _name_of(layer: Mapping[str, Any]) -> str:
    return str(layer["name"])


def _workload_of(layer: Mapping[str, Any]) -> Workload:
    unknown = layer.keys() - {"name", "kernel", "params"}
    if unknown:
        raise ValueError(f"layer {_name_of(layer)} has {', '.join(sorted(unknown))}")
    try:
        return find_kernel(str(layer["kernel"])).workload(dict(layer.get("params", {})))
    except UserError as error:
        error.message = f"layer {_name_of(layer)}: {error.message}"
        raise
