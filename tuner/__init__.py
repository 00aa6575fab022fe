"""hvxtune's tuner: kernels, spaces, code generation, measurement, search.

    import tuner
    result = tuner.tune("gemm_u8", {"m": 256, "n": 256, "k": 256}, trials=50)
    print(result.best.measurement.cycles, result.best.config.as_dict())

Knows nothing of the database, the service or the dashboards: trials go to a
:class:`tuner.store.TrialStore`, in memory unless another is given. The functions of
:mod:`tuner.tuning` are offered here; they are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.tuning import TuneResult, explain, find_problem, measure, result, run, submit, tune

__all__ = ["TuneResult", "explain", "find_problem", "measure", "result", "run", "submit", "tune"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from tuner import tuning

        return getattr(tuning, name)
    raise AttributeError(f"module 'tuner' has no attribute '{name}'")
