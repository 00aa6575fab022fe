"""Who may cancel, pause and resume a job: the same over REST and from the pages."""

from __future__ import annotations

from service.auth.caller import Caller, Scope
from service.problem_details import HttpError
from tuner.records.trial import Job, JobRequest


def may_steer(caller: Caller, job: Job) -> bool:
    """Whether ``caller`` may: one's own jobs with ``submit``, anybody's with ``operate``."""
    own = job.submission.owner == caller.owner and caller.may(Scope.SUBMIT)
    return own or caller.may(Scope.OPERATE)


def require_may_steer(caller: Caller, job: Job, request: JobRequest) -> None:
    """403 for who may not."""
    if may_steer(caller, job):
        return
    owner = job.submission.owner or "the command line"
    raise HttpError(
        403,
        f"job {job.id} is of {owner}: '{caller.name}' may not {request} it",
        accepted=f"a token of {owner}, or one with the scope {Scope.OPERATE}",
        next_step=f"ask {owner}, or whoever runs the service",
    )
