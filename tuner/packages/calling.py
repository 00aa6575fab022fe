"""The C around a package's function: called like Halide's, it calls the function.

It reads parameters from the buffers' extents, refuses calls with shapes that the package does not
have, and hands on what ``call`` says (:mod:`tuner.codegen.wrapping` checks the contract).
"""

from __future__ import annotations

from collections.abc import Iterator

from tuner.codegen.wrapping import element_type, wrapped
from tuner.packages.expressions import Value, arithmetic, condition
from tuner.packages.manifest import STRIDE, Manifest, extent_of
from tuner.packages.options import FunctionOptions
from tuner.problem.buffers import BufferSpec, ScalarSpec
from tuner.problem.contract import Contract
from tuner.records.candidate import Problem
from tuner.space import Config


def translation_unit(
    manifest: Manifest,
    options: FunctionOptions,
    problem: Problem,
    config: Config,
    buffers: tuple[BufferSpec, ...],
    scalars: tuple[ScalarSpec, ...],
) -> str:
    """The C of the function of the problem's symbol."""
    params = problem.workload.params
    is_open = problem.contract is not Contract.STATIC
    fixed = {
        name: value
        for name, value in params.items()
        if not (is_open and manifest.params[name].is_extent)
    }
    knobs: dict[str, Value] = {name: config.get(name, 0) for name in manifest.knobs}
    values: dict[str, Value] = {**fixed, **knobs}
    types = {spec.name: f"{element_type(spec)} *" for spec in buffers}
    types |= {scalar.name: f"{scalar.dtype}_t" for scalar in scalars}
    prototype = ", ".join(types.get(text, "int") for text in options.call)
    passed = ", ".join(_passed(text, types, values) for text in options.call)
    call = f"{options.function}({passed});"
    body = [
        *(_shape_checks(manifest, values) if is_open else ()),
        f"return {call}" if options.returns == "int" else call,
    ]
    function = f"extern {options.returns} {options.function}({prototype});"
    return wrapped(problem, buffers, {}, "\n".join(body), function, scalars)


def _passed(text: str, types: dict[str, str], values: dict[str, Value]) -> str:
    if text in types:
        return text
    stride = STRIDE.fullmatch(text)
    if stride is not None:
        return f"{stride[1]}_stride_{stride[2] or 1}"
    return arithmetic(text).in_c(values)


def _shape_checks(manifest: Manifest, values: dict[str, Value]) -> Iterator[str]:
    """Parameters out of extents, and the refusal of shapes that the package does not have."""
    for name, param in manifest.params.items():
        place = extent_of(manifest, name)
        if name in values or place is None:
            continue
        yield f"const int {name} = {place[0]}_extent_{place[1]};"
        yield _refuse(f"{name} < {param.minimum} || {name} > {param.maximum}")
        if param.multiple > 1:
            yield _refuse(f"{name} % {param.multiple}")
    for table in manifest.buffers:
        for at, extent in enumerate(reversed(table.shape)):
            yield _refuse(f"{table.name}_extent_{at} != {arithmetic(str(extent)).in_c(values)}")
    for constraint in manifest.constraints:
        read = condition(constraint.require)
        if read.names - values.keys():
            yield _refuse(f"!{read.in_c(values)}")


def _refuse(wrong: str) -> str:
    return f"if ({wrong}) return CONSTRAINT_VIOLATED;"
