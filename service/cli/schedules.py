"""Single schedules: ``best`` hands out the stored one, ``measure`` tries one config."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.options import (
    DEFAULT_CONTRACT,
    AsJson,
    CacheName,
    ContractName,
    KernelName,
    ParamTexts,
    TargetName,
    read_problem,
)
from service.cli.output import print_json, print_line
from service.cli.summary import (
    measurement_json,
    peak_cycles,
    print_config,
    problem_json,
    problem_label,
    problem_options,
    trial_json,
)
from tuner.errors import UserError
from tuner.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from tuner.candidate import Measurement, Problem
    from tuner.space import Config
    from tuner.trial import Schedule

FileOption = Path | None


def best(
    kernel: KernelName,
    param: ParamTexts = None,
    target: TargetName = DEFAULT_TARGET,
    contract: ContractName = DEFAULT_CONTRACT,
    cache: CacheName = "warm",
    object_file: Annotated[
        FileOption, typer.Option("--object", metavar="FILE", help="Write the object there.")
    ] = None,
    header_file: Annotated[
        FileOption, typer.Option("--header", metavar="FILE", help="Write the C header there.")
    ] = None,
    schedule_file: Annotated[
        FileOption,
        typer.Option("--schedule", metavar="FILE", help="Write Halide's .schedule.h there."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give the best stored schedule of KERNEL."""
    from db import open_store

    problem = read_problem(kernel, param, target, contract)
    wanted = {"object": object_file, "header": header_file, "schedule": schedule_file}
    with open_store() as store:
        schedule = store.best(problem, cache=cache)
        if schedule is None:
            raise UserError(
                f"no schedule is stored for {problem_label(problem)}, caches {cache}",
                next_step=f"run `hvxtune tune {problem_options(problem)} --cache {cache}`",
            )
        files: Mapping[str, bytes] = {}
        if any(wanted.values()):
            files = store.artifact(schedule.artifact_digest).files
    for kind, path in wanted.items():
        if path is not None:
            _write(path, files, kind)
    if as_json:
        print_json(_schedule_json(schedule))
        return
    print_line(problem_label(problem))
    _print_measurement(schedule.measurement, problem)
    print_config(schedule.config)
    print_line(f"symbol {schedule.symbol}, object {schedule.artifact_digest[:16]}")
    for kind, path in wanted.items():
        if path is not None:
            print_line(f"wrote {path} ({kind})")


def _schedule_json(schedule: Schedule) -> dict[str, Any]:
    return {
        **problem_json(schedule.problem),
        "config": schedule.config.as_dict(),
        **measurement_json(schedule.measurement, peak_cycles(schedule.problem)),
        "generator": schedule.generator,
        "symbol": schedule.symbol,
        "object_digest": schedule.artifact_digest,
        "provenance": dict(schedule.provenance),
    }


def _print_measurement(measurement: Measurement, problem: Problem) -> None:
    print_line(
        f"{measurement.cycles:,} cycles ({measurement.fidelity}, caches {measurement.cache}), "
        f"{measurement.core_cycles:,} without DDR, {measurement.packets:,} packets, "
        f"{peak_cycles(problem) / measurement.cycles:.1%} of the HVX peak, outputs verified"
    )


def _write(path: Path, files: Mapping[str, bytes], kind: str) -> None:
    """Writes a file whole or not at all: a build must never link half an object."""
    if kind not in files:
        raise UserError(f"the stored schedule has no {kind}", accepted=", ".join(files))
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(files[kind])
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(
            f"cannot write {path}: {error.strerror}", accepted="a file in a folder you can write to"
        ) from None


def measure(
    kernel: KernelName,
    config: Annotated[
        str,
        typer.Option(
            "--config",
            metavar="default|textbook|FILE",
            help="Which schedule: a name, or a JSON file of knobs (`best --json` writes one).",
        ),
    ],
    param: ParamTexts = None,
    target: TargetName = DEFAULT_TARGET,
    contract: ContractName = DEFAULT_CONTRACT,
    cache: CacheName = "warm",
    as_json: AsJson = False,
) -> None:
    """Compile, check and time one schedule of KERNEL.

    Nothing is stored.
    """
    from tuner.tuning import measure as measure_config

    problem = read_problem(kernel, param, target, contract)
    trial, _ = measure_config(problem, _read_config(problem, config), cache=cache)
    if as_json:
        print_json({**problem_json(problem), **trial_json(trial, peak_cycles(problem))})
    elif trial.measurement is not None:
        print_line(problem_label(problem))
        _print_measurement(trial.measurement, problem)
        for cause, cycles in trial.measurement.breakdown.items():
            print_line(f"  {cycles:>12,}  {cause}")
        print_config(trial.config)
    else:
        print_line(f"{trial.outcome}: {trial.error}")
    if trial.measurement is None:
        raise typer.Exit(1)


def _read_config(problem: Problem, text: str) -> Config:
    from tuner.kernels import find_kernel
    from tuner.tuning import named_config

    named = named_config(problem, text)
    if named is not None:
        return named
    accepted = "default, textbook, or a JSON file of knobs and values"
    try:
        values = json.loads(Path(text).read_bytes())
    except OSError as error:
        raise UserError(
            f"--config '{text}': {error.strerror}",
            accepted=accepted,
            next_step=f"see `hvxtune space {problem.workload.kernel}` for the knobs",
        ) from None
    except ValueError as error:
        raise UserError(f"--config '{text}' is not JSON: {error}", accepted=accepted) from None
    if isinstance(values, dict) and isinstance(values.get("config"), dict):
        values = values["config"]
    if not isinstance(values, dict):
        raise UserError(f"--config '{text}' holds no JSON object", accepted=accepted)
    return find_kernel(problem.workload.kernel).space(problem).config(values)
