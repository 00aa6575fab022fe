"""Directives onto Halide stages, and the same directives as C++ for a ``.schedule.h`` file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import halide as hl

from tuner.kernels.kernel import HalidePipeline
from tuner.space.directives import Directive, TailStrategy

_PLACEMENTS = {"compute_at", "store_at", "hoist_storage"}
"""Operations whose first argument is a stage and whose second is one of its loops."""

_MAKES_STAGE = "rfactor"
"""The operation whose result is a new stage, named by its last argument."""

_PREFETCH = "prefetch"
"""The operation whose arguments are an input, a loop and a distance in iterations."""

_IN_ORDER = "keep_in_order"
"""The operation whose arguments are an input and the coordinates of an element."""

OF_INPUTS = (_PREFETCH, _IN_ORDER)
"""Operations whose first argument is an input."""

_NEVER_PARTITION = "never_partition"
"""The operation that takes its loops as one list."""

_CPP_PARAMETER = ".value().as<::Halide::Internal::Call>()->param"
"""The input behind the Func that wraps it, which is all that a pipeline gives of it."""

_SPLIT_RESULTS = {"split": (0, (1, 2)), "fuse": (0, (2,))}
"""Operation to (position of an existing variable, positions of the variables it makes)."""


WITHOUT_ALIAS_ANALYSIS = "-enable-aa-sched-mi=false"
"""The switch with which LLVM's machine scheduler leaves loads behind stores of the same values. It
does not always (seeds 41, 55 and 94 of tests/rig/random_pipelines.py). For all code the switch
would cost textbook schedules of kernels 12 %: it is for what was found wrong."""

WITHOUT_PIPELINER = "-enable-pipeliner=false"
"""The switch with which LLVM does not overlap iterations of a loop: it moves loads before stores
under a predicate that an iteration before does to the same place (seed 24)."""


class UnknownStageError(Exception):
    """A directive names a stage that the pipeline does not have: a fault of the kernel."""


def reduction_variables(
    pipeline: HalidePipeline, directives: Sequence[Directive]
) -> frozenset[str]:
    """Names that mean reduction variables: those of the updates and what splits make of them.

    Halide has two variable types and wants the right one; directives only have names.
    """
    names = set(pipeline.reductions)
    for func in pipeline.stages.values():
        for update in range(func.num_update_definitions()):
            names |= {rvar.name() for rvar in func.rvars(update)}
    for directive in directives:
        if directive.update is not None and directive.op in _SPLIT_RESULTS:
            source, results = _SPLIT_RESULTS[directive.op]
            if directive.args[source] in names:
                names |= {str(directive.args[i]) for i in results}
    return frozenset(names)


def apply(directives: Sequence[Directive], pipeline: HalidePipeline) -> None:
    """Calls every directive on its stage, in order.

    Raises ``hl.HalideError`` where Halide refuses one.
    """
    reductions = reduction_variables(pipeline, directives)
    known = dict(pipeline.stages)
    images = {image.name(): image for image in pipeline.inputs}
    for directive in directives:
        stage = _stage(known, directive.func)
        target: Any = stage if directive.update is None else stage.update(directive.update)
        if directive.op == _PREFETCH:
            name, loop, distance = directive.args
            at = _variable(str(loop), reductions)
            # By keywords: positions bind to another overload, whose prefetch is dropped.
            target.prefetch(image=images[str(name)], at=at, offset=distance, **{"from": at})
            continue
        if directive.op == _IN_ORDER:
            name, *at = directive.args
            byte = hl.i32(hl.u8(images[str(name)][tuple(map(int, at))]))
            target.specialize(byte * byte % 4 == 2)
            continue
        arguments = list(_arguments(directive, known, reductions))
        if directive.op == _NEVER_PARTITION:
            arguments = [arguments]
        made = getattr(target, directive.op)(*arguments)
        if directive.op == _MAKES_STAGE:
            known[str(directive.args[-1])] = made


def needed_switches(
    directives: Sequence[Directive], stages: Mapping[str, hl.Func]
) -> tuple[str, ...]:
    """The switches without which LLVM makes wrong code of a schedule: without alias analysis if it
    has vectors under a guard, or, beside vectors, an update that has none; without the pipeliner if
    updates have vectors under a guard."""
    guarded: set[tuple[str, int | None, object]] = set()
    vectors: set[tuple[str, int | None]] = set()
    under_guard: set[tuple[str, int | None]] = set()
    for directive in directives:
        own, args = (directive.func, directive.update), directive.args
        if directive.op == "split" and (
            args[-1] is TailStrategy.GUARD_WITH_IF or (*own, args[0]) in guarded
        ):
            guarded.add((*own, args[2]))
        elif directive.op in ("vectorize", _MAKES_STAGE):
            vectors.add(own)
            if (*own, args[0]) in guarded:
                under_guard.add(own)
    updates = {
        (name, update)
        for name, func in stages.items()
        for update in range(func.num_update_definitions())
    }
    found = []
    if under_guard or (vectors and not updates <= vectors):
        found.append(WITHOUT_ALIAS_ANALYSIS)
    if under_guard & updates:
        found.append(WITHOUT_PIPELINER)
    return tuple(found)


def _stage(stages: Mapping[str, hl.Func], name: str) -> hl.Func:
    try:
        return stages[name]
    except KeyError:
        raise UnknownStageError(f"no stage '{name}' among {', '.join(stages)}") from None


def _wrapper(stages: Mapping[str, hl.Func], image: str) -> str:
    """The name of the Func that wraps an input. Halide numbers it in a process that has used it;
    a kernel's stages do not have it."""
    plain = f"{image}_im"
    return next((name for name in stages if name.partition("$")[0] == plain), plain)


def _arguments(
    directive: Directive, stages: Mapping[str, hl.Func], reductions: frozenset[str]
) -> Iterator[Any]:
    args = directive.args[:-1] if directive.op == _MAKES_STAGE else directive.args
    for position, value in enumerate(args):
        if directive.op in _PLACEMENTS and position == 0:
            yield _stage(stages, str(value))
        elif directive.op == "store_in":
            yield getattr(hl.MemoryType, str(value))
        elif isinstance(value, TailStrategy):
            yield getattr(hl.TailStrategy, value.value)
        elif isinstance(value, str):
            yield _variable(value, reductions)
        else:
            yield value


def _variable(name: str, reductions: frozenset[str]) -> hl.Var | hl.RVar:
    return hl.RVar(name) if name in reductions else hl.Var(name)


def as_cpp(directives: Sequence[Directive], pipeline: HalidePipeline) -> str:
    """The body of ``apply_schedule_NAME`` in Halide's ``.schedule.h`` format."""
    stages, places = pipeline.stages, positions(pipeline)
    reductions = reduction_variables(pipeline, directives)
    used_stages: dict[str, None] = {}
    variables: dict[str, None] = {}
    calls = []
    for directive in directives:
        used_stages[directive.func] = None
        rendered = []
        if directive.op == _PREFETCH:
            image, loop, distance = directive.args
            wrapper = _wrapper(stages, str(image))
            used_stages[wrapper] = variables[str(loop)] = None
            at = _cpp_name(str(loop))
            calls.append(
                f"{_cpp_stage(directive.func, stages)}.prefetch("
                f"{_cpp_stage(wrapper, stages)}{_CPP_PARAMETER}, {at}, {at}, {distance});"
            )
            continue
        if directive.op == _IN_ORDER:
            image, *place = directive.args
            wrapper = _wrapper(stages, str(image))
            used_stages[wrapper] = None
            element = f"{_cpp_stage(wrapper, stages)}({', '.join(map(str, place))})"
            byte = f"::Halide::cast<int>(::Halide::cast<uint8_t>({element}))"
            calls.append(
                f"{_cpp_stage(directive.func, stages)}.specialize({byte} * {byte} % 4 == 2);"
            )
            continue
        made = str(directive.args[-1]) if directive.op == _MAKES_STAGE else ""
        for position, value in enumerate(directive.args[:-1] if made else directive.args):
            if directive.op in _PLACEMENTS and position == 0:
                used_stages[str(value)] = None
                rendered.append(_cpp_stage(str(value), stages))
            elif directive.op == "store_in":
                rendered.append(f"MemoryType::{value}")
            elif isinstance(value, TailStrategy):
                rendered.append(f"TailStrategy::{value.value}")
            elif isinstance(value, str):
                variables[value] = None
                rendered.append(_cpp_name(value))
            else:
                rendered.append(str(value))
        update = "" if directive.update is None else f".update({directive.update})"
        stage = _cpp_stage(directive.func, stages)
        result = f"Func {made} = " if made else ""
        calls.append(f"{result}{stage}{update}.{directive.op}({', '.join(rendered)});")
    lines = [
        f"Func {_cpp_stage(name, stages)} = pipeline.get_func({places[name]});"
        for name in used_stages
        if name in stages
    ]
    lines += [
        f'{"RVar" if name in reductions else "Var"} {_cpp_name(name)}("{name}");'
        for name in variables
    ]
    return "".join(f"    {line}\n" for line in lines + calls)


def _cpp_stage(name: str, stages: Mapping[str, hl.Func]) -> str:
    """A C++ name for a stage, which may be called as Halide pleased, such as ``f$1``."""
    plain = re.sub(r"\W", "_", name)
    return plain if plain == name or plain not in stages else f"{plain}_"


def _cpp_name(variable: str) -> str:
    return "v_" + re.sub(r"\W", "_", variable)


def positions(pipeline: HalidePipeline) -> dict[str, int]:
    """Index of every stage for ``get_func``; Halide has no call for the count."""
    if pipeline.order:
        return {name: number for number, name in enumerate(pipeline.order)}
    whole, found = hl.Pipeline(list(pipeline.outputs)), dict[str, int]()
    with suppress(hl.HalideError):
        while True:
            found[whole.get_func(len(found)).name()] = len(found)
    return {name: found[func.name()] for name, func in pipeline.stages.items()}
