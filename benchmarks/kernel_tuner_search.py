"""Kernel Tuner's strategies on tables of measured configs, in its simulation mode.

The n-th distinct config that a strategy asks for is its n-th trial, failed ones included,
infeasible ones not. Kernel Tuner is no dependency of hvxtune (``pip install kernel-tuner``).
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import random
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.search.comparison import BUDGETS, Guest
from benchmarks.search.replay import Replay
from benchmarks.search.tables import Table
from tuner.space import Config, KnobValue

STRATEGIES = (
    "random_sample",
    "genetic_algorithm",
    "simulated_annealing",
    "diff_evo",
    "pso",
    "hybrid_vndx",
)
"""Its ``greedy_ils`` is left out: on some tables it does not come to an end."""
_MOST_S = 5.0
"""Processor seconds; most searches take a tenth of one. Some, on some tables, never ask for
anything new again: they have ended."""
_PREFIX = "kernel_tuner/"
_INACTIVE = "inactive"


def guests_installed() -> dict[str, Guest]:
    """Every strategy by the name its replays have; none if Kernel Tuner is not installed."""
    if importlib.util.find_spec("kernel_tuner") is None:
        return {}
    return {_PREFIX + strategy: partial(replay, strategy) for strategy in STRATEGIES}


def replay(strategy: str, table: Table, seed: int) -> Replay:
    """One search of ``table``."""
    import kernel_tuner

    knobs = _knobs(table)
    listed = {tuple(_values(table, row.config).values()) for row in table.rows}

    def feasible(*values: Any, **named: Any) -> bool:  # by definition: it rewrites lambdas
        return _tuple(values, named, knobs) in listed

    random.seed(seed)
    np.random.seed(seed)  # what its strategies draw from
    begun = time.process_time()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(io.StringIO()),
        _stopped_after(_MOST_S, kernel_tuner.util.StopCriterionReached),
    ):
        cache = Path(folder) / "cache.json"
        cache.write_text(json.dumps(cache_of(table)))
        results, _ = kernel_tuner.tune_kernel(
            table.name,
            "",
            (1,),
            [],
            knobs,
            restrictions=feasible,
            cache=str(cache),
            simulation_mode=True,
            strategy=strategy,
            strategy_options={"max_fevals": BUDGETS[-1]},
            device=0,
            verbose=False,
            quiet=True,
        )
    own_s = time.process_time() - begun
    best: list[float] = []
    seen: set[Config] = set()
    lowest = float("inf")
    for result in results:
        config = Config({k: result[k] for k in knobs if result[k] != _INACTIVE})
        if config in seen:
            continue
        seen.add(config)
        cycles = table.results[config].cycles
        if cycles is not None:
            lowest = min(lowest, cycles / table.optimum)
        best.append(lowest)
    return Replay(table.name, _PREFIX + strategy, seed, tuple(best), 1000 * own_s / len(best))


@contextlib.contextmanager
def _stopped_after(seconds: float, error: type[Exception]) -> Iterator[None]:
    """Raises ``error`` in the main thread after so much processor time: strategies end by it."""

    def stop(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _tuple(
    values: tuple[Any, ...], named: Mapping[str, Any], knobs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """What a restriction is called with differs between versions: a dict, or keywords."""
    found = values[0] if values and isinstance(values[0], Mapping) else named
    return tuple(found[name] for name in knobs) if found else values


def _knobs(table: Table) -> dict[str, list[KnobValue]]:
    """Values of each knob; being inactive is one of them."""
    return {
        name: [*choices, *([_INACTIVE] if _comes_and_goes(table, name) else [])]
        for name, choices in table.knobs.items()
    }


def _comes_and_goes(table: Table, knob: str) -> bool:
    return any(knob not in row.config for row in table.rows)


def _values(table: Table, config: Config) -> dict[str, KnobValue]:
    return {name: config.get(name, _INACTIVE) for name in table.knobs}


def cache_of(table: Table) -> dict[str, Any]:
    """The table as a cache file of Kernel Tuner."""
    knobs, entries = _knobs(table), {}
    for row in table.rows:
        values = _values(table, row.config)
        cycles: float | str = "RuntimeFailedConfig" if row.cycles is None else float(row.cycles)
        entries[",".join(str(v) for v in values.values())] = {
            **values,
            "time": cycles,
            "times": [cycles],
            "compile_time": 0.0,
            "verification_time": 0.0,
            "benchmark_time": 0.0,
            "strategy_time": 0.0,
            "framework_time": 0.0,
            "timestamp": "2020-01-01 00:00:00+00:00",
        }
    return {
        "device_name": "table",
        "kernel_name": table.name,
        "problem_size": [1],
        "tune_params_keys": list(knobs),
        "tune_params": knobs,
        "objective": "time",
        "cache": entries,
    }
