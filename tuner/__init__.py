"""hvxtune's tuner: kernels, spaces, code generation, measurement, search.

    import tuner
    result = tuner.tune("gemm_u8", {"m": 256, "n": 256, "k": 256}, trials=50)
    print(result.best.measurement.cycles, result.best.config.as_dict())

    result = tuner.tune_pipeline(an_unscheduled_halide_func, {"x": 512, "y": 64})

Knows nothing of the database, the service or the dashboards: trials go to a
:class:`tuner.keeping.store.TrialStore`, in memory unless another is given. The functions of
:mod:`tuner.jobs.tuning` are offered here; they are imported on first use.

This module puts the house together: a room that others below it have to find is named here, and by
no room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.registry import add_family

if TYPE_CHECKING:
    from tuner.jobs.job_result import TuneResult, result
    from tuner.jobs.tuning import find_problem, run, submit, tune, tune_pipeline

__all__ = [
    "TuneResult",
    "find_problem",
    "result",
    "run",
    "submit",
    "tune",
    "tune_pipeline",
]

add_family("hvxtune.kernels", "pipeline:", "tuner.uploaded:UploadedPipelines")
add_family("hvxtune.kernels", "package:", "tuner.packages:Packages")
add_family("hvxtune.kernels", "blocked:", "tuner.kernels.blocked:BlockedKernels")
add_family("hvxtune.derivations", "", "tuner.uploaded.derived:Derivations")


def __dir__() -> list[str]:
    """What is for others, imported on first use: ``help(tuner)`` shows it."""
    return list(__all__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        from tuner.jobs import tuning

        return getattr(tuning, name)
    raise AttributeError(f"module 'tuner' has no attribute '{name}'")
