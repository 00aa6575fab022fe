"""What a job came to, for programs and for people."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from service.cli.output import print_line, print_table
from service.json_forms import job_json, peak_cycles, trial_json

if TYPE_CHECKING:
    from tuner.candidate import Measurement, Problem
    from tuner.trial import Trial
    from tuner.tuning import TuneResult


def problem_label(problem: Problem) -> str:
    """For people: ``gemm_u8 m=256 n=256 k=256, contract static, hexagon-v66``."""
    return f"{problem.workload.label}, contract {problem.contract}, {problem.target.name}"


def problem_options(problem: Problem) -> str:
    """The part of a command line that names a problem: ``gemm_u8 -p m=256 ... --target ...``."""
    workload = problem.workload
    params = [f"-p {name}={value}" for name, value in workload.params.items()]
    places = [f"--target {problem.target.name}", f"--contract {problem.contract}"]
    return " ".join([workload.kernel, *params, *places])


def result_json(result: TuneResult, stored_in: str) -> dict[str, Any]:
    """The object that ``tune --json`` prints."""
    peak = peak_cycles(result.job.spec.problem)
    marked = {"default": result.default, "textbook": result.textbook, "best": result.best}
    return {
        **job_json(result.job),
        "interrupted": result.interrupted,
        "outcomes": dict(result.outcomes),
        **{name: None if t is None else trial_json(t, peak) for name, t in marked.items()},
        "peak_cycles": peak,
        "stored_in": stored_in,
    }


def outcomes_text(outcomes: Mapping[str, int]) -> str:
    """``95 ok, 3 wrong_output, 2 timeout``, the most frequent first."""
    ranked = sorted(outcomes.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {outcome}" for outcome, count in ranked) or "no trial yet"


def print_result(result: TuneResult, stored_in: str) -> None:
    """The result as a short table, and what can be run next."""
    job = result.job
    problem = job.spec.problem
    peak = peak_cycles(problem)
    print_line(problem_label(problem))
    print_line(
        f"job {job.id} {job.state}: {sum(result.outcomes.values())} trials "
        f"in {job.spent_s:.0f} s ({outcomes_text(result.outcomes)})"
    )
    print_line()
    figures = ["cycles", "packets", "HVX peak", "speed-up"]
    marked = {
        "default schedule": result.default,
        "textbook HVX": result.textbook,
        "best found": result.best,
    }
    print_table(
        ["", *figures],
        [[name, *_figures(trial, result.default, peak)] for name, trial in marked.items()],
        numeric=figures,
    )
    print_line()
    if result.best is not None:
        print_config(result.best.config)
        print_line(f"stored in {stored_in}")
    print_line()
    _print_next(result)


def print_measurement(measurement: Measurement, problem: Problem, name: str = "") -> None:
    """The figures of a measurement on one line, behind its ``name`` if there are several."""
    print_line(
        f"{name}{measurement.cycles:,} cycles "
        f"({measurement.fidelity}, caches {measurement.cache}), "
        f"{measurement.core_cycles:,} without DDR, {measurement.packets:,} packets, "
        f"{peak_cycles(problem) / measurement.cycles:.1%} of the HVX peak, outputs verified"
    )


def print_config(config: Mapping[str, object]) -> None:
    """The knobs of a config on one line."""
    print_line("config " + " ".join(f"{knob}={value}" for knob, value in config.items()))


def _figures(trial: Trial | None, base: Trial | None, peak: float) -> list[str]:
    if trial is None:
        return ["not reached", "", "", ""]
    measured = trial.measurement
    if measured is None:
        return [trial.outcome.value, "", "", ""]
    speedup = ""
    if base is not None and base.measurement is not None:
        speedup = f"{base.measurement.cycles / measured.cycles:.2f}x"
    return [
        f"{measured.cycles:,}",
        f"{measured.packets:,}",
        f"{peak / measured.cycles:.1%}",
        speedup,
    ]


def _program() -> str:
    """The command as it can be typed here: with its path where the shell would not find it."""
    import shutil

    return "hvxtune" if shutil.which("hvxtune") else sys.argv[0]


def _print_next(result: TuneResult) -> None:
    job, program = result.job, _program()
    if result.interrupted:
        print_line(f"go on with:  {program} resume {job.id}")
    if result.best is not None:
        name = job.spec.problem.workload.kernel
        options = problem_options(job.spec.problem)
        print_line(f"use it:      {program} best {options} --object {name}.o --header {name}.h")
    print_line(f"every trial: {program} show {job.id}")
