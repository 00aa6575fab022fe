"""Code without a measurement: ``kernel compile``, also for targets that nothing here can run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli.measurement import CONFIG_FORMS, read_config
from service.cli.options import (
    DEFAULT_CONTRACT,
    AsJson,
    AssemblyFile,
    CacheName,
    ContractName,
    HeaderFile,
    KernelName,
    ObjectFile,
    ParamTexts,
    ScheduleFile,
    ServerAddress,
    TargetName,
    read_problem,
)
from service.cli.output import print_json, print_line
from service.cli.schedules import write_file
from service.cli.summary import print_config
from service.json_forms import problem_json
from service.labels import problem_label
from tuner.problem.default_target import DEFAULT_TARGET


def compile(  # noqa: A001 - the command's name
    kernel: KernelName,
    config: Annotated[
        str,
        typer.Option(
            "--config", metavar=CONFIG_FORMS, help="Which schedule, as for `kernel measure`."
        ),
    ] = "textbook",
    param: ParamTexts = None,
    target: TargetName = DEFAULT_TARGET,
    contract: ContractName = DEFAULT_CONTRACT,
    cache: CacheName = "warm",
    object_file: ObjectFile = None,
    header_file: HeaderFile = None,
    schedule_file: ScheduleFile = None,
    assembly_file: AssemblyFile = None,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Compile one schedule of KERNEL without running it.

    Works for every target, and says which measurers could run the code.
    """
    from tuner.jobs import one_config
    from tuner.measure import refusals

    problem = read_problem(kernel, param, target, contract)
    chosen = read_config(problem, cache, "--config", config, server)
    artifact = one_config.compiled(
        problem,
        chosen.config,
        generator=chosen.generator,
        with_assembly=assembly_file is not None,
    )
    wanted: dict[str, Path | None] = {
        "object": object_file,
        "header": header_file,
        "schedule": schedule_file,
        "assembly": assembly_file,
    }
    for kind, path in wanted.items():
        if path is not None:
            write_file(path, artifact.files, kind)
    refused = refusals(problem.target)
    if as_json:
        print_json(
            {
                **problem_json(problem),
                "config": chosen.config.as_dict(),
                "generator": chosen.generator,
                "symbol": artifact.symbol,
                "object_digest": artifact.digest,
                "object_bytes": len(artifact.object_bytes),
                "measurers": {n: None if e is None else str(e) for n, e in refused.items()},
            }
        )
        return
    print_line(problem_label(problem))
    print_config(chosen.config)
    print_line(
        f"symbol {artifact.symbol}, object {artifact.digest[:16]}, "
        f"{len(artifact.object_bytes):,} bytes, not run"
    )
    for kind, path in wanted.items():
        if path is not None:
            print_line(f"wrote {path} ({kind})")
    for name, error in refused.items():
        print_line(f"{name}: can measure it" if error is None else f"{name}: {error}")
