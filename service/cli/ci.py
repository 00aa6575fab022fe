"""``schedule ci``: the pins of a project's lock file beside the best schedules there are now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.options import AsJson, ServerAddress, read_percent
from service.cli.output import print_json, print_sentence, print_table
from service.cli.schedules import DEFAULT_LOCK, Pinning
from service.cli.statuses import Exit
from tuner.errors import NotStoredError, UserError
from tuner.records.candidate import CacheState

if TYPE_CHECKING:
    from service.fetching.pins import FunctionPin, Pin, Pins
    from service.fetching.sources import Offer, Source

    _Pinned = tuple[str, Pin | FunctionPin, str, CacheState]

BEST, SLOWER, FASTER = "best", "slower", "faster"
NOT_STORED, NOT_COMPARED = "not stored", "other fidelity"


@dataclass(frozen=True)
class Row:
    """A pin and the best schedule for callers who keep what the pinned one needs.

    ``change`` is how many more cycles the pinned one takes than the best, as a share of the best's;
    ``None`` where they cannot be compared.
    """

    name: str
    kernel: str
    params: dict[str, int]
    contract: str
    target: str
    pinned_cycles: int
    pinned_fidelity: str
    best_cycles: int | None = None
    best_fidelity: str | None = None
    best_schedule: str | None = None
    change: float | None = None
    verdict: str = NOT_STORED


def ci(
    lock: Annotated[
        Path, typer.Option("--lock", metavar="FILE", help="The lock file.")
    ] = DEFAULT_LOCK,
    tolerance: Annotated[
        str,
        typer.Option(
            "--tolerance", metavar="PERCENT", help="How much slower a pin may be, such as 2%."
        ),
    ] = "",
    archive: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Ask no service: compare with a file that `hvxtune db export` or a service wrote.",
        ),
    ] = None,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Compare what the lock file pins with the best schedules now; status 1 if a pin is slower."""
    if archive is not None and server is not None:
        raise UserError("--from with --server", next_step="leave one out")
    allowed = read_percent("--tolerance", tolerance) if tolerance else 0.0
    from service.fetching.pins import read_pins

    pins = read_pins(lock)
    if not lock.exists():
        raise UserError(
            f"--lock {lock}: no such file",
            accepted="the lock file of a project, which `hvxtune fetch` makes",
            next_step="run it in the project's folder, or give --lock",
        )
    if not pins:
        raise NotStoredError(f"{lock} pins nothing", next_step="`hvxtune fetch` pins schedules")
    pinning = Pinning(lock, update=False, offline=False, server=server, archive=archive)
    with pinning.source() as source:
        assert source is not None  # noqa: S101 - it is None only offline
        rows = [_row(pinned, source, allowed) for pinned in _pinned(pins)]
    slower = sum(row.verdict == SLOWER for row in rows)
    missing = sum(row.verdict == NOT_STORED for row in rows)
    if as_json:
        print_json({"ok": not slower and not missing, "pins": [asdict(row) for row in rows]})
    else:
        _print(rows, lock, slower, missing)
    if slower:
        raise typer.Exit(Exit.FAILED)
    if missing:
        raise typer.Exit(Exit.NOT_STORED)


def _pinned(pins: Pins) -> Iterator[_Pinned]:
    """Every schedule that is pinned, those of networks included: name, pin, target, caches."""
    from service.fetching.pins import Pin

    for name, pin in sorted(pins.items()):
        if isinstance(pin, Pin):
            yield name, pin, pin.target, "cold" if pin.cache == "cold" else "warm"
            continue
        for function in pin.functions:
            yield f"{name}: {function.symbol}", function, pin.target, "warm"


def _row(pinned: _Pinned, source: Source, allowed: float) -> Row:
    from tuner.jobs.tuning import find_problem
    from tuner.keeping.best import lookup_of

    name, pin, target, cache = pinned
    problem = find_problem(pin.kernel, pin.params, target, pin.contract)
    row = Row(name, pin.kernel, dict(pin.params), pin.contract, target, pin.cycles, pin.fidelity)
    try:
        best = source.best(lookup_of(problem, cache=cache))
    except NotStoredError:
        return row
    return _compared(row, best, allowed)


def _compared(row: Row, best: Offer, allowed: float) -> Row:
    found = replace(
        row,
        best_cycles=best.cycles,
        best_fidelity=best.fidelity,
        best_schedule=best.schedule,
        verdict=NOT_COMPARED,
    )
    if best.fidelity != row.pinned_fidelity:
        return found
    change = row.pinned_cycles / best.cycles - 1
    verdict = SLOWER if change > allowed else FASTER if change < 0 else BEST
    return replace(found, change=round(change, 4), verdict=verdict)


def _print(rows: list[Row], lock: Path, slower: int, missing: int) -> None:
    figures = ["pinned cycles", "best cycles", "change"]
    print_table(
        ["pin", "verdict", *figures, "what"],
        [
            [
                row.name,
                row.verdict,
                f"{row.pinned_cycles:,}",
                "" if row.best_cycles is None else f"{row.best_cycles:,}",
                "" if row.change is None else f"{row.change:+.1%}",
                _what(row),
            ]
            for row in rows
        ],
        numeric=figures,
    )
    if slower:
        print_sentence(
            f"{slower} of {len(rows)} pins are slower than the best schedule stored; "
            "`hvxtune fetch --update` pins that"
        )
    if missing:
        print_sentence(f"{missing} of {len(rows)} have no schedule stored to compare with")
    if not slower and not missing:
        print_sentence(f"no pin in {lock} is slower than the best schedule stored")


def _what(row: Row) -> str:
    params = " ".join(f"{name}={value}" for name, value in row.params.items())
    fidelity = row.pinned_fidelity
    if row.verdict == NOT_COMPARED:
        fidelity = f"pinned by {row.pinned_fidelity}, best by {row.best_fidelity}"
    return f"{row.kernel} {params}, contract {row.contract}, {row.target} ({fidelity})"
