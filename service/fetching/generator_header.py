"""``NAME.schedule.h``: a schedule back in the C++ Generator that its algorithm came from.

Halide's ``.schedule.h`` has the calls alone. What the schedule relies on besides, the bounds,
strides and alignment that the contract promises, is in no such file: here a function sets them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from service.fetching.pins import Pin
from tuner.errors import UserError
from tuner.problem.buffers import BufferSpec, layout_of, promised_strides
from tuner.problem.contract import Contract, find_contract
from tuner.records.candidate import Problem

_TEXT = """\
/* {label}, for {target}: schedule {schedule} with contract '{contract}'.
 *
 * Made by `hvxtune fetch --schedule`. In schedule() of the Generator:
 *
 *     {name}_promises({arguments});
 *     {name}_schedule(get_pipeline(), get_target());
 */
#ifndef HVXTUNE_{name}_SCHEDULE_H
#define HVXTUNE_{name}_SCHEDULE_H

{halide}
/* Bounds, strides and alignment that callers promise; of Input<Buffer<>> and Output<Buffer<>>. */
template<{types}>
inline void {name}_promises({parameters}) {{
{promises}}}

inline void {name}_schedule(::Halide::Pipeline pipeline, const ::Halide::Target &target) {{
    apply_schedule_{symbol}(pipeline, target);
}}

#endif
"""


def generator_header(name: str, problem: Problem, pin: Pin, schedule: str) -> str:
    """The file called ``name``.schedule.h around Halide's own, for the workload and target of
    ``problem`` and the schedule in ``pin``."""
    from tuner.kernels import find_kernel

    workload = problem.workload
    contract = find_contract(pin.contract)
    made_for = Problem(workload, contract, problem.target)
    buffers = find_kernel(workload.kernel).buffers(workload.params)
    names = [re.sub(r"\W", "_", spec.name, flags=re.ASCII) for spec in buffers]
    lines = [
        line for n, spec in zip(names, buffers, strict=True) for line in _of(n, spec, made_for)
    ]
    return _TEXT.format(
        label=workload.label,
        target=problem.target.name,
        schedule=pin.schedule,
        contract=contract,
        name=name,
        arguments=", ".join(names),
        halide=schedule.strip() + "\n",
        types=", ".join(f"typename B{number}" for number in range(len(names))),
        parameters=", ".join(f"B{number} &{one}" for number, one in enumerate(names)),
        promises="".join(f"    {line};\n" for line in lines),
        symbol=pin.symbol,
    )


def _of(name: str, spec: BufferSpec, problem: Problem) -> Iterator[str]:
    """The promises of a buffer, as in :func:`tuner.codegen.halide.compilation.apply_contract`."""
    contract, target = problem.contract, problem.target
    mins = spec.mins[::-1] or (0,) * len(spec.shape)
    if contract is Contract.NONE:
        yield from (f"{name}.dim({d}).set_min({least})" for d, least in enumerate(mins))
        return
    lanes = target.vector_alignment_bytes // spec.element_bytes
    if not spec.loose:
        yield f"{name}.set_host_alignment({target.vector_alignment_bytes})"
    if contract is Contract.STATIC:
        strides = layout_of(spec, contract, target).strides[::-1]
        for d, (least, extent) in enumerate(zip(mins, spec.shape[::-1], strict=True)):
            yield f"{name}.dim({d}).set_bounds({least}, {extent})"
            if d < promised_strides(spec, contract):
                yield f"{name}.dim({d}).set_stride({strides[d]})"
        return
    yield from (f"{name}.dim({d}).set_min({least})" for d, least in enumerate(mins))
    if not spec.promised:
        return
    if contract in (Contract.STRIDE, Contract.EXTENT) and not spec.loose:
        for d in range(1, len(spec.shape)):
            stride = f"{name}.dim({d}).stride()"
            yield f"{name}.dim({d}).set_stride({stride} / {lanes} * {lanes})"
    if contract is Contract.EXTENT:
        yield f"{name}.dim(0).set_bounds(0, {name}.dim(0).extent() / {lanes} * {lanes})"


def digest_of_sources(paths: Sequence[Path]) -> str:
    """SHA-256 of the files' names and contents, in any order; empty for none. ``UserError`` for one
    that cannot be read."""
    key = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.name):
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UserError(
                f"--source {path}: {error.strerror}", accepted="a file that can be read"
            ) from None
        key.update(f"{path.name}\0{len(content)}\0".encode() + content)
    return key.hexdigest() if paths else ""
