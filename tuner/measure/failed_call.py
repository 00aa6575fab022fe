"""The outcome of a call that returned an error."""

from __future__ import annotations

from tuner.errors import CandidateError
from tuner.measure.cases import CaseSet
from tuner.measure.image import Report
from tuner.problem.target import Target
from tuner.records.outcome import Outcome


def failed_call(report: Report, cases: CaseSet, target: Target) -> CandidateError:
    """What the candidate has earned whose last call returned ``report.result``."""
    if report.vtcm_refused_bytes:
        return CandidateError(
            Outcome.INFEASIBLE,
            f"asked for {report.vtcm_refused_bytes} bytes of VTCM; {target.name} has "
            f"{target.vtcm_bytes}",
        )
    case = cases.cases[min(report.finished_cases, len(cases.cases) - 1)].name
    reason = report.message
    if not reason and report.heap_refused_bytes:
        reason = f"no memory for {report.heap_refused_bytes} bytes"
    shown = f": {reason}" if reason else ""
    return CandidateError(Outcome.RUN_ERROR, f"returned {report.result} ({case}){shown}")
