"""The algorithm alone of a pipeline that was serialized with its schedule.

A schedule hangs on the Funcs and their definitions, and changes no value: what Halide keeps there
is put back to what a Func has that nobody scheduled, and so are estimates, traces, and promises of
outputs.
Of a Func's wrappers (``in``, ``clone_in``) no definition knows before Halide lowers it; those that
nothing calls go. What an author did to the definitions themselves (``rfactor``) is the algorithm
that was uploaded.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.codegen.halide.uploads.answers import MOST_DIMENSIONS
from tuner.codegen.halide.uploads.serialized import Node, fresh, read, tables_in, written


def unscheduled(data: bytes) -> tuple[Node, list[Node]]:
    """The pipeline in ``data`` without its schedule, and all tables in an order in which each
    precedes those in it.

    ``DamagedError`` as :func:`read`. Nothing else has been checked: where the schedule of a Func
    cannot be left out, since names in it are no names of Halide's, :mod:`contents` refuses it.
    """
    root, _ = read(data)
    for func in root["funcs"]:
        _reset_func(func)
        _reset_stage(func["init_def"], func["args"])
        for update in func["updates"]:
            rvars = [one["var"] for one in update["stage_schedule"]["rvars"]]
            _reset_stage(update, _loops(func, update, rvars), rvars)
    _number_own(root)
    _own_outputs(root)
    for parameter in root["parameters"]:
        _reset_buffer(parameter)
    _leave_out_uncalled(root)
    return root, list(tables_in(root))


def without_schedule(data: bytes) -> bytes:
    """The pipeline in ``data``, which was checked, as bytes of its algorithm alone."""
    root, _ = unscheduled(data)
    return written(root)


def is_parallel(data: bytes) -> bool:
    """Whether the schedule of the pipeline in ``data``, which was checked, has parallel loops."""
    root, _ = read(data)
    return any(one.kind == "Dim" and one["for_type"] == "parallel" for one in tables_in(root))


def _reset_func(func: Node) -> None:
    where = func.where
    func.fields |= dict.fromkeys(("trace_loads", "trace_stores", "trace_realizations"), False)
    func.fields["trace_tags"] = ()
    dims = tuple(fresh("StorageDim", where, var=name) for name in func["args"])
    func.fields["func_schedule"] = fresh("FuncSchedule", where, storage_dims=dims)


def _reset_buffer(parameter: Node) -> None:
    """Leaves out what is promised of a buffer: a contract promises it anew. That innermost elements
    lie next to each other goes without saying in Halide, and is kept in the same place."""
    where = parameter.where
    for dimension, constraint in enumerate(parameter["buffer_constraints"] or ()):
        one = fresh("IntImm", where, value=1, type=fresh("Type", where, bits=32))
        stride = {"stride": one} if dimension == 0 else {}
        constraint.fields |= fresh("BufferConstraint", where, **stride).fields
    alignment = max(parameter["type"]["bits"] // 8, 1)
    parameter.fields |= {"memory_type": "auto", "host_alignment": alignment}


def _own_outputs(root: Node) -> None:
    """Has outputs that expressions refer to, as schedules for some extents do, among the buffers of
    Funcs, where the others are."""
    outputs = {
        name
        for func in root["funcs"]
        if func["name"] in root["output_names"]
        for name in func["output_buffers_names"]
    }
    is_own = {one: one["is_buffer"] and one["name"] in outputs for one in _external(root)}
    root.fields["external_parameters"] = tuple(one for one, own in is_own.items() if not own)
    named = (_buffer(one) for one, own in is_own.items() if own)
    buffers = (*root["parameters"], *named)
    root.fields["parameters"] = tuple(sorted(buffers, key=lambda one: one["name"]))


def _external(root: Node) -> Sequence[Node]:
    found: Sequence[Node] = root["external_parameters"]
    return found


def _buffer(external: Node) -> Node:
    where = external.where
    rank = min(max(external["dimensions"], 0), MOST_DIMENSIONS + 1)
    return fresh(
        "Parameter",
        f"the buffer of {external['name'][:60]}",
        **{name: external[name] for name in ("is_buffer", "type", "dimensions", "name")},
        defined=True,
        host_alignment=1,
        buffer_constraints=tuple(fresh("BufferConstraint", where) for _ in range(rank)),
    )


def _loops(func: Node, update: Node, rvars: Sequence[str]) -> tuple[str, ...]:
    """The loops of an update, innermost first: its reductions, then what it stores along."""
    pure = [
        name
        for name, place in zip(func["args"], update["args"], strict=False)
        if place.kind == "Variable" and place["name"] == name
    ]
    return (*rvars, *pure)


def _reset_stage(definition: Node, loops: Sequence[str], rvars: Sequence[str] = ()) -> None:
    schedule, where = definition["stage_schedule"], definition.where
    kinds = {name: _kind_of(name, schedule["dims"]) for name in rvars}
    dims = tuple(
        fresh("Dim", where, var=name, dim_type=kinds.get(name, "pure_var"))
        for name in (*loops, "__outermost")
    )
    level = fresh("FuseLoopLevel", where, fuse_level=fresh("LoopLevel", where, locked=True))
    definition.fields["specializations"] = ()
    definition.fields["stage_schedule"] = fresh(
        "StageSchedule", where, rvars=schedule["rvars"], dims=dims, fuse_level=level
    )


def _kind_of(reduction: str, dims: Sequence[Node]) -> str:
    """Whether the iterations of a reduction depend on each other, as told by the loops that became
    of it: a split names them after it."""
    of_it = [one for one in dims if one["var"].partition(".")[0] == reduction]
    return str(of_it[0]["dim_type"]) if of_it else "impure_rvar"


def _leave_out_uncalled(root: Node) -> None:
    """Leaves out Funcs that no output's values need: wrappers, mostly."""
    funcs = {func["name"]: func for func in root["funcs"]}
    needed, waiting = set[str](), list(root["output_names"])
    while waiting:
        name = waiting.pop()
        if name in funcs and name not in needed:
            needed.add(name)
            called = (node["name"] for node in tables_in(funcs[name]) if node.kind == "Call")
            waiting += called
    if len(needed) < len(funcs):
        kept = tuple(one for one in root["funcs"] if one["name"] in needed)
        buffers = {name for one in kept for name in one["output_buffers_names"]}
        root.fields["funcs"] = kept
        root.fields["parameters"] = tuple(p for p in root["parameters"] if p["name"] in buffers)
        order = tuple(name for name in root["func_names_in_order"] if name in needed)
        root.fields["func_names_in_order"] = order
        numbers = {name: number for number, name in enumerate(order)}
        for node in tables_in(root):
            if node.kind == "Call" and node["name"] in numbers and node["func_index"] >= 0:
                node.fields["func_index"] = numbers[node["name"]]


def _number_own(root: Node) -> None:
    """Numbers the calls of Funcs to themselves that ``rfactor`` made: Halide writes no number."""
    numbers = {name: number for number, name in enumerate(root["func_names_in_order"])}
    for func in root["funcs"]:
        for node in tables_in(func):
            is_own = node.kind == "Call" and node["name"] == func["name"] in numbers
            if is_own and node["call_type"] == "Halide" and node["func_index"] < 0:
                node.fields["func_index"] = numbers[func["name"]]
