"""Stored schedules: ``best`` hands out the best one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.cli.options import (
    DEFAULT_CONTRACT,
    AsJson,
    CacheName,
    ContractName,
    HeaderFile,
    KernelName,
    ObjectFile,
    ParamTexts,
    ScheduleFile,
    ServerAddress,
    TargetName,
    read_params,
    read_problem,
    read_server,
)
from service.cli.output import print_json, print_line
from service.cli.summary import (
    form_label,
    print_config,
    print_figures,
    problem_label,
    problem_options,
)
from service.json_forms import measurement_json, peak_cycles, problem_json
from tuner.errors import UserError
from tuner.problem.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from service.client.operations import FileKind
    from tuner.records.candidate import CacheState, Problem
    from tuner.records.trial import Schedule
    from tuner.store import TrialStore


def best(
    kernel: KernelName,
    param: ParamTexts = None,
    target: TargetName = DEFAULT_TARGET,
    contract: ContractName = DEFAULT_CONTRACT,
    cache: CacheName = "warm",
    object_file: ObjectFile = None,
    header_file: HeaderFile = None,
    schedule_file: ScheduleFile = None,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Give the best stored schedule of KERNEL."""
    places: dict[FileKind, Path | None] = {
        "object": object_file,
        "header": header_file,
        "schedule": schedule_file,
    }
    wanted = {kind: path for kind, path in places.items() if path is not None}
    address = read_server(server)
    if address is not None:
        from service.cli.remote import best_there

        params = read_params(param)
        form, files = best_there(address, kernel, params, target, contract, cache, list(wanted))
    else:
        problem = read_problem(kernel, param, target, contract)
        form, files = _best_here(problem, cache, with_files=bool(wanted))
    for kind, path in wanted.items():
        write_file(path, files, kind)
    if as_json:
        print_json(form)
        return
    print_line(form_label(form))
    print_figures(form)
    print_config(form["config"])
    print_line(f"symbol {form['symbol']}, object {form['object_digest'][:16]}")
    for kind, path in wanted.items():
        print_line(f"wrote {path} ({kind})")


def _best_here(
    problem: Problem, cache: CacheState, *, with_files: bool
) -> tuple[dict[str, Any], Mapping[str, bytes]]:
    from db import open_store

    with open_store() as store:
        schedule = stored_best(problem, store, cache)
        files = store.artifact(schedule.artifact_digest).files if with_files else {}
    return _schedule_json(schedule), files


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
        "display_name": schedule.kernel_label or schedule.problem.workload.kernel,
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
