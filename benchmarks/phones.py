"""Prices a phone: what a trial costs beyond running the candidate, and what a bundle saves.

Runs on an emulated phone of tests/rig: real adb server and adbd, DSP and its tool stand-ins. First
the same call of the tool is made again and again in the phone's shell: that is what running the
candidate takes there. Then whole trials are made, turn about with that: link, push, check, run,
pull, judge, remove. The difference of the quickest of each is the cost of a trial; on an idle
machine that of the medians is much the same. Last, 16 schedules go one by one and then in one
bundle; the phone counts the calls of its tool. Other load on the
machine spoils the times; `chrt -r 5 make bench NAME=phones` (as root) keeps it away.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shlex
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from benchmarks.harness import Report
from tests.rig.phones import Phone as EmulatedPhone
from tests.rig.phones import require_rig, running_phones
from tuner.codegen import CodeGenerator, find_generator
from tuner.errors import CandidateError, DeviceError
from tuner.jobs.tuning import find_problem
from tuner.kernels import find_kernel
from tuner.measure.android.adb import ADB_VARIABLE, AdbServer, ShellOutput
from tuner.measure.android.call import DRIVER_FILE, Caller, PhoneSettings
from tuner.measure.android.link import PhoneLink
from tuner.measure.android.phone import Phone
from tuner.measure.device import Bundle, BundleEntry, Limits, Sampled
from tuner.measure.dsp.bundle import IMAGES
from tuner.measure.dsp.queue import QueuedRun
from tuner.measure.dsp.shared_object import driver, shared_object
from tuner.records.candidate import Candidate

COST_LIMIT_MS = 60.0
BUNDLE = 16
TASK_REPEATS = 5


class KeepingLink(PhoneLink):
    """Leaves the folder of a run on the phone, for the tool to be called in it again."""

    async def shell(self, server: AdbServer, command: str, timeout_s: float) -> ShellOutput:
        if command.startswith("rm -rf"):
            command = "true"
        return await super().shell(server, command, timeout_s)


def run_folder(settings: PhoneSettings, emulated: EmulatedPhone, task: BundleEntry) -> str:
    """A folder on the phone with all that a call of ``task`` needs."""
    linked = shared_object(task.artifact, settings.arch)
    queued = QueuedRun(linked.content, IMAGES.of(task.problem), task.warm_ups, task.repeats)

    async def call() -> None:
        server = AdbServer()
        try:
            link = KeepingLink(settings.address, by_address=True)
            await Caller(settings, link, driver(settings.arch)).call(server, [queued], 60)
        finally:
            server.close()

    asyncio.run(call())
    [found] = {path.rpartition("/")[0] for path in emulated.files() if path.endswith(DRIVER_FILE)}
    return found


def bare_script(settings: PhoneSettings, folder: str) -> str:
    """Calls the tool in ``folder`` and nothing else."""
    tool = shlex.join(
        [
            *(settings.tool, str(settings.domain), f"{folder}/{DRIVER_FILE}"),
            *(f"stack_size={settings.stack_bytes:#x}", folder),
        ]
    )
    return f"cd {folder}; export DSP_LIBRARY_PATH={folder}; exec {tool} >/dev/null 2>&1 </dev/null"


async def shell_ms(link: PhoneLink, server: AdbServer, script: str) -> float:
    """Wall milliseconds of a command on the phone."""
    begin = time.perf_counter()
    output = await link.shell(server, script, 60)
    if output.status:
        raise DeviceError(f"the tool alone ends with {output.status}")
    return (time.perf_counter() - begin) * 1000


def trial_costs(
    settings: PhoneSettings, emulated: EmulatedPhone, task: BundleEntry, repeats: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of bare runs (less those of a command that does nothing) and of whole trials,
    taken turn about."""
    script = bare_script(settings, run_folder(settings, emulated, task))
    nothing, bare, whole = [], [], []
    with Phone(settings, "emulated", Limits()) as device, asyncio.Runner() as runner:
        server, link = AdbServer(), PhoneLink(settings.address, by_address=True)
        try:
            judged(device, [task])  # pushes the problem
            for _ in range(repeats):
                nothing.append(runner.run(shell_ms(link, server, "true")))
                bare.append(runner.run(shell_ms(link, server, script)))
                begin = time.perf_counter()
                judged(device, [task])
                whole.append((time.perf_counter() - begin) * 1000)
        finally:
            server.close()
    return [one - min(nothing) for one in bare], whole


def judged(device: Phone, tasks: Sequence[BundleEntry]) -> None:
    """Runs a batch; raises what a task that is not good came to."""
    for result in device.run(Bundle(tasks)):
        if not isinstance(result, Sampled):
            raise result


def calls_of(
    settings: PhoneSettings, emulated: EmulatedPhone, batches: Sequence[Sequence[BundleEntry]]
) -> tuple[int, float]:
    """How often the phone's tool was called for ``batches``, and the seconds it took."""
    before, begin = runs_counted(emulated), time.perf_counter()
    with Phone(settings, "emulated", Limits(bundle=BUNDLE)) as device:
        for tasks in batches:
            judged(device, tasks)
    return runs_counted(emulated) - before, time.perf_counter() - begin


def runs_counted(emulated: EmulatedPhone) -> int:
    """Runs of the emulated DSP so far, as the phone counts them."""
    found = re.search(r"^runs=(\d+)$", emulated.read("/vendor/rig/history"), re.MULTILINE)
    return int(found[1]) if found else 0


def schedules(kernel: str, count: int, generator: CodeGenerator) -> list[BundleEntry]:
    """``count`` schedules of ``kernel`` with objects of their own: the textbook one and random
    ones, the same every time."""
    problem = find_problem(kernel, None, "hexagon-v66", "static")
    space, random = find_kernel(kernel).space(problem), Random(20)
    found: dict[str, BundleEntry] = {}
    config = find_kernel(kernel).textbook_config(problem)
    while len(found) < count:
        with suppress(CandidateError):
            artifact = generator.compile(Candidate(problem, config))
            found[artifact.digest] = BundleEntry(problem, artifact, repeats=TASK_REPEATS)
        config = space.sample(random)
    return list(found.values())


def options(parser: argparse.ArgumentParser) -> None:
    """Which kernel, and how often."""
    parser.add_argument("kernel", nargs="?", default="add_u8")
    parser.add_argument("--repeats", type=int, default=30)


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells what a trial costs, and how many calls a bundle saves."""
    os.environ[ADB_VARIABLE] = str(require_rig().adb)
    with find_generator("halide")(1) as generator:
        tasks = schedules(given.kernel, BUNDLE, generator)
    with running_phones(1) as [emulated]:
        settings = PhoneSettings(name="emulated", arch="v66", address=emulated.address)
        bare, whole = trial_costs(settings, emulated, tasks[0], given.repeats)
        # Room for what all of them leave: one call is what is to be seen.
        roomy = replace(settings, output_bytes=1 << 25)
        single, single_s = calls_of(roomy, emulated, [[task] for task in tasks])
        bundled, bundled_s = calls_of(roomy, emulated, [tasks])
    report.remark("emulated phone: adb and adbd are real, the DSP and its tool are stand-ins")
    report.table({given.kernel: "", "least ms": ".0f", "median ms": ".0f"})
    for name, times in (("the tool alone", bare), ("a whole trial", whole)):
        report.row(name, min(times), statistics.median(times))
    report.bar("a trial beyond its run in ms", min(whole) - min(bare), most=COST_LIMIT_MS)
    report.table({f"{len(tasks)} candidates": "", "calls": ",", "seconds": ".2f"})
    report.row("one by one", single, single_s)
    report.row("in a bundle", bundled, bundled_s)
    report.bar("times fewer calls in a bundle", single / bundled, least=len(tasks))
