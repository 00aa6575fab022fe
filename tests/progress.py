"""Tells how far a run of tests is and about how long the rest takes, instead of a dot for each:
``pytest -p tests.progress``.

A test counts for the seconds it took last time on this machine, from pytest's cache; a new one for
the mean of its file, or of all.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import pytest

_KEY = "hvxtune/durations"
_LEAST_DONE = 0.03
"""The share below which the rest is no more than a guess."""


class Progress:
    def __init__(self, config: pytest.Config) -> None:
        assert config.cache is not None
        self._cache = config.cache
        self._plugins = config.pluginmanager
        self._last: dict[str, float] = self._cache.get(_KEY, {})
        self._took: defaultdict[str, float] = defaultdict(float)
        self._ids: Counter[str] = Counter()
        self._weights: Mapping[str, float] = {}
        self._done = self._failed = 0
        self._done_weight = self._began = self._told = 0.0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self._begin([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        if not self._weights:  # all workers collect the same
            self._begin(ids)

    def _begin(self, ids: Sequence[str]) -> None:
        self._ids = Counter(ids)  # some tests share one
        self._weights, self._began = weights(ids, self._last), time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid] += report.duration
        if report.failed:
            self._failed += 1
            self._write(f"FAILED {report.nodeid} ({report.when})", stays=True)
        if report.when == "teardown":
            self._done += 1
            weight = self._weights.get(report.nodeid, 0)
            self._done_weight += weight / self._ids.get(report.nodeid, 1)
            now = time.monotonic()
            if now - self._told > self._apart_s() or self._done == self._ids.total():
                self._told = now
                self._write(self._line(now - self._began), stays=False)

    def _line(self, elapsed_s: float) -> str:
        total = sum(self._weights.values())
        text = f"{self._done:,} of {self._ids.total():,} tests"
        if self._failed:
            text += f", {self._failed} failed"
        if self._done_weight > _LEAST_DONE * total:
            left_s = elapsed_s * (total / self._done_weight - 1)
            text += f", about {int(left_s // 60)}:{int(left_s % 60):02} to go"
        return text

    def _write(self, line: str, *, stays: bool) -> None:
        """On a terminal, the next line takes the place of one that does not stay."""
        reporter = self._plugins.getplugin("terminalreporter")
        if reporter.isatty():
            reporter.rewrite(line, erase=True)
            if stays:
                reporter.write_line("")
        else:
            reporter.write_line(line)

    def _apart_s(self) -> float:
        return 0.2 if self._plugins.getplugin("terminalreporter").isatty() else 15.0

    def pytest_report_teststatus(
        self, report: pytest.TestReport | pytest.CollectReport
    ) -> tuple[str, str, str] | None:
        """No letter for what is counted, or has a line already."""
        if report.when == "collect" or hasattr(report, "wasxfail"):
            return None
        if report.skipped or report.when == "call":
            return report.outcome, "", report.outcome.upper()
        return ("error", "", "ERROR") if report.failed else None

    def pytest_sessionfinish(self) -> None:
        self._cache.set(_KEY, {**self._last, **self._took})


def weights(ids: Iterable[str], last: Mapping[str, float]) -> dict[str, float]:
    """For each test the seconds it may take, by those of ``last`` time."""
    of_file: defaultdict[str, list[float]] = defaultdict(list)
    for name, seconds in last.items():
        of_file[name.partition("::")[0]].append(seconds)
    means = {file: fmean(durations) for file, durations in of_file.items()}
    mean = fmean(last.values()) if last else 1.0
    return {name: last.get(name, means.get(name.partition("::")[0], mean)) for name in ids}


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config), "progress")
