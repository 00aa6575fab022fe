"""The files of one call of the driver, on a phone or in a simulator: queue and candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.measure.dsp.problem_image import ProblemImage
from tuner.measure.dsp.queue_file import QueuedEntry, QueuedProblem, packed_queue
from tuner.measure.dsp.turn import Turn


@dataclass(frozen=True)
class BundleFiles:
    """``objects`` are shared objects by name, each content once; ``queue`` names them and the
    problems in the order of the turns."""

    queue: bytes
    objects: Mapping[str, bytes] = field(hash=False)


def images_of(turns: Sequence[Turn]) -> list[ProblemImage]:
    """The problems of a call, each once."""
    return list({turn.image.digest: turn.image for turn in turns}.values())


def output_name(number: int) -> str:
    """The file that what turn ``number`` made of memory goes to."""
    return f"{number:03}.out"


def bundle_files(
    turns: Sequence[Turn],
    path_of: Callable[[ProblemImage], str],
    nonce: bytes,
    heap_bytes: int,
) -> BundleFiles:
    """The files of a call of ``turns``; ``path_of`` says where a problem's image lies there."""
    images = images_of(turns)
    numbers = {image.digest: number for number, image in enumerate(images)}
    names: dict[bytes, str] = {}
    entries = [
        QueuedEntry(
            problem=numbers[turn.image.digest],
            cases=turn.image.case_count if turn.verified else 1,
            warm_ups=turn.warm_ups,
            repeats=turn.repeats,
            object_name=names.setdefault(turn.content, f"{len(names):03}.so"),
            output_name=output_name(number) if turn.verified else "",
            budget_cycles=turn.budget_cycles,
        )
        for number, turn in enumerate(turns)
    ]
    problems = [QueuedProblem(path_of(one), len(one.content), one.outputs) for one in images]
    queue = packed_queue(nonce, problems, entries, heap_bytes)
    return BundleFiles(queue, {name: content for content, name in names.items()})
