"""The events of each sample: compiled and simulated once, then kept in the state directory."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tuner.codegen import CodeGenerator, find_generator
from tuner.errors import CandidateError, StoreError
from tuner.identity import digest_of
from tuner.machine.paths import writable
from tuner.measure.qemu.calibration.observation import Observation
from tuner.measure.qemu.calibration.samples import Sample, SampleSet
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.measure.qemu.model_file import model_path, read_model_file
from tuner.records.candidate import CacheState

FOLDER = "calibration"
"""Under the state directory; may be removed at any time."""


def count_events(
    samples: SampleSet,
    *,
    workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Observation]:
    """Each sample with the events of its schedule, in the order of the file.

    ``workers`` candidates are compiled and simulated at a time; ``on_progress`` is called with the
    numbers of samples done and of all. What is found is kept: a call that is interrupted and made
    again goes on where it stopped. Raises ``UserError`` naming the line of a sample whose schedule
    does not compile or run, or gives another object than the sample was measured with.
    """
    with ExitStack() as stack:
        counter = _Counter(samples, workers, stack)
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        # Left to itself, the pool would work off its queue before an error or Ctrl-C came through.
        stack.callback(pool.shutdown, cancel_futures=True)
        found = []
        for observation in pool.map(counter.observation, samples.samples):
            found.append(observation)
            if on_progress is not None:
                on_progress(len(found), len(samples.samples))
        return found


class _Counter:
    """Generators and measurers, one of each kind, and what they have found before."""

    def __init__(self, samples: SampleSet, workers: int, stack: ExitStack) -> None:
        self._set = samples
        self._folder = writable(FOLDER)
        target = samples.samples[0].candidate.problem.target
        names = {sample.candidate.generator for sample in samples.samples}
        states = {sample.cache for sample in samples.samples}
        self._generators: dict[str, CodeGenerator] = {
            name: stack.enter_context(find_generator(name)(workers)) for name in sorted(names)
        }
        self._measurers: dict[CacheState, QemuMeasurer] = {}
        for state in sorted(states):
            self._measurers[state] = measurer = QemuMeasurer(cache=state)
            stack.callback(measurer.close)
            measurer.require(target)
        model = read_model_file(model_path(target.arch)).data
        rules = {section: model[section] for section in model if section != "parameters"}
        self._toolchains = {
            (name, state): {
                **self._generators[name].fingerprint(),
                **self._measurers[state].fingerprint(),
                # Costs decide no events: new ones need no new run.
                "timing model": digest_of(rules),
            }
            for name in names
            for state in states
        }

    def observation(self, sample: Sample) -> Observation:
        """``sample`` with its events, from the folder if they are there."""
        toolchain = self._toolchains[sample.candidate.generator, sample.cache]
        place = self._folder / f"{_key(sample, toolchain)}.json"
        digest, events = _kept(place) or self._count(sample, place)
        if sample.object_digest is not None and not digest.startswith(sample.object_digest):
            raise self._set.error(
                sample.line,
                f"measured with object {sample.object_digest[:16]}, but here the schedule gives "
                f"{digest[:16]}",
                accepted="samples of objects that this installation compiles",
            )
        contexts = sample.candidate.problem.target.hvx_contexts
        return Observation(sample.line, digest, sample.cycles, events, contexts)

    def _count(self, sample: Sample, place: Path) -> tuple[str, Events]:
        candidate = sample.candidate
        try:
            artifact = self._generators[candidate.generator].compile(candidate)
            simulation = self._measurers[sample.cache].simulate(candidate.problem, artifact)
        except CandidateError as error:
            raise self._set.error(
                sample.line,
                f"the schedule ends with {error.outcome} here: {error.message}",
                accepted="schedules that `hvxtune measure` finds right",
            ) from None
        partial = place.with_name(f".{place.name}.{os.getpid()}.{sample.line}")
        _keep(place, partial, artifact.digest, simulation.timing.events)
        return artifact.digest, simulation.timing.events


def _key(sample: Sample, toolchain: Mapping[str, str]) -> str:
    """Names all that decides the events of ``sample``."""
    return digest_of({"candidate": sample.candidate.digest, "toolchain": dict(toolchain)})


def _kept(place: Path) -> tuple[str, Events] | None:
    """Object digest and events as kept in ``place``; ``None`` if nothing readable is."""
    try:
        data = json.loads(place.read_bytes())
        return str(data["object"]), Events.from_dict(data["events"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _keep(place: Path, partial: Path, digest: str, events: Events) -> None:
    try:
        partial.write_text(json.dumps({"object": digest, "events": events.as_dict()}))
        partial.replace(place)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise StoreError(
            f"cannot write {place}: {error.strerror}", next_step="free space or permissions there"
        ) from None
