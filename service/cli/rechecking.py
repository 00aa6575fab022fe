"""``schedule recheck``: every stored best measured again with the present tools."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.options import AsJson
from service.cli.output import print_json, print_sentence, print_table
from service.cli.statuses import Exit
from tuner.errors import UserError

if TYPE_CHECKING:
    from db import SqlStore
    from tuner.keeping.best import Lookup
    from tuner.records.trial import Schedule

FOLDER = "recheck"
"""In the state directory: a file of rows for each set of tools, so that a recheck can go on."""


def recheck(
    kernel: Annotated[
        str | None,
        typer.Option("--kernel", metavar="KERNEL", help="Only this kernel's.", show_default=False),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Measure also what was measured with these tools.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure every stored best again with the present tools; tell gains and losses.

    Nothing in the database changes. After Ctrl-C, the same command goes on. The status is 1 if a
    schedule no longer compiles or computes something else.
    """
    from db import open_store

    with open_store() as store:
        lookups = list(_lookups(store, kernel))
        rows = _measured(store, lookups, again=again)
    counts = {word: sum(row["verdict"] == word for row in rows) for word in _VERDICTS}
    if as_json:
        print_json({"counts": counts, "schedules": rows})
    elif not rows:
        print_sentence("no schedule is stored; `hvxtune tune KERNEL` finds some")
    else:
        _print(rows, counts)
    if counts["failed"]:
        raise typer.Exit(Exit.FAILED)


_VERDICTS = ("gain", "loss", "same", "failed", "not here")


def _lookups(store: SqlStore, kernel: str | None) -> Iterator[Lookup]:
    """One for every problem and state of the caches that has a stored schedule."""
    from db.schedules.queries import bests
    from tuner.jobs.tuning import find_problem
    from tuner.keeping.best import Lookup
    from tuner.problem.contract import find_contract

    seen = set()
    for best in bests(store):
        key = (best.kernel, *sorted(best.params.items()), best.contract, best.target, best.cache)
        if key in seen or (kernel is not None and best.kernel != kernel):
            continue
        seen.add(key)
        try:
            problem = find_problem(best.kernel, best.params, best.target, best.contract)
        except UserError as error:
            sys.stderr.write(f"left out: {error}\n")
            continue
        contracts = (find_contract(best.contract),)
        yield Lookup(problem, contracts, "cold" if best.cache == "cold" else "warm")


def _measured(store: SqlStore, lookups: list[Lookup], *, again: bool) -> list[dict[str, Any]]:
    """A row for each stored best, kept as it is measured."""
    file = _file()
    known = {} if again else _kept(file)
    rows = []
    with file.open("w" if again else "a") as kept:
        for number, lookup in enumerate(lookups, start=1):
            schedule = store.best(lookup)
            if schedule is None:  # quarantined or replaced meanwhile
                continue
            row = known.get(schedule.public_id)
            if row is None:
                row = _row(schedule, lookup)
                kept.write(json.dumps(row) + "\n")
                kept.flush()
                sys.stderr.write(f"{number}/{len(lookups)} {row['kernel']}: {row['verdict']}\n")
                sys.stderr.flush()
            rows.append(row)
    return rows


def _file() -> Path:
    """Where the rows of the present tools are kept."""
    from tuner.identity import digest_of
    from tuner.jobs.tuning import installed_toolchains
    from tuner.paths import writable

    tools = digest_of({str(n): one for n, one in enumerate(installed_toolchains())})
    return writable(FOLDER) / f"{tools[:16]}.jsonl"


def _kept(file: Path) -> dict[str, dict[str, Any]]:
    """The rows of ``file`` by schedule; a line cut off by a kill is none."""
    found = {}
    with contextlib.suppress(FileNotFoundError):
        for line in file.read_text().splitlines():
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                found[str(row["schedule"])] = row
    return found


def _row(schedule: Schedule, lookup: Lookup) -> dict[str, Any]:
    from service.json_forms import problem_json
    from tuner.jobs.one_config import measure

    before = schedule.measurement
    row: dict[str, Any] = {
        "schedule": schedule.public_id,
        **problem_json(schedule.problem),
        "display_name": schedule.kernel_label or schedule.problem.workload.kernel,
        "cache": lookup.cache,
        "fidelity": before.fidelity,
        "cycles_before": before.cycles,
        "cycles": None,
        "change": None,
        "error": "",
    }
    if before.fidelity != "model":
        error = f"measured by {before.device}: `hvxtune kernel measure --measurer farm` does"
        return {**row, "verdict": "not here", "error": error}
    trial, _ = measure(
        schedule.problem, schedule.config, generator=schedule.generator, cache=lookup.cache
    )
    if trial.measurement is None:
        return {**row, "verdict": "failed", "error": f"{trial.outcome}: {trial.error}"}
    cycles = trial.measurement.cycles
    word = "same" if cycles == before.cycles else "gain" if cycles < before.cycles else "loss"
    change = round(cycles / before.cycles - 1, 4)
    return {**row, "verdict": word, "cycles": cycles, "change": change}


def _print(rows: list[dict[str, Any]], counts: dict[str, int]) -> None:
    from service.cli.summary import form_label

    figures = ["before", "now", "change"]
    told = [row for row in rows if row["verdict"] != "same"]
    if told:
        print_table(
            ["verdict", *figures, "what", "why"],
            [
                [
                    row["verdict"],
                    f"{row['cycles_before']:,}",
                    "" if row["cycles"] is None else f"{row['cycles']:,}",
                    "" if row["change"] is None else f"{row['change']:+.1%}",
                    form_label(row),
                    row["error"],
                ]
                for row in sorted(told, key=lambda row: -(row["change"] or 0.0))
            ],
            numeric=figures,
        )
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    print_sentence(f"{len(rows)} schedules: {', '.join(parts)} (model cycles)")
