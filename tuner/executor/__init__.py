"""Executors: who runs the candidates of a job. ``evaluation`` is what is done with each.

``HVXTUNE_EXECUTOR`` names the one that jobs of this process use. One file and one line in
``_REGISTRY`` add one here; a package adds one by an entry point of the group
``hvxtune.executors``. ``executor`` holds the contract.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tuner.executor.executor import Executor
from tuner.registry import Registry

if TYPE_CHECKING:
    from tuner.executor.evaluation import Evaluator

EXECUTOR_VARIABLE: Final = "HVXTUNE_EXECUTOR"
DEFAULT_EXECUTOR: Final = "threads"

_REGISTRY: Registry[Executor] = Registry(
    "executor",
    "hvxtune.executors",
    {"threads": "tuner.executor.executor:ThreadExecutor"},
    Executor,
    choose_with=f"set {EXECUTOR_VARIABLE}, or leave it out for threads of this process",
)


def executor_names() -> list[str]:
    """The names of all executors."""
    return _REGISTRY.names()


def find_executor(name: str | None = None) -> type[Executor]:
    """The class called ``name``, else the one that ``HVXTUNE_EXECUTOR`` names.

    Raises ``UserError`` with the accepted names if there is no such executor, ``ToolchainError`` if
    its package cannot be loaded.
    """
    return _REGISTRY.find(name or os.environ.get(EXECUTOR_VARIABLE) or DEFAULT_EXECUTOR)


def open_executor(evaluator: Evaluator, workers: int) -> Executor:
    """The executor of a job of this process; see :func:`find_executor`. The caller closes it."""
    return find_executor()(evaluator, workers)


__all__ = [
    "DEFAULT_EXECUTOR",
    "EXECUTOR_VARIABLE",
    "Executor",
    "executor_names",
    "find_executor",
    "open_executor",
]
