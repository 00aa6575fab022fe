"""One compilation, as done in a child of the compile server: request in, files out.

Static shapes and stride or extent promises are what make HVX code fast; an aligned host pointer
alone changes almost nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import halide as hl

from tuner.codegen.halide import LOWERED, lowered, schedule
from tuner.errors import ToolchainError
from tuner.kernels import attached_kernel, find_kernel
from tuner.kernels.kernel import HalidePipeline
from tuner.problem.buffers import BufferSpec, layout_of, promised_strides
from tuner.problem.contract import Contract
from tuner.problem.target import Target
from tuner.problem.workload import Workload
from tuner.records.candidate import Problem
from tuner.space import Config, Directive
from tuner.space.directives import read_directives

FILES = {
    "object": "object",
    "header": "c_header",
    "schedule": "schedule",
    "assembly": "assembly",
    "bitcode": "bitcode",
}
"""Kind of artifact file to Halide's name for it. The loop nest comes on top."""


LLVM_VARIABLE = "HL_LLVM_ARGS"
_HALIDE_ARCHS = (62, 65, 66, 68)
"""Archs that Halide 21 makes code for (its ``Target`` features ``hvx_v62`` to ``hvx_v68``)."""


def halide_target(target: Target) -> str:
    """Halide's name for ``target``: bare Hexagon with HVX, the runtime left to the caller.

    An arch Halide does not know gets code for the newest one before it, which every later one runs.
    """
    return f"hexagon-32-noos-hvx_{target.vector_bytes}-hvx_{halide_arch(target.arch)}-no_runtime"


def halide_arch(arch: str) -> str:
    """The arch that Halide makes code for where ``arch`` is wanted: ``v68`` for ``v73``."""
    return f"v{max(known for known in _HALIDE_ARCHS if known <= int(arch[1:]))}"


def compile_request(request: Mapping[str, Any]) -> None:
    """Compiles ``request`` into files in the current directory.

    ``request`` has ``workload``, ``contract``, ``target``, ``config``, ``symbol`` and the list
    ``kinds`` of files wanted, ``LOWERED`` among them or alone, and as ``attachment`` what
    :meth:`Kernel.attachment` gives; with ``autoscheduler`` the name of one of Halide's takes the
    place of the config. Raises
    ``hl.HalideError`` where Halide refuses the schedule.
    """
    target = Target(**request["target"])
    workload = Workload.from_dict(request["workload"])
    problem = Problem(workload, Contract(request["contract"]), target)
    attachment = request["attachment"]
    kernel = (
        find_kernel(workload.kernel)
        if attachment is None
        else attached_kernel(workload.kernel, attachment)
    )
    if kernel.source != workload.source:
        raise ToolchainError(
            f"the files of kernel {workload.kernel} changed while hvxtune ran",
            next_step="start what compiles again, so that all of it has the same code",
        )
    pipeline = kernel.pipeline(workload.params)
    buffers = kernel.buffers(workload.params)
    parameters = apply_contract(pipeline, buffers, problem.contract, target)
    whole = hl.Pipeline(list(pipeline.outputs))
    machine = hl.Target(halide_target(target))
    directives: list[Directive] = []
    if "autoscheduler" in request:
        _autoschedule(whole, machine, request["autoscheduler"], parameters, problem)
    else:
        directives = (
            _given(request["directives"], pipeline)
            if "directives" in request
            else kernel.schedule(problem, Config(request["config"]))
        )
        schedule.apply(directives, pipeline)
    switches = [os.environ.get(LLVM_VARIABLE, ""), *kernel.llvm_arguments(workload.params)]
    if attachment is not None:
        switches += schedule.needed_switches(directives, pipeline.stages)
    os.environ[LLVM_VARIABLE] = " ".join(
        dict.fromkeys(switches)
    ).strip()  # read when LLVM starts, once a child
    arguments = [hl.Argument(one) for one in (*pipeline.inputs, *pipeline.scalars)]
    if request["kinds"] != [LOWERED]:
        with stderr_to("loopnest"):
            whole.print_loop_nest()
    module = whole.compile_to_module(arguments, request["symbol"], machine)
    if LOWERED in request["kinds"]:
        named = lowered.digest_of_lowered(module, os.environ[LLVM_VARIABLE])
        Path(LOWERED).write_text(named)
    if request["kinds"] == [LOWERED]:
        return
    if "schedule" in request["kinds"]:
        results = hl.AutoSchedulerResults()
        results.target = machine
        results.schedule_source = schedule.as_cpp(directives, pipeline)
        module.set_auto_scheduler_results(results)
    module.compile(
        {
            getattr(hl.OutputFileType, halide_name): kind
            for kind, halide_name in FILES.items()
            if kind in request["kinds"]
        }
    )
    _guard_header(request["symbol"])


def _given(told: Sequence[Any], pipeline: HalidePipeline) -> list[Directive]:
    """The directives of a user, with stages by their names."""
    places = schedule.positions(pipeline)
    names: dict[Any, str] = {f"@{place}": name for name, place in places.items()}
    # Of an input prefetches and orders name the input itself, not the Func around it.
    inputs = {place: name.partition("$")[0].removesuffix("_im") for place, name in names.items()}
    given = []
    for one in read_directives(told):
        meant = inputs if one.op in schedule.OF_INPUTS else names
        args = tuple(meant.get(argument, argument) for argument in one.args)
        given.append(replace(one, func=names.get(one.func, one.func), args=args))
    return given


def load_autoscheduler(name: str) -> None:
    """Has Halide load its autoscheduler ``name``, if it is not empty."""
    if name:
        library = f"libautoschedule_{name.lower()}.so"
        hl.load_plugin(str(Path(hl.__file__).parent / "lib64" / library))


def _autoschedule(
    pipeline: hl.Pipeline,
    machine: hl.Target,
    name: str,
    parameters: Sequence[Any],
    problem: Problem,
) -> None:
    """Has Halide's autoscheduler ``name``, which is loaded, schedule ``pipeline``; an empty name
    leaves it as it is.

    Its estimates are the shapes of ``problem``.
    """
    if not name:
        return
    workload = problem.workload
    buffers = find_kernel(workload.kernel).buffers(workload.params)
    for parameter, spec in zip(parameters, buffers, strict=True):
        for dimension, extent in enumerate(reversed(spec.shape)):
            parameter.dim(dimension).set_estimate(0, extent)
    pipeline.apply_autoscheduler(machine, hl.AutoschedulerParams(name, {"parallelism": "1"}))


def _guard_header(symbol: str) -> None:
    """Halide names include guards after the file: alike for all, one header would hide the next."""
    header = Path("header")
    if header.exists():
        text = header.read_text()
        header.write_text(text.replace("HALIDE__header", f"HALIDE_HVXTUNE_{symbol}_H"))


@contextmanager
def stderr_to(name: str) -> Iterator[None]:
    """Sends what Halide's C++ prints on standard error to a file."""
    sys.stderr.flush()
    saved = os.dup(2)
    file = os.open(Path(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(file)


def apply_contract(
    pipeline: HalidePipeline, buffers: Sequence[BufferSpec], contract: Contract, target: Target
) -> list[hl.ImageParam | hl.OutputImageParam]:
    """Promises Halide what ``contract`` says of all ``buffers``; returns the parameters of
    ``pipeline`` that they belong to."""
    parameters = list(pipeline.inputs)
    shaped = [True] * len(parameters)
    for func in pipeline.outputs:
        own = func.output_buffers()
        parameters += own
        # Halide promises those of a tuple the region of its first one by itself.
        shaped += [number == 0 for number in range(len(own))]
    for parameter, spec, has_shape in zip(parameters, buffers, shaped, strict=True):
        _constrain(parameter, spec, contract, target, has_shape=has_shape)
    return parameters


def _constrain(
    parameter: hl.ImageParam | hl.OutputImageParam,
    spec: BufferSpec,
    contract: Contract,
    target: Target,
    *,
    has_shape: bool = True,
) -> None:
    """Constrains ``parameter`` (dimension 0 innermost) as ``contract`` says of ``spec``.

    The compiled function checks the promises when it is called and returns an error code if the
    caller breaks one. Without ``has_shape`` nothing is promised of where it begins and ends.
    """
    # Coordinates count from the first element unless the kernel says otherwise.
    mins = spec.mins[::-1] or (0,) * len(spec.shape)
    for dimension, least in enumerate(mins if has_shape else ()):
        parameter.dim(dimension).set_min(least)
    if contract is Contract.NONE:
        return
    alignment = target.vector_alignment_bytes
    lanes = alignment // spec.element_bytes
    if not spec.loose:
        parameter.set_host_alignment(alignment)
    if contract is Contract.STATIC:
        strides = layout_of(spec, contract, target).strides
        known = promised_strides(spec, contract)
        for dimension, (least, extent, stride) in enumerate(
            zip(mins, reversed(spec.shape), reversed(strides), strict=True)
        ):
            if has_shape:
                parameter.dim(dimension).set_bounds(least, extent)
            if dimension < known:
                parameter.dim(dimension).set_stride(stride)
        return
    if not spec.promised:
        return
    if contract in (Contract.STRIDE, Contract.EXTENT) and not spec.loose:
        for dimension in range(1, len(spec.shape)):
            outer: Any = parameter.dim(dimension)
            outer.set_stride((outer.stride() // lanes) * lanes)
    if contract is Contract.EXTENT and has_shape:
        inner: Any = parameter.dim(0)
        inner.set_bounds(0, (inner.extent() // lanes) * lanes)
