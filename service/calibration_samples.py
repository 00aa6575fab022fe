"""A job's promotions as the samples that ``hvxtune farm calibrate`` reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.records.trial import Job, Promotion, Trial
from tuner.search.ladder import pairs_of


def samples_of(
    job: Job, trials: Sequence[Trial], promotions: Sequence[Promotion]
) -> list[dict[str, Any]]:
    """A sample for each pair, in the form of docs/calibrating.md.

    Devices count clock cycles (``pcycles``); the model counts times of a packet.
    """
    problem = job.spec.problem
    by_number = {trial.number: trial for trial in trials}
    samples = []
    for pair in pairs_of(trials, promotions):
        trial = by_number[pair.trial]
        samples.append(
            {
                "kernel": problem.workload.kernel,
                "params": dict(problem.workload.params),
                "contract": problem.contract.value,
                "target": problem.target.name,
                "config": trial.config.as_dict(),
                "cache": pair.high.cache,
                "device": pair.high.device,
                "fidelity": pair.high.fidelity,
                "pcycles": pair.high.cycles,
                "generator": job.spec.generator,
                "object_digest": trial.artifact_digest,
            }
        )
    return samples
