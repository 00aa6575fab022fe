"""Executors: who runs the candidates of a job. ``evaluation`` is what is done with each.

``HVXTUNE_EXECUTOR`` names the one that jobs of this process use. One file and one line in
``_REGISTRY`` add one here; a package adds one by an entry point of the group
``hvxtune.executors``. ``executor`` holds the contract.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tuner.executor.executor import EXECUTOR_VARIABLE, Executor
from tuner.registry import Registry

if TYPE_CHECKING:
    from tuner.executor.evaluation import Evaluator
    from tuner.machine.fitness import Examined

DEFAULT_EXECUTOR: Final = "threads"

_REGISTRY: Registry[Executor] = Registry(
    "executor",
    "hvxtune.executors",
    {
        "threads": "tuner.executor.executor:ThreadExecutor",
        "dask": "tuner.executor.cluster.executor:DaskExecutor",
    },
    Executor,
    choose_with=f"set {EXECUTOR_VARIABLE}, or leave it out for threads of this process",
)


def executor_names() -> list[str]:
    """The names of all executors."""
    return _REGISTRY.names()


def find_executor(name: str | None = None) -> type[Executor]:
    """The class called ``name``, else the one that ``HVXTUNE_EXECUTOR`` names: by its name, or by
    an address that begins with it, such as ``dask://lab:8786``.

    Raises ``UserError`` with the accepted names if there is no such executor, ``ToolchainError`` if
    its package cannot be loaded.
    """
    given = name or executor_address()
    return _REGISTRY.find(given.partition("://")[0])


def executor_address() -> str:
    """The executor of this process as its user named it."""
    return os.environ.get(EXECUTOR_VARIABLE) or DEFAULT_EXECUTOR


def examine_executor() -> Examined:
    """The jobs that this process can have run now, and what is lacking, here or on the workers."""
    return find_executor().examine()


def open_executor(evaluator: Evaluator, workers: int) -> Executor:
    """The executor of a job of this process; see :func:`find_executor`. The caller closes it."""
    return find_executor()(evaluator, workers)


__all__ = [
    "DEFAULT_EXECUTOR",
    "EXECUTOR_VARIABLE",
    "Executor",
    "examine_executor",
    "executor_address",
    "executor_names",
    "find_executor",
    "open_executor",
]
