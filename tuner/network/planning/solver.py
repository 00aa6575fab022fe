"""The programs that planners give to OR-Tools' CP-SAT solver: what they share.

Costs are whole nanoseconds.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tuner.errors import InternalError, ToolchainError, UserError
from tuner.network.planning.tasks import Task
from tuner.network.planning.topology import Topology

NS = 1000
"""Nanoseconds in a microsecond."""


def require_ortools() -> None:
    """Raises ``ToolchainError`` with the command that installs the solver if it is missing."""
    if importlib.util.find_spec("ortools") is None:
        raise ToolchainError(
            "planning needs the Python package 'ortools', which is missing",
            next_step="run `pip install ortools` in the environment of hvxtune, "
            "or install hvxtune[plan]",
        )


def moves(
    model: Any,
    tasks: Sequence[Task],
    topology: Topology,
    on: Callable[[Task, str], Any],
) -> Iterator[tuple[str, str, int, Any]]:
    """Each transfer that takes time: source, target, nanoseconds, and a variable of ``model`` that
    says whether a plan has it. ``on`` says whether a task runs on a unit, as an expression.

    A tensor moves once to each unit that reads it, and not at all where no link is.
    """
    by_name = {task.name: task for task in tasks}
    made: dict[tuple[str, str, str], Any] = {}
    for reader in tasks:
        for need in reader.needs:
            for source in by_name[need].time_us:
                for target in reader.time_us.keys() - {source}:
                    both = on(by_name[need], source) + on(reader, target) - 1
                    took = topology.transfer_us(by_name[need].output_bytes, source, target)
                    if took is None:
                        model.add(both <= 0)
                    elif cost := round(took * NS):
                        key = need, source, target
                        if key not in made:
                            made[key] = model.new_bool_var(f"{need} to {target}")
                            yield source, target, cost, made[key]
                        model.add(made[key] >= both)


def solved(model: Any, seconds: float) -> Any | None:
    """The solver after ``model``; ``None`` if it found nothing in ``seconds``.

    Raises ``UserError`` if tensors cannot reach the units that read them.
    """
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    # All strategies in turn, on one core: a plan found in time is the same every time.
    solver.parameters.interleave_search = True
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        raise UserError(
            "no plan keeps all tensors on linked units",
            next_step="add the links that are missing to the topology",
        )
    if status == cp_model.UNKNOWN:
        return None
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise InternalError(f"the solver ended with {solver.status_name(status)}")
    return solver
