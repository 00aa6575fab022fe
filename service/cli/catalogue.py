"""The kernels, their spaces and the targets: ``kernel list``, ``kernel space`` and ``targets``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.cli.options import (
    DEFAULT_CONTRACT,
    AsJson,
    ContractName,
    GeneratorName,
    KernelName,
    ParamTexts,
    TargetName,
    read_problem,
)
from service.cli.output import print_json, print_line, print_sentence, print_table
from service.cli.summary import print_loose
from service.json_forms import kernel_json, space_json
from service.labels import problem_label
from tuner.problem.default_target import DEFAULT_TARGET

if TYPE_CHECKING:
    from tuner.space import Config, Space

COUNT_LIMIT = 10_000
"""Configs are counted one by one; more than this is said as such."""


def kernels(as_json: AsJson = False) -> None:
    """List the kernels that can be tuned, with their parameters."""
    from tuner.kernels import find_kernel, kernel_names

    found = [find_kernel(name) for name in kernel_names()]
    if as_json:
        print_json({"kernels": [kernel_json(kernel) for kernel in found]})
        return
    print_table(
        ["kernel", "parameters and defaults", "what it computes"],
        [[k.name, " ".join(f"{p.name}={p.default}" for p in k.params), k.summary] for k in found],
    )


def targets(as_json: AsJson = False) -> None:
    """List the targets with contexts, memories, clock and DDR bandwidth, and their sources."""
    from tuner.problem.target import TARGET_ROWS, target_sources

    rows, sources = TARGET_ROWS, target_sources()
    if as_json:
        listed = [
            {
                **row.target.as_dict(),
                "chip": row.chip or None,
                "figures": {
                    key: {"value": figure.value, "source": sources[figure.source]}
                    for key, figure in row.figures.items()
                },
            }
            for row in rows.values()
        ]
        print_json({"targets": listed, "default": DEFAULT_TARGET})
        return
    print_table(
        ["target", "chip", "HVX contexts", "VTCM", "L2", "L1D", "clock", "DDR read / write"],
        [
            [
                name,
                row.chip,
                row.known("hvx_contexts"),
                *(f"{row.known(key)} KiB" for key in ("vtcm_kib", "l2_kib", "l1d_kib")),
                f"{row.known('clock_ghz')} GHz" if row.known("clock_ghz") else "",
                f"{row.known('ddr_read_gb_s')} / {row.known('ddr_write_gb_s')} GB/s"
                if row.known("ddr_read_gb_s")
                else "",
            ]
            for name, row in rows.items()
        ],
    )
    for name, row in rows.items():
        if row.known("note") and row.target.soc is None:
            print_line(f"{name}: {row.known('note')}")
    print_line(
        f"`hvxtune targets --json` names the source of each figure; without --target it is "
        f"{DEFAULT_TARGET}"
    )


def space(
    kernel: KernelName,
    param: ParamTexts = None,
    target: TargetName = DEFAULT_TARGET,
    contract: ContractName = DEFAULT_CONTRACT,
    generator: GeneratorName = None,
    as_json: AsJson = False,
) -> None:
    """Show the knobs and constraints a search over KERNEL would use."""
    from tuner.codegen import space_of, starts_of
    from tuner.kernels import find_kernel

    problem = read_problem(kernel, param, target, contract)
    if as_json:
        print_json(space_json(problem, generator))
        return
    found = find_kernel(problem.workload.kernel)  # an upload may be given by its name
    knobs, starts = space_of(generator, found, problem), starts_of(generator, found, problem)
    print_sentence(f"{problem_label(problem)}: {_size(knobs)}")
    print_loose(problem)
    _print_space(knobs, starts["default"], starts["textbook"])


def _size(space: Space) -> str:
    count = space.count(COUNT_LIMIT)
    return f"{'at least ' if count == COUNT_LIMIT else ''}{count:,} configs"


def _print_space(space: Space, default: Config, textbook: Config) -> None:
    print_line()
    print_table(
        ["knob", "choices", "default", "textbook", "what it sets", "only where"],
        [
            [
                knob.name,
                " ".join(str(choice) for choice in knob.choices),
                default.get(knob.name, "-"),
                textbook.get(knob.name, "-"),
                knob.doc,
                knob.when,
            ]
            for knob in space.knobs
        ],
    )
    if space.constraints:
        print_line()
        print_table(["constraint", "because"], [[c.text, c.reason] for c in space.constraints])
