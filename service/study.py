"""A stored job as an Optuna study, for Optuna's own tools.

The trial table stays the truth: a study is a copy, made on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tuner.errors import UserError
from tuner.problem.objectives import figures_of

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

    from db.sql_store import SqlStore
    from tuner.records.trial import Trial
    from tuner.space import Space

_FIGURES = (
    *("packets", "stalls", "core_cycles", "code_bytes", "temperature_c", "vtcm_bytes"),
    "ddr_bytes",
)


@dataclass(frozen=True)
class ExportedStudy:
    """The study that was written."""

    name: str
    trials: int


def export(store: SqlStore, job_id: str, storage_url: str) -> ExportedStudy:
    """Writes a job's finished trials as a new study ``hvxtune-JOB``.

    Raises ``UserError`` if the job is unknown, the storage cannot be opened, or the study exists.
    """
    import optuna

    job = store.job(job_id)
    space, trials = store.space(job.id), store.trials(job.id)
    name = f"hvxtune-{job.id}"
    spec = job.spec
    study = optuna.create_study(
        study_name=name,
        storage=_storage(storage_url, name),
        directions=["minimize"] * len(spec.objectives),
    )
    facts = {
        "job": job.id,
        "workload": spec.problem.workload.label,
        "contract": spec.problem.contract.value,
        "target": spec.problem.target.name,
        "goals": list(spec.objectives),
        "toolchain": dict(job.toolchain),
    }
    for key, value in facts.items():
        study.set_user_attr(key, value)
    study.add_trials(list(_frozen(space, trials, spec.objectives)))
    return ExportedStudy(name, len(trials))


def _storage(url: str, name: str) -> BaseStorage:
    """The storage behind ``url``, without a study called ``name``."""
    import logging

    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        storage = optuna.storages.RDBStorage(url)
        names = [study.study_name for study in storage.get_all_studies()]
    except (SQLAlchemyError, ImportError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"--storage '{url}' cannot be used: {reason}",
            accepted="a database URL such as sqlite:///study.db",
        ) from None
    if name in names:
        raise UserError(
            f"there is a study {name} in {url} already",
            next_step=f"remove it with: optuna delete-study --study-name {name} --storage {url}",
        )
    return storage


def _frozen(space: Space, trials: Iterable[Trial], goals: Sequence[str]) -> Iterator[FrozenTrial]:
    from optuna.distributions import CategoricalDistribution
    from optuna.trial import TrialState, create_trial

    known: dict[str, BaseDistribution] = {
        knob.name: CategoricalDistribution(knob.choices) for knob in space.knobs
    }
    for trial in trials:
        measured = trial.measurement
        attributes: dict[str, Any] = {
            "trial": trial.number,
            "origin": trial.origin,
            "outcome": trial.outcome.value,
        }
        if trial.error:
            attributes["error"] = trial.error[:2000]
        if trial.artifact_digest:
            attributes["object_digest"] = trial.artifact_digest
        aims = figures_of(measured, goals)
        if measured is not None:
            figures = {name: getattr(measured, name) for name in _FIGURES}
            attributes |= {name: value for name, value in figures.items() if value is not None}
        made = create_trial(
            state=TrialState.COMPLETE if aims is not None else TrialState.FAIL,
            values=None if aims is None else [float(figure) for figure in aims],
            params=dict(trial.config),
            distributions={name: known[name] for name in trial.config},
            user_attrs=attributes,
        )
        made.datetime_start = _local(trial.started_at)
        made.datetime_complete = _local(max(trial.finished_at, trial.started_at))
        yield made


def _local(at: float) -> datetime:
    """As Optuna keeps times: local, without a zone."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at)
    return moment.astimezone().replace(tzinfo=None)
