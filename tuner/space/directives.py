"""Schedule directives: what a config does to a pipeline, as plain data.

Kernels produce directives without importing any compiler, by :class:`Steps` the way Halide
schedules are written: a chain of calls per stage. The Halide code generator applies them and also
prints them as the C++ of a ``.schedule.h`` file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tuner.errors import UserError
from tuner.space.config import Config


class TailStrategy(StrEnum):
    """How a loop ends where a split does not divide the extent; names as in Halide."""

    AUTO = "Auto"
    ROUND_UP = "RoundUp"
    GUARD_WITH_IF = "GuardWithIf"
    SHIFT_INWARDS = "ShiftInwards"
    PREDICATE = "Predicate"
    PREDICATE_LOADS = "PredicateLoads"
    PREDICATE_STORES = "PredicateStores"
    SHIFT_INWARDS_AND_BLEND = "ShiftInwardsAndBlend"
    ROUND_UP_AND_BLEND = "RoundUpAndBlend"


def tail(config: Config, name: str) -> TailStrategy:
    """The strategy that knob ``name`` chose (``shift_inwards``, ...); rounding up where there was
    nothing to choose."""
    return TailStrategy[config.text(name).upper()] if name in config else TailStrategy.ROUND_UP


@dataclass(frozen=True)
class Directive:
    """One scheduling call on one stage of a pipeline.

    ``func`` is the stage's name in the kernel's pipeline, ``update`` the index of the update
    definition or ``None`` for the pure one. ``op`` is Halide's method name and ``args`` its
    arguments: variable and stage names as strings, sizes as integers, tail strategies.
    """

    func: str
    op: str
    args: tuple[str | int | TailStrategy, ...] = ()
    update: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        args = [{"tail": a.value} if isinstance(a, TailStrategy) else a for a in self.args]
        return {"func": self.func, "op": self.op, "args": args, "update": self.update}


class Steps:
    """Collects the directives of one schedule, in the order in which they are to be applied."""

    def __init__(self) -> None:
        self.directives: list[Directive] = []

    def stage(self, name: str, update: int | None = None) -> Stage:
        """The stage called ``name`` (or its update definition ``update``), to chain calls on."""
        return Stage(self.directives, name, update)


class Stage:
    """Halide's scheduling calls on one stage, each of which returns the stage.

    Variables, loops and stages are given by name; ``tail`` is for factors that do not divide the
    extent.
    """

    def __init__(self, directives: list[Directive], name: str, update: int | None) -> None:
        self._directives = directives
        self._name = name
        self._update = update

    def _add(self, op: str, *args: str | int | TailStrategy | None) -> Stage:
        given = tuple(arg for arg in args if arg is not None)
        self._directives.append(Directive(self._name, op, given, self._update))
        return self

    def compute_root(self) -> Stage:
        """Computes the whole stage before anything that uses it."""
        return self._add("compute_root")

    def compute_at(self, consumer: str, loop: str) -> Stage:
        """Computes what one iteration of ``consumer``'s loop ``loop`` needs, inside it."""
        return self._add("compute_at", consumer, loop)

    def store_root(self) -> Stage:
        """Keeps the values over the whole pipeline, so that they slide along the loops."""
        return self._add("store_root")

    def store_at(self, consumer: str, loop: str) -> Stage:
        """Keeps the values over one iteration of ``consumer``'s loop ``loop``, so that they slide
        along the loops inside."""
        return self._add("store_at", consumer, loop)

    def parallel(self, var: str) -> Stage:
        """Makes a task of each iteration of ``var``, for ``halide_do_par_for``."""
        return self._add("parallel", var)

    def prefetch(self, image: str, var: str, distance: int) -> Stage:
        """Fetches in each iteration of ``var`` the part of the input ``image`` that the one
        ``distance`` further reads."""
        return self._add("prefetch", image, var, distance)

    def store_in(self, memory: str) -> Stage:
        """Keeps the values in a memory, one of Halide's ``MemoryType`` names."""
        return self._add("store_in", memory)

    def keep_in_order(self, image: str, *at: int) -> Stage:
        """Keeps the values in memory as they are indexed. It precedes all other calls on a stage.

        Halide keeps widened values deinterleaved where it can, and has loads rewritten before it
        has seen whether it can (``EliminateInterleaves`` in Halide 21's HexagonOptimize.cpp). A
        scalar store that comes first decides it: that of a specialization which is never taken,
        because no square is 2 modulo 4. LLVM knows, and removes it. What is squared is the element
        of the input ``image`` at the coordinates ``at``: of anything else Halide knows too much.
        """
        return self._add("keep_in_order", image, *at)

    def rfactor(self, reduction: str, var: str, partial: str) -> Stage:
        """Makes the stage ``partial``, which reduces along all but ``reduction``; this update
        reduces that. ``var`` is the dimension that ``reduction`` becomes there."""
        return self._add("rfactor", reduction, var, partial)

    def split(
        self, var: str, outer: str, inner: str, factor: int, tail: TailStrategy | None = None
    ) -> Stage:
        """Makes two loops of ``var``, the inner one of ``factor`` iterations."""
        return self._add("split", var, outer, inner, factor, tail)

    def fuse(self, inner: str, outer: str, fused: str) -> Stage:
        """Makes one loop of two."""
        return self._add("fuse", inner, outer, fused)

    def reorder(self, *innermost_first: str) -> Stage:
        """Nests the loops."""
        return self._add("reorder", *innermost_first)

    def vectorize(
        self, var: str, lanes: int | None = None, tail: TailStrategy | None = None
    ) -> Stage:
        """Computes ``lanes`` iterations of ``var`` (all, if not given) as one vector."""
        return self._add("vectorize", var, lanes, tail)

    def unroll(
        self, var: str, factor: int | None = None, tail: TailStrategy | None = None
    ) -> Stage:
        """Writes out ``factor`` iterations of ``var`` (all, if not given)."""
        return self._add("unroll", var, factor, tail)

    def never_partition(self, var: str) -> Stage:
        """Writes the loop of ``var`` out once: not apart for where it meets edges."""
        return self._add("never_partition", var)

    def atomic(self) -> Stage:
        """Allows a reduction variable to be vectorized, as a horizontal reduction."""
        return self._add("atomic")

    def reorder_storage(self, *innermost_first: str) -> Stage:
        """Lays the dimensions out in memory."""
        return self._add("reorder_storage", *innermost_first)

    def align_storage(self, var: str, elements: int) -> Stage:
        """Pads the extent of ``var`` in memory to a multiple of ``elements``."""
        return self._add("align_storage", var, elements)

    def bound_extent(self, var: str, elements: int) -> Stage:
        """Promises that exactly ``elements`` are computed along ``var``, wherever they begin."""
        return self._add("bound_extent", var, elements)

    def align_bounds(self, var: str, elements: int) -> Stage:
        """Widens what is computed along ``var`` to multiples of ``elements`` at both ends.

        Not for stages of 16-bit values: Halide 21 makes wrong code of those.
        """
        return self._add("align_bounds", var, elements)


def _operations() -> frozenset[str]:
    return frozenset(name for name in vars(Stage) if not name.startswith("_"))


_KEYS = {"func", "op", "args", "update"}
_MOST_DIRECTIVES = 1000


def read_directives(given: Sequence[Any]) -> tuple[Directive, ...]:
    """The directives of a JSON list, each of which is as :meth:`Directive.as_dict` makes them; an
    argument ``{"tail": NAME}`` is a strategy. ``UserError`` for anything else."""
    if not given or len(given) > _MOST_DIRECTIVES:
        raise UserError(
            f"a schedule of {len(given)} directives", accepted=f"1 to {_MOST_DIRECTIVES}"
        )
    return tuple(_directive(number, one) for number, one in enumerate(given))


def _directive(number: int, given: Any) -> Directive:
    if isinstance(given, Mapping) and given.keys() <= _KEYS and {"func", "op"} <= given.keys():
        func, op, update = given["func"], given["op"], given.get("update")
        args = given.get("args", [])
        if op not in _operations():
            raise UserError(
                f"directive {number} of the schedule: '{str(op)[:40]}'",
                accepted=", ".join(sorted(_operations())),
            )
        if (
            isinstance(func, str)
            and isinstance(args, list)
            and (update is None or type(update) is int)
        ):
            return Directive(func, op, tuple(_argument(number, one) for one in args), update)
    raise UserError(
        f"directive {number} of the schedule: {str(given)[:60]}",
        accepted='{"func": STAGE, "op": CALL, "args": [...]}, with "update": N for an update',
    )


def _argument(number: int, given: Any) -> str | int | TailStrategy:
    if type(given) in (str, int):
        return given  # type: ignore[no-any-return]
    if (
        isinstance(given, Mapping)
        and list(given) == ["tail"]
        and given["tail"] in list(TailStrategy)
    ):
        return TailStrategy(given["tail"])
    raise UserError(
        f"directive {number} of the schedule: argument {str(given)[:40]}",
        accepted=f'text, whole numbers, {{"tail": {", ".join(TailStrategy)}}}',
    )
