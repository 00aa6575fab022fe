"""The header between a caller and a schedule: checks what the contract promises, in C and C++.

It declares an inline function under the build's own name that calls the schedule. In debug builds
(``NDEBUG`` not defined) it first checks what the contract promises of every buffer and says
loudly which promise is broken; in release builds it is a plain call. C++ finds the promises as
``constexpr`` values too, for ``static_assert``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from tuner.problem.buffers import BufferSpec, ScalarSpec, layout_of, loose_lines, promised_strides
from tuner.problem.contract import Contract
from tuner.records.candidate import Problem

_TYPE_CODES = {"i": 0, "u": 1, "f": 2}
"""Halide's ``halide_type_code_t`` by NumPy's kind."""

_TOP = """\
/* {label}, for {target}: a schedule with contract '{contract}'.
 *
 * Made by `hvxtune fetch`. {name}() calls it; in debug builds it checks the promises first.
 * A broken one ends the program: define HVXTUNE_BROKEN_PROMISE(text) to do something else.
{loose}{needs} */
#ifndef HVXTUNE_{name}_H
#define HVXTUNE_{name}_H

#include "{symbol}.h"

#include <stddef.h>
#include <stdint.h>

#if defined(__HEXAGON_ARCH__) && __HEXAGON_ARCH__ < {arch}
#error "{name}: made for {target}, which is newer than what this is compiled for"
#endif

#if !defined(HALIDE_HALIDERUNTIME_H) && defined(__has_include)
#if __has_include("HalideRuntime.h")
#include "HalideRuntime.h"
#endif
#endif
#if !defined(HALIDE_HALIDERUNTIME_H) && !defined(HVXTUNE_HALIDE_BUFFER)
/* As in HalideRuntime.h of Halide 21, for programs that do without it. */
#define HVXTUNE_HALIDE_BUFFER
struct halide_type_t {{
    uint8_t code, bits;
    uint16_t lanes;
}};
typedef struct halide_dimension_t {{
    int32_t min, extent, stride;
    uint32_t flags;
}} halide_dimension_t;
typedef struct halide_buffer_t {{
    uint64_t device;
    const void *device_interface;
    uint8_t *host;
    uint64_t flags;
    struct halide_type_t type;
    int32_t dimensions;
    halide_dimension_t *dim;
    void *padding;
}} halide_buffer_t;
#endif

#ifndef HVXTUNE_CHECK_PROMISES
#ifdef NDEBUG
#define HVXTUNE_CHECK_PROMISES 0
#else
#define HVXTUNE_CHECK_PROMISES 1
#endif
#endif

#ifndef HVXTUNE_BROKEN_PROMISE
#if __STDC_HOSTED__
#include <stdio.h>
#include <stdlib.h>
#define HVXTUNE_BROKEN_PROMISE(text) (fprintf(stderr, "%s\\n", text), abort())
#else
/* Of Halide's runtime, or of cmake/simulator; without it nothing can print. */
#ifdef __cplusplus
extern "C"
#endif
__attribute__((weak)) void halide_print(void *, const char *);
#define HVXTUNE_BROKEN_PROMISE(text) \\
    ((halide_print ? (halide_print(NULL, text), halide_print(NULL, "\\n")) : (void)0), \\
     __builtin_trap())
#endif
#endif

#define HVXTUNE_{name}_CONTRACT "{contract}"
#define HVXTUNE_{name}_CONTRACT_LEVEL {level} /* none 0, host 1, stride 2, extent 3, static 4 */
#define HVXTUNE_{name}_ALIGNMENT_BYTES {alignment}

#if defined(HVXTUNE_{name}_PROMISED_LEVEL) && \\
    HVXTUNE_{name}_PROMISED_LEVEL < HVXTUNE_{name}_CONTRACT_LEVEL
#error "{name}: what is promised does not imply contract '{contract}'"
#endif
"""

_PARALLEL = """\
 * Its loops are parallel: the program has halide_do_par_for (HalideRuntime.h), whose tasks may each
 * use an HVX context and call halide_malloc and halide_free at the same time.
"""

_FUNCTIONS = """
/* The first broken promise, or NULL. */
static inline const char *{name}_broken_promise({parameters}) {{
{checks}    return NULL;
}}

/* 0, or Halide's error code. */
static inline int {name}({parameters}) {{
    if (HVXTUNE_CHECK_PROMISES) {{
        const char *broken = {name}_broken_promise({arguments});
        if (broken != NULL)
            HVXTUNE_BROKEN_PROMISE(broken);
    }}
    return {symbol}({arguments});
}}

#endif
"""


def header_text(name: str, problem: Problem, contract: Contract, symbol: str) -> str:
    """The header called ``name``.h for ``symbol``, a schedule for the workload and target of
    ``problem`` made under ``contract``."""
    from tuner.kernels import find_kernel

    workload, target = problem.workload, problem.target
    kernel = find_kernel(workload.kernel)
    buffers = [spec._replace(name=_c_name(spec.name)) for spec in kernel.buffers(workload.params)]
    made_for = Problem(workload, contract, target)
    arguments = _arguments(buffers, kernel.scalars(workload.params))
    top = _TOP.format(
        name=name,
        symbol=symbol,
        label=workload.label,
        needs=_PARALLEL if kernel.work(workload.params).parallel else "",
        target=target.name,
        arch=target.arch[1:],
        contract=contract.value,
        level=contract.level,
        alignment=target.vector_alignment_bytes,
        loose="".join(f" * {line}\n" for line in loose_lines(buffers, contract)),
    )
    functions = _FUNCTIONS.format(
        name=name,
        symbol=symbol,
        parameters=", ".join(f"{kind}{argument}" for argument, kind in arguments.items()),
        arguments=", ".join(arguments),
        checks="".join(
            f'    if ({condition})\n        return "{name}: {text}";\n'
            for spec in buffers
            for condition, text in _checks(spec, made_for)
        ),
    )
    return top + _constants(name, made_for, buffers) + functions


def _c_name(name: str) -> str:
    """A buffer's name in C: Halide's may hold other characters, as in ``sums.0``."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def _arguments(buffers: Sequence[BufferSpec], scalars: Sequence[ScalarSpec]) -> dict[str, str]:
    """Arguments by name, in the order of the call, with the types that C declares them by."""
    inputs = [spec.name for spec in buffers if spec.role == "input"]
    outputs = [spec.name for spec in buffers if spec.role == "output"]
    values = {_c_name(scalar.name): f"{scalar.dtype}_t " for scalar in scalars}
    buffer = "struct halide_buffer_t *"
    return {**dict.fromkeys(inputs, buffer), **values, **dict.fromkeys(outputs, buffer)}


def _checks(spec: BufferSpec, problem: Problem) -> Iterator[tuple[str, str]]:
    """Conditions under which ``spec`` breaks the contract, with what to say."""
    name, dims = spec.name, len(spec.shape)
    dtype = np.dtype(spec.dtype)
    lanes = problem.target.vector_alignment_bytes // spec.element_bytes
    yield f"{name} == NULL || {name}->host == NULL", f"{name} has no memory on the host"
    type_of, code = f"{name}->type", _TYPE_CODES[dtype.kind]
    wrong = [f"code != {code}", f"bits != {dtype.itemsize * 8}", "lanes != 1"]
    wrong_type = " || ".join(f"{type_of}.{one}" for one in wrong)
    yield wrong_type, f"the elements of {name} are not {spec.dtype}"
    yield f"{name}->dimensions != {dims}", f"{name} does not have {dims} dimensions"
    for d, least in enumerate(spec.mins[::-1] or (0,) * dims):
        yield (
            f"{name}->dim[{d}].min != {least}",
            f"dimension {d} of {name} does not begin at {least}",
        )
    yield f"{name}->dim[0].stride != 1", f"the innermost elements of {name} are not dense"
    if problem.contract is Contract.NONE:
        return
    alignment = problem.target.vector_alignment_bytes
    if not spec.loose:
        misaligned = f"(uintptr_t){name}->host % {alignment} != 0"
        yield misaligned, f"{name} is not aligned to {alignment} bytes"
    if problem.contract is Contract.STATIC:
        yield from _static_checks(spec, problem)
    elif spec.promised and problem.contract is not Contract.HOST:
        for d in range(1, 1 if spec.loose else dims):
            stride = f"the stride of dimension {d} of {name}"
            yield (
                f"{name}->dim[{d}].stride % {lanes} != 0",
                f"{stride} is not a multiple of {lanes}",
            )
        if problem.contract is Contract.EXTENT:
            extent = f"the innermost extent of {name}"
            yield f"{name}->dim[0].extent % {lanes} != 0", f"{extent} is not a multiple of {lanes}"


def _static_checks(spec: BufferSpec, problem: Problem) -> Iterator[tuple[str, str]]:
    strides = layout_of(spec, problem.contract, problem.target).strides
    for d, (extent, stride) in enumerate(zip(spec.shape[::-1], strides[::-1], strict=True)):
        where = f"of dimension {d} of {spec.name} is not"
        yield f"{spec.name}->dim[{d}].extent != {extent}", f"the extent {where} {extent}"
        if 0 < d < promised_strides(spec, problem.contract):
            yield f"{spec.name}->dim[{d}].stride != {stride}", f"the stride {where} {stride}"


def _constants(name: str, problem: Problem, buffers: Sequence[BufferSpec]) -> str:
    """The promises as C++ values. Extents and strides are there where they are promised."""
    lines = [
        "",
        "#ifdef __cplusplus",
        "namespace hvxtune {",
        f"namespace {name}_promises {{",
        f"constexpr int contract_level = {problem.contract.level};",
        f"constexpr size_t alignment_bytes = {problem.target.vector_alignment_bytes};",
        f"constexpr bool shapes_are_static = {str(problem.contract is Contract.STATIC).lower()};",
    ]
    for spec in buffers:
        is_loose = str(bool(spec.loose)).lower()
        lines += [f"constexpr bool {spec.name}_is_loose = {is_loose};"]
    if problem.contract is Contract.STATIC:
        lines.append("/* Innermost first, as in halide_buffer_t; strides in elements. */")
        for spec in buffers:
            strides = layout_of(spec, problem.contract, problem.target).strides[::-1]
            strides = strides[: promised_strides(spec, problem.contract)]
            for what, numbers in (("extent", spec.shape[::-1]), ("stride", strides)):
                text = ", ".join(map(str, numbers))
                lines.append(f"constexpr int32_t {spec.name}_{what}[] = {{{text}}};")
    lines += [f"}} /* namespace {name}_promises */", "} /* namespace hvxtune */", "#endif"]
    return "\n".join(lines) + "\n"
