"""What all benchmarks share: names, options, tables as Markdown or JSON, bars, and rows kept.

A benchmark is a module with a ``run(given, report)``, and ``options(parser)`` if it takes any; the
first line of its docstring says what it is for. ``python -m benchmarks NAME`` runs one, and exits
with 1 if a bar is missed or a fault is told.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tuner.errors import HvxtuneError
from tuner.records.candidate import PREFERENCES

BENCHMARKS: Mapping[str, str] = {
    "doubt": "benchmarks.doubt",
    "everyday": "benchmarks.everyday.bench",
    "expressions": "benchmarks.expressions",
    "hand": "benchmarks.hand.bench",
    "jobs": "benchmarks.jobs",
    "kernels": "benchmarks.kernels",
    "load": "benchmarks.load",
    "networks": "benchmarks.networks",
    "phones": "benchmarks.phones",
    "scaling": "benchmarks.scaling",
    "search": "benchmarks.samplers",
    "search-tables": "benchmarks.search_tables",
    "service": "benchmarks.service",
    "shapes": "benchmarks.shapes",
    "suites": "benchmarks.suites",
    "transfer": "benchmarks.transfer",
    "truth": "benchmarks.truth.bench",
}
"""Modules by name."""


class Report:
    """Prints tables, remarks and bars as they come; as JSON, all of them as one object."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._specs: Sequence[str] = ()
        self._names: Sequence[str] = ()
        self._tables: list[dict[str, Any]] = []
        self._remarks: list[str] = []
        self._bars: list[dict[str, Any]] = []
        self.missed = False

    def table(self, columns: Mapping[str, str], title: str = "") -> None:
        """Begins a table. Each column has the format of its figures, or none if it has texts."""
        self._names, self._specs = list(columns), list(columns.values())
        self._tables.append({"title": title, "rows": []})
        rule = ["---:" if spec else "---" for spec in self._specs]
        heading = [f"### {title}", ""] if title else []
        self._print("", *heading, markdown(self._names), markdown(rule))

    def row(self, *cells: Any) -> None:
        """A row of the last table; ``None`` is a figure that there is not."""
        if len(cells) != len(self._names):
            raise ValueError(f"{len(cells)} cells for {len(self._names)} columns")
        self._tables[-1]["rows"].append(dict(zip(self._names, cells, strict=True)))
        self._print(
            markdown(_shown(cell, spec) for cell, spec in zip(cells, self._specs, strict=True))
        )

    def remark(self, text: str) -> None:
        """A line besides."""
        self._remarks.append(text)
        self._print("", text)

    def bar(
        self, what: str, value: float, *, most: float | None = None, least: float | None = None
    ) -> None:
        """Says whether ``value`` keeps to its bar."""
        met = (most is None or value <= most) and (least is None or value >= least)
        bound = f"at most {most:g}" if most is not None else f"at least {least:g}"
        self._bars.append({"bar": what, "value": value, "most": most, "least": least, "met": met})
        self._print("", f"{what}: {value:.3g}, {bound}: {'met' if met else 'MISSED'}")
        self.missed |= not met

    def fault(self, text: str) -> None:
        """What the benchmark fails for."""
        self.missed = True
        tell(text)

    def end(self) -> None:
        """Prints the JSON, if that is wanted."""
        if self._as_json:
            print(
                json.dumps(
                    {"tables": self._tables, "remarks": self._remarks, "bars": self._bars},
                    default=str,
                )
            )

    def _print(self, *lines: str) -> None:
        if not self._as_json:
            print(*lines, sep="\n", flush=True)


class Kept:
    """Results of earlier runs by a key, a JSON line each: a run that was stopped goes on.

    A last line that a crash cut short is left out, and measured again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, Any] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.exists() else ""
        for line in text.splitlines():
            with suppress(json.JSONDecodeError):
                key, value = json.loads(line)
                self._found[key] = value
        if not text.endswith("\n"):
            path.write_text(f"{text}\n" if text else "")

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def __getitem__(self, key: str) -> Any:
        return self._found[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._found[key] = value
        with self._path.open("a") as file:
            file.write(json.dumps([key, value]) + "\n")


def markdown(cells: Iterable[str]) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def tell(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def _shown(cell: Any, spec: str) -> str:
    if cell is None:
        return "-"
    return cell if isinstance(cell, str) else format(cell, spec)


def purpose_of(name: str) -> str:
    """The first line of a benchmark's docstring; nothing is imported for it."""
    module = find_spec(BENCHMARKS[name])
    assert module is not None  # noqa: S101
    assert module.origin is not None  # noqa: S101
    text = ast.get_docstring(ast.parse(Path(module.origin).read_text()))
    return (text or "").partition("\n\n")[0].replace("\n", " ")


def parser_of(name: str) -> argparse.ArgumentParser:
    """The options of a benchmark, ``--json`` among them."""
    module = import_module(BENCHMARKS[name])
    parser = argparse.ArgumentParser(
        f"python -m benchmarks {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    if hasattr(module, "options"):
        module.options(parser)
    return parser


def run(name: str, arguments: Sequence[str]) -> int:
    """Runs the benchmark ``name``; the exit status."""
    if name not in BENCHMARKS:
        tell(f"unknown benchmark '{name}'; known are {', '.join(BENCHMARKS)}")
        return 2
    given = parser_of(name).parse_args(arguments)
    report = Report(as_json=given.json)
    try:
        import_module(BENCHMARKS[name]).run(given, report)
    except HvxtuneError as error:
        report.fault(str(error))
    report.end()
    return int(report.missed)


def add_search_options(parser: argparse.ArgumentParser, trials: int) -> None:
    """Those of benchmarks that tune: ``searched_with`` makes keywords of them."""
    from tuner.jobs.tuning import default_workers

    parser.add_argument("--trials", type=int, default=trials)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--generator", default="portfolio")
    parser.add_argument(
        "--prefer",
        choices=PREFERENCES,
        default="fastest",
        help="by default both sides are compared at the timing model's own costs",
    )


def searched_with(given: argparse.Namespace) -> dict[str, Any]:
    """The keywords of ``tuner.tune`` for :func:`add_search_options`."""
    names = ("trials", "seed", "workers", "generator", "prefer")
    return {name: getattr(given, name) for name in names}


def add_names(parser: argparse.ArgumentParser, what: str, known: Iterable[str]) -> None:
    """Positional arguments: some of ``known``; all by default."""
    names = list(known)

    def one(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"unknown '{text}'; known are {', '.join(names)}")
        return text

    parser.add_argument("names", nargs="*", type=one, default=names, metavar=what)
