"""One config tried at once: ``kernel measure``, and where its cycles go."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.options import (
    DEFAULT_CONTRACT,
    AsJson,
    CacheName,
    ContractName,
    DeviceTags,
    ExecutorAddress,
    KernelName,
    MeasurerName,
    ParamTexts,
    ServerAddress,
    TargetName,
    read_problem,
    use_executor,
)
from service.cli.output import print_json, print_line
from service.cli.statuses import Exit
from service.cli.summary import print_config, print_loose, print_measurement
from service.json_forms import problem_json, trial_json
from service.labels import problem_label
from tuner.errors import NotStoredError, UserError
from tuner.problem.default_target import DEFAULT_TARGET

if TYPE_CHECKING:
    from tuner.measure.explanation import Explanation
    from tuner.records.candidate import CacheState, Candidate, Problem
    from tuner.records.trial import Trial
    from tuner.space import Config

CONFIG_FORMS = "default|textbook|baseline|best|FILE"


@dataclass(frozen=True)
class Tried:
    """A config as it was asked for (files without their folder), its trial, and where the cycles
    went if that was asked and the candidate was good."""

    name: str
    trial: Trial
    explanation: Explanation | None


def measure(
    kernel: KernelName,
    config: Annotated[
        str,
        typer.Option(
            "--config",
            metavar=CONFIG_FORMS,
            help="Which schedule: a name, `best` for the stored one, or a JSON file of knobs.",
        ),
    ],
    param: ParamTexts = None,
    target: TargetName = DEFAULT_TARGET,
    contract: ContractName = DEFAULT_CONTRACT,
    cache: CacheName = "warm",
    measurer: MeasurerName = "qemu",
    on: DeviceTags = "",
    explain: Annotated[
        bool, typer.Option("--explain", help="Tell where the cycles go, packet by packet.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar=CONFIG_FORMS,
            help="Tell why it is faster or slower than this schedule.",
            show_default=False,
        ),
    ] = None,
    executor: ExecutorAddress = None,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Compile, check and time one schedule of KERNEL, on this machine or a device of its farm.

    Nothing is stored but the state of the device. A service is asked for the config that `best`
    means, and for no more.
    """
    use_executor(executor)
    problem = read_problem(kernel, param, target, contract)
    asked = {"--config": config} | ({} if against is None else {"--against": against})
    candidates = [
        read_config(problem, cache, option, text, server) for option, text in asked.items()
    ]
    explained = explain or against is not None
    with _device(measurer, on) as device:
        tried = [
            _try(Path(name).name, chosen, cache, device, explained=explained)
            for name, chosen in zip(asked.values(), candidates, strict=True)
        ]
    if as_json:
        print_json(_as_json(problem, tried, cache))
    else:
        _print(problem, tried)
    if any(one.trial.measurement is None for one in tried):
        raise typer.Exit(Exit.FAILED)


@contextmanager
def _device(measurer: str, on: str) -> Iterator[dict[str, Any]]:
    """Where to measure, as keywords of :func:`tuner.jobs.one_config.measure`."""
    from tuner.executor import DEFAULT_EXECUTOR
    from tuner.measure import FARM

    if measurer != FARM:
        yield {"measurer": measurer, "on": on}
        return
    from db import open_store

    with open_store() as store:  # the devices of this machine
        yield {"roster": store.roster(), "executor": DEFAULT_EXECUTOR, "measurer": FARM, "on": on}


def _try(
    name: str,
    candidate: Candidate,
    cache: CacheState,
    device: Mapping[str, Any],
    *,
    explained: bool,
) -> Tried:
    from tuner.jobs.one_config import explain as explain_artifact
    from tuner.jobs.one_config import measure as measure_config

    problem = candidate.problem
    trial, artifact = measure_config(
        problem, candidate.config, generator=candidate.generator, cache=cache, **device
    )
    explanation = None
    if explained and artifact is not None and trial.measurement is not None:
        explanation = explain_artifact(problem, artifact, cache=cache)
    return Tried(name, trial, explanation)


def _as_json(problem: Problem, tried: list[Tried], cache: CacheState) -> dict[str, Any]:
    from tuner.measure.explanation import compare
    from tuner.measure.roofline import roofline_of

    roofline = roofline_of(problem, cache)
    own, *others = [
        trial_json(one.trial, roofline)
        | ({} if one.explanation is None else {"explanation": one.explanation.as_dict()})
        for one in tried
    ]
    found = {**problem_json(problem), **own}
    explanations = [one.explanation for one in tried if one.explanation is not None]
    if others:
        found["against"] = others[0]
        both = len(explanations) == 2
        found["comparison"] = compare(*explanations).as_dict() if both else None
    return found


def _print(problem: Problem, tried: list[Tried]) -> None:
    print_line(problem_label(problem))
    print_loose(problem)
    for one in tried:
        name = f"{one.name}: " if len(tried) > 1 else ""
        if one.trial.measurement is None:
            print_line(f"{name}{one.trial.outcome}: {one.trial.error}")
            continue
        found = one.trial.measurement
        where = "" if found.fidelity == "model" else f"{found.device}: "
        print_measurement(found, problem, name + where)
        if one.explanation is None:
            for cause, cycles in found.breakdown.items():
                print_line(f"  {cycles:>12,}  {cause}")
        if len(tried) == 1:
            print_config(one.trial.config)
    _print_explained(problem, tried)


def _print_explained(problem: Problem, tried: list[Tried]) -> None:
    from service.cli.comparison import print_comparison, print_knobs
    from service.cli.explanation import print_explanation

    explained = [(one.name, one.explanation) for one in tried if one.explanation is not None]
    if len(explained) < len(tried):
        return
    print_line()
    if len(tried) == 1:
        print_explanation(explained[0][1], problem.symbol)
    else:
        own, other = ((one.name, one.trial.config) for one in tried)
        print_knobs(own, other)
        print_comparison(explained[0], explained[1], problem.symbol)


def read_config(
    problem: Problem, cache: CacheState, option: str, text: str, server: str | None = None
) -> Candidate:
    """The candidate that ``text``, the value of ``option``, names: see ``CONFIG_FORMS``. The best
    one is that of the service (:func:`read_server` of ``server``), or of this machine.

    Of a file, the generator is the one it names beside its config, as the JSON of ``best`` does, or
    else the one that makes code of such a config.
    """
    from tuner.codegen import generator_of
    from tuner.jobs.one_config import named_config
    from tuner.kernels import find_kernel

    if text == "best":  # checked: it may be from a time when the space was another
        return _checked(problem, *_best(server, problem, cache))
    kernel = find_kernel(problem.workload.kernel)
    named = named_config(problem, text)
    if named is not None:
        return _candidate(problem, named, generator_of(kernel, named))
    accepted = "default, textbook, baseline, best, or a JSON file of knobs and values"
    try:
        values = json.loads(Path(text).read_bytes())
    except OSError as error:
        raise UserError(
            f"{option} '{text}': {error.strerror}",
            accepted=accepted,
            next_step=f"see `hvxtune kernel space {problem.workload.kernel}` for the knobs",
        ) from None
    except ValueError as error:
        raise UserError(f"{option} '{text}' is not JSON: {error}", accepted=accepted) from None
    generator = ""
    if isinstance(values, dict) and isinstance(values.get("config"), dict):
        generator, values = str(values.get("generator") or ""), values["config"]
    if not isinstance(values, dict):
        raise UserError(f"{option} '{text}' holds no JSON object", accepted=accepted)
    return _checked(problem, values, generator or generator_of(kernel, values))


def _checked(problem: Problem, values: Mapping[str, Any], generator: str) -> Candidate:
    """``values`` as a candidate; ``UserError`` if they are not in the generator's space."""
    from tuner.codegen import space_of
    from tuner.kernels import find_kernel

    space = space_of(generator, find_kernel(problem.workload.kernel), problem)
    return _candidate(problem, space.config(values), generator)


def _candidate(problem: Problem, config: Config, generator: str) -> Candidate:
    from tuner.records.candidate import Candidate

    return Candidate(problem, config, generator)


def _best(server: str | None, problem: Problem, cache: CacheState) -> tuple[Mapping[str, Any], str]:
    """Config and generator of the best schedule that is stored under this very contract."""
    from service.cli.connecting import connected
    from service.fetching.sources import best_there
    from tuner.keeping.best import Lookup

    contract = problem.contract
    with connected(server) as client:
        form = best_there(client, Lookup(problem, (contract,), cache)).document
    if form["contract"] != contract.value:
        raise NotStoredError(
            f"the best schedule for contract {contract} was made under {form['contract']}",
            next_step=f"give --contract {form['contract']}",
        )
    return form["config"], form["generator"]
