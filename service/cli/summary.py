"""The result of a job, for programs and for people."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from service.cli.output import print_command, print_line, print_sentence, print_table
from service.json_forms import measurement_json
from service.suggested_files import suggested
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.candidate import cycles_text, cycles_unit
from tuner.records.request import DEFAULT_CONTRACT
from tuner.records.trial import NOT_REACHED, UNREACHED, JobState

if TYPE_CHECKING:
    from service.client.blocking import BlockingClient
    from tuner.records.candidate import Measurement, Problem
    from tuner.records.trial import RemainingGain

UNKNOWN = "\N{EN DASH}"


def print_loose(problem: Problem) -> None:
    """The exceptions to the contract of ``problem`` for single buffers, if any."""
    from tuner.kernels import find_kernel
    from tuner.problem.buffers import loose_lines

    workload = problem.workload
    buffers = find_kernel(workload.kernel).buffers(workload.params)
    for line in loose_lines(buffers, problem.contract):
        print_sentence(line, "  ")


def outcomes_text(outcomes: Mapping[str, int]) -> str:
    """``95 ok, 3 wrong_output, 2 timeout``, the most frequent first."""
    ranked = sorted(outcomes.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {outcome}" for outcome, count in ranked) or "no trial yet"


def reached_text(remaining: RemainingGain | None) -> str | None:
    """``98 % of the optimum expected in this space``; never 100 % while anything may be left."""
    if remaining is None:
        return None
    return f"{remaining.percent_reached} % of the optimum expected in this space"


def display_name(form: Mapping[str, Any]) -> str:
    """The display name of the kernel of a job or schedule."""
    return str(form["display_name"])


def form_label(form: Mapping[str, Any]) -> str:
    """:func:`problem_label` of the JSON form of a job or schedule."""
    params = [f"{name}={value}" for name, value in form["params"].items()]
    label = " ".join([display_name(form), *params])
    return f"{label}, contract {form['contract']}, {form['target']}"


def state_text(form: Mapping[str, Any]) -> str:
    """The state of a job in a word, of its JSON form."""
    state = str(form["state"])
    if form["note"] == NOT_REACHED:
        return UNREACHED
    if state != JobState.QUEUED:
        return state
    # Nobody but the command that made it takes up a job without a user: it was stopped.
    return "paused" if form["paused"] else state if form["user"] else "stopped"


def worded(form: dict[str, Any]) -> dict[str, Any]:
    """The JSON form of a job with the word for its state that people are shown."""
    word = "interrupted" if form.get("interrupted") else state_text(form)
    return {**form, "state": word}


def print_result(result: Mapping[str, Any], client: BlockingClient) -> None:
    """The result of a job as a short table, and what can be run next."""
    print_sentence(form_label(result))
    print_sentence(
        f"job {result['job']} {state_text(result)}: {sum(result['outcomes'].values())} trials "
        f"in {result['spent_s']:.0f} s ({outcomes_text(result['outcomes'])})"
    )
    if result["note"] and result["state"] == JobState.DONE:
        print_sentence(f"ended: {result['note']}")
    if result.get("waits"):
        print_sentence(f"waits: {result['waits']}")
    print_line()
    told = result.get("told_against")
    is_package = result["generator"] == "package"
    baseline = result.get("baseline_trial")
    marked = {} if baseline is None else {"baseline": baseline}
    if not (is_package and baseline and result["default"] is None):  # one config may be both
        marked["default schedule"] = result["default"]
    if not (is_package or result["textbook_is_unscheduled"]):
        marked["textbook HVX"] = result["textbook"]
    marked["best found"] = result["best"]
    unit = unit_of(marked.values())
    figures = [unit, "packets", "of roofline", "speed-up"]
    print_table(
        ["", *figures],
        [[name, *_figures(trial, told)] for name, trial in marked.items()],
        numeric=figures,
    )
    for name, trial in marked.items():
        if trial is not None and trial["cycles"] is None and trial["error"]:
            print_sentence(f"{name}: {trial['outcome']}: {trial['error']}")
    if told is not None:
        print_sentence(f"speed-up against: {told['name']}, {told_cycles(told)} {unit}")
    elif result["best"] is not None and not result["textbook_is_unscheduled"]:
        print_sentence("no speed-up is told: neither a baseline nor the textbook schedule is valid")
    if result["textbook_is_unscheduled"]:
        from tuner.jobs.headline import NO_TEXTBOOK

        print_sentence(NO_TEXTBOOK)
    if len(result["objectives"]) > 1:
        _print_front(result)
    gain = result.get("remaining_gain")
    if gain is not None:
        print_sentence(
            f"further search of this space is expected to save another {gain['expected']:.1%} of "
            f"the cycles (95 %: at most {gain['bound']:.1%})"
        )
    if result.get("distance") is not None:
        print_sentence(f"distance: {result['distance']['sentence']}")
    print_doubt(result.get("doubt"))
    _print_failures(result)
    if result["left_out"]:
        reasons = "; ".join(f"{name}: {why}" for name, why in result["left_out"].items())
        print_sentence(f"generators without code of this kernel: {reasons}")
    print_line()
    if result["best"] is not None:
        print_config(result["best"]["config"])
        print_sentence(f"stored in {result['stored_in']}")
        if result.get("prefer") == "robust":
            print_sentence(
                "chosen by its expected cycles: the fewest on average over the plausible costs"
            )
    print_line()
    _print_next(result, client)


_MANY_FAILED = 0.5
"""Share of the trials from which on the summary says why they failed."""


def _print_failures(result: Mapping[str, Any]) -> None:
    finished = sum(result["outcomes"].values())
    if sum(one["count"] for one in result["failures"]) < max(_MANY_FAILED * finished, 1):
        return
    for one in result["failures"]:
        print_sentence(
            f"{one['count']} of {finished} trials failed alike, with {one['outcome']}: "
            f"{one['reason'].rstrip('.')} (trial {one['trial']}); {one['next_step']}"
        )


def print_doubt(doubt: Mapping[str, Any] | None) -> None:
    """How far the best rests on assumed costs, where that is known and anything is assumed."""
    if doubt is not None and doubt["known"]:
        print_sentence(doubt["sentence"])


def _print_front(result: Mapping[str, Any]) -> None:
    objectives = result["objectives"]
    print_line()
    print_sentence(f"no other trial is better in {' and '.join(objectives)} than one of these:")
    print_table(
        ["trial", *objectives],
        [
            [trial["trial"], *(f"{trial[one]:,}" for one in objectives)]
            for trial in result["pareto"]
        ],
        numeric=["trial", *objectives],
    )


def print_measurement(measurement: Measurement, problem: Problem, name: str = "") -> None:
    """The figures of a measurement on one line, behind its ``name`` if there are several."""
    from tuner.measure.roofline import roofline_of

    print_figures(measurement_json(measurement, roofline_of(problem, measurement.cache)), name)


def print_figures(figures: Mapping[str, Any], name: str = "") -> None:
    """:func:`print_measurement` of the JSON form of a measurement."""
    from tuner.measure.statistics import summarize

    parts = [f"{told_cycles(figures)} cycles ({figures['fidelity']}, caches {figures['cache']})"]
    samples = figures["samples"]
    if len(samples) > 1:
        parts.append(f"the median of {len(samples)}, spread {summarize(samples).spread:.1%}")
    if figures["core_cycles"]:
        parts.append(f"{figures['core_cycles']:,} without DDR")
    if figures["packets"] is not None:
        parts.append(f"{figures['packets']:,} packets")
    if figures["temperature_c"] is not None:
        parts.append(f"at {figures['temperature_c']:.0f} °C")
    parts.append(f"{figures['share_of_roofline']:.1%} of the roofline")
    print_sentence(name + ", ".join([*parts, "outputs verified"]))


def print_config(config: Mapping[str, object]) -> None:
    """The knobs of a config on one line."""
    print_sentence("config " + " ".join(f"{knob}={value}" for knob, value in config.items()))


def unit_of(trials: Iterable[Mapping[str, Any] | None]) -> str:
    """``model cycles`` unless all that was measured ran on Qualcomm's simulator or a device."""
    measured = {trial["fidelity"] for trial in trials if trial is not None and trial["cycles"]}
    units = {cycles_unit(fidelity) for fidelity in measured}
    return units.pop() if len(units) == 1 else "model cycles"


def _figures(trial: Mapping[str, Any] | None, told: Mapping[str, Any] | None) -> list[str]:
    if trial is None:
        return ["not reached", "", "", ""]
    cycles = trial["cycles"]
    if cycles is None:
        return [str(trial["outcome"]), "", "", ""]
    speedup = "" if told is None else f"{told['cycles'] / cycles:.2f}x"
    share = f"{trial['share_of_roofline']:.1%}"
    return [told_cycles(trial), count_text(trial["packets"]), share, speedup]


def told_cycles(form: Mapping[str, Any], of: str = "") -> str:
    """The cycles in the JSON form of what was measured, with their range; empty if it was not.
    ``of`` is what the names of the figures begin with."""
    names = (f"{of}cycles", f"{of}lowest_cycles", f"{of}highest_cycles")
    cycles, lowest, highest = map(form.get, names)
    return "" if cycles is None else cycles_text(cycles, lowest, highest)


def count_text(value: int | None) -> str:
    """``12,345``, or a dash for a figure that was not counted."""
    return UNKNOWN if value is None else f"{value:,}"


def _program() -> str:
    """The command as it can be typed here: with its path where the shell would not find it."""
    import shutil

    return "hvxtune" if shutil.which("hvxtune") else sys.argv[0]


def _print_next(result: Mapping[str, Any], client: BlockingClient) -> None:
    from service.cli.connecting import place_option

    job, program, where = result["job"], _program(), place_option(client)
    if result["interrupted"]:
        print_command("resume:      ", f"{program} job resume {job}{where}")
    if result["best"] is not None:
        file = suggested(display_name(result))
        options = problem_options(result, client)
        command = f"{program} best {options}{where} --object {file}.o --header {file}.h"
        print_command("use it:      ", command)
    print_command("every trial: ", f"{program} show {job}{where}")


def problem_options(form: Mapping[str, Any], client: BlockingClient) -> str:
    """The part of a command that names the problem of a job: by the names that people gave, and
    only what differs from the defaults."""
    from service.here import Here
    from service.labels import told_params

    words = [_address(form, client)]
    words += [f"-p {told}" for told in told_params(form["kernel"], form["params"])]
    if not (isinstance(client, Here) and form["target"] == DEFAULT_TARGET):
        words.append(f"--target {form['target']}")
    if form.get("prefer") == "fastest" and (form.get("best") or {}).get("expected_cycles"):
        words.append("--prefer fastest")
    if form["contract"] != DEFAULT_CONTRACT:
        words.append(f"--contract {form['contract']}")
    return " ".join(words)


def _address(form: Mapping[str, Any], client: BlockingClient) -> str:
    """The name of an upload or a package, while that means the one that was tuned; else the
    kernel's."""
    from service.auth.tokens import local_user
    from service.here import Here
    from tuner.kernels import PACKAGE_PREFIX, PIPELINE_PREFIX

    kernel, name = str(form["kernel"]), display_name(form)
    if kernel.startswith(PIPELINE_PREFIX):
        newest = next((one for one in client.pipelines() if one["name"] == name), None)
        if newest is None or newest["kernel"] != kernel:
            return kernel
        own = isinstance(client, Here) and newest["owner"] == local_user()
        return f"{PIPELINE_PREFIX}{name}" if own else str(newest["address"])
    if kernel.startswith(PACKAGE_PREFIX):
        last = next((one for one in client.packages() if one["package"] == name), None)
        return f"{PACKAGE_PREFIX}{name}" if last and last["kernel"] == kernel else kernel
    return kernel
