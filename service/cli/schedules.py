"""Stored schedules: ``best`` hands out the best one."""

from __future__ import annotations

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
from service.cli.summary import print_config, print_measurement, problem_label, problem_options
from service.json_forms import measurement_json, peak_cycles, problem_json
from tuner.errors import UserError
from tuner.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from tuner.candidate import CacheState, Problem
    from tuner.store import TrialStore
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
        schedule = stored_best(problem, store, cache)
        files: Mapping[str, bytes] = {}
        if any(wanted.values()):
            files = store.artifact(schedule.artifact_digest).files
    for kind, path in wanted.items():
        if path is not None:
            write_file(path, files, kind)
    if as_json:
        print_json(_schedule_json(schedule))
        return
    print_line(problem_label(problem))
    print_measurement(schedule.measurement, problem)
    print_config(schedule.config)
    print_line(f"symbol {schedule.symbol}, object {schedule.artifact_digest[:16]}")
    for kind, path in wanted.items():
        if path is not None:
            print_line(f"wrote {path} ({kind})")


def stored_best(problem: Problem, store: TrialStore, cache: CacheState) -> Schedule:
    """The best schedule in ``store``; ``UserError`` says how to get one if there is none."""
    schedule = store.best(problem, cache=cache)
    if schedule is None:
        raise UserError(
            f"no schedule is stored for {problem_label(problem)}, caches {cache}",
            next_step=f"run `hvxtune tune {problem_options(problem)} --cache {cache}`",
        )
    return schedule


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


def write_file(path: Path, files: Mapping[str, bytes], kind: str) -> None:
    """Writes a file whole or not at all: a build must never link half an object."""
    if kind not in files:
        raise UserError(f"there is no {kind} of this schedule", accepted=", ".join(files))
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(files[kind])
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(
            f"cannot write {path}: {error.strerror}", accepted="a file in a folder you can write to"
        ) from None
