"""Which stored schedule is the best: the question, the order, and that the answer is valid.

The command line, fetching, REST, pages and Python all ask :meth:`tuner.store.TrialStore.best` with
a :class:`Lookup`. A store finds what fits by any means it likes, puts it in order by :func:`rank`,
and answers with the :func:`first_valid`. Caches in front of a store may only remember its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from tuner.identity import digest_of
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.records.candidate import FIDELITIES, CacheState, Fidelity, Problem

T = TypeVar("T")
Rank = tuple[int, float, str, int, int]

_HEIGHTS: dict[str, int] = {fidelity: height for height, fidelity in enumerate(FIDELITIES)}
_LEVELS: dict[str, int] = {contract.value: contract.level for contract in Contract}
_NO_LOWER: Final[dict[str, tuple[Fidelity, ...]]] = {
    least: FIDELITIES[height:] for height, least in enumerate(FIDELITIES)
}
MOST_SET_ASIDE = 20
"""Schedules found invalid in one lookup: where a kernel's space changed, hundreds may be. The next
lookup goes on from there."""


class Lookup(NamedTuple):
    """Asks for the best schedule of a problem. A plain tuple: best-queries make one each.

    Schedules fit that were made for the problem's workload and target under any of ``contracts``,
    measured with caches in state ``cache`` at ``min_fidelity`` or higher, and with the toolchain
    of digest ``toolchain`` if that is given. ``audience`` is the tenant whose private schedules
    count beside the shared ones.
    """

    problem: Problem
    """Its contract is the one the caller promises."""
    contracts: tuple[Contract, ...]
    """Every contract that the caller's implies for this shape, its own included."""
    cache: CacheState = "warm"
    min_fidelity: Fidelity = "model"
    toolchain: str = ""
    audience: str = ""

    @property
    def fidelities(self) -> tuple[Fidelity, ...]:
        """Those that are high enough."""
        return _NO_LOWER[self.min_fidelity]

    def stored_under(self, contract: str) -> Problem:
        """The problem of a schedule that fits and was made under ``contract``."""
        problem = self.problem
        if contract == problem.contract:
            return problem
        return Problem(problem.workload, Contract(contract), problem.target)


def lookup_of(
    problem: Problem,
    *,
    cache: CacheState = "warm",
    min_fidelity: Fidelity = "model",
    toolchain: Mapping[str, str] | None = None,
    audience: str = "",
) -> Lookup:
    """The lookup of a caller that keeps the problem's contract: schedules under every contract it
    implies fit. ``UserError`` if the kernel is unknown."""
    contracts = find_kernel(problem.workload.kernel).kept_contracts(problem)
    digest = "" if toolchain is None else digest_of(dict(toolchain))
    return Lookup(problem, contracts, cache, min_fidelity, digest, audience)


def rank(
    fidelity: str, toolchain_used_at: float, toolchain_digest: str, cycles: int, contract: str
) -> Rank:
    """A key that sorts schedules for the same workload, target and cache state best first.

    The highest fidelity, then the toolchain used last: cycles are compared only within both. There
    the fewest cycles win, under whichever contract, and at the same cycles the contract that
    demands most: the caller keeps it anyway. Digests decide between toolchains that were used last
    at the same moment.
    """
    return (
        -_HEIGHTS[fidelity],
        -toolchain_used_at,
        toolchain_digest,
        cycles,
        -_LEVELS[contract],
    )


def first_valid(
    fitting: Callable[[], Iterable[T]],
    fault: Callable[[T], str],
    set_aside: Callable[[T, str], Any],
) -> T | None:
    """The first of ``fitting()``, which come best first, that has no ``fault``.

    The others are ``set_aside`` with their fault on the way, after which ``fitting`` is asked
    again: the next best trial may have taken the place. ``None`` if none is left, or after
    :data:`MOST_SET_ASIDE`. Works too where nothing can be set aside, as in a read-only database.
    """
    faulty: list[T] = []
    while len(faulty) < MOST_SET_ASIDE:
        found = next((one for one in fitting() if one not in faulty), None)
        if found is None:
            return None
        reason = fault(found)
        if not reason:
            return found
        faulty.append(found)
        set_aside(found, reason)
    return None
