"""Tuning a Halide pipeline of one's own from Python."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Unpack

from tuner.errors import UserError
from tuner.job_result import TuneResult
from tuner.store import TrialStore
from tuner.tuning import JobOptions, tune
from tuner.uploaded import files, find_pipeline
from tuner.uploaded import kernel_name as name_of

if TYPE_CHECKING:
    import halide as hl

    from tuner.search.loop import Progress


def keep_pipeline(pipeline: hl.Func | hl.Pipeline | bytes) -> str:
    """Keeps an unscheduled pipeline in the state directory; returns its name as a kernel.

    ``pipeline`` is the output Func, the Pipeline, or what ``halide.serialize_pipeline`` gave. A
    Func or Pipeline is serialized here; whatever is opened again is opened in a contained process.
    Raises ``UserError`` if it is no pipeline, or none that can be tuned, saying why.
    """
    if isinstance(pipeline, bytes):
        data = pipeline
    else:
        import halide as hl

        if isinstance(pipeline, hl.Func):
            pipeline = hl.Pipeline(pipeline)
        if not isinstance(pipeline, hl.Pipeline):
            raise UserError(
                f"a pipeline of type {type(pipeline).__name__}",
                accepted="a halide.Func, a halide.Pipeline, or serialized bytes",
            )
        data = hl.serialize_pipeline(pipeline)
    name = name_of(files.keep(data))
    find_pipeline(name)
    return name


def tune_pipeline(
    pipeline: hl.Func | hl.Pipeline | bytes,
    params: Mapping[str, int] | None = None,
    *,
    store: TrialStore | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[JobOptions],
) -> TuneResult:
    """Tunes an unscheduled pipeline: :func:`keep_pipeline`, then :func:`tuner.tuning.tune`.

    ``params`` are the extents of the output by the names of its dimensions, and those of inputs
    that no output decides.
    """
    name = keep_pipeline(pipeline)
    return tune(name, params, store=store, on_progress=on_progress, stop=stop, **options)
