"""Which stored schedule is the best: the question, the order, and that the answer is valid.

The command line, fetching, REST, pages and Python all ask
:meth:`tuner.keeping.store.TrialStore.best` with a :class:`Lookup`. A store finds what fits by any
means it likes, puts it in order by
:func:`in_order`, and answers with the :func:`first_valid`. Caches in front of a store may only
remember its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from tuner.identity import digest_of
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import TARGETS
from tuner.records.candidate import FIDELITIES, CacheState, Fidelity, Preference, Problem

T = TypeVar("T")
Rank = tuple[int, int, int, int]
Standing = tuple[str, float, str, int, str]
"""The figures of a schedule that decide its place: fidelity, when its toolchain was used last, the
digest of that, cycles (expected ones, for the robust), contract."""

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
    count beside the shared ones. ``prefer`` decides which of them comes first, whatever the jobs
    preferred that found them.
    """

    problem: Problem
    """Its contract is the one the caller promises."""
    contracts: tuple[Contract, ...]
    """Every contract that the caller's implies for this shape, its own included."""
    cache: CacheState = "warm"
    min_fidelity: Fidelity = "model"
    toolchain: str = ""
    audience: str = ""
    prefer: Preference = "robust"

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
    prefer: Preference = "robust",
) -> Lookup:
    """The lookup of a caller that keeps the problem's contract: schedules under every contract it
    implies fit. ``UserError`` if the kernel is unknown."""
    contracts = find_kernel(problem.workload.kernel).kept_contracts(problem)
    digest = "" if toolchain is None else digest_of(dict(toolchain))
    return Lookup(problem, contracts, cache, min_fidelity, digest, audience, prefer)


def other_targets(lookup: Lookup, is_stored: Callable[[Lookup], bool]) -> list[str]:
    """The targets besides the one asked for that have a schedule for the same question."""
    workload, contract, own = (
        lookup.problem.workload,
        lookup.problem.contract,
        lookup.problem.target,
    )
    return [
        target.name
        for target in TARGETS.values()
        if target != own and is_stored(lookup._replace(problem=Problem(workload, contract, target)))
    ]


def in_order(
    found: Iterable[T],
    standing: Callable[[T], Standing],
    fingerprint: Callable[[str], Mapping[str, str]],
) -> list[T]:
    """``found``, schedules for the same workload, target and cache state, best first.

    The highest fidelity, then the :func:`tiers` of toolchains: cycles are compared only within
    both. There the fewest cycles win, under whichever contract, and at the same cycles the contract
    that demands most: the caller keeps it anyway. ``fingerprint`` gives that of a toolchain's
    digest; it is asked only if several toolchains are among ``found``.
    """
    standings = [(standing(one), one) for one in found]
    tier = tiers({one[2]: one[1] for one, _ in standings}, fingerprint)

    def rank(known: tuple[Standing, T]) -> Rank:
        fidelity, _, toolchain, cycles, contract = known[0]
        return -_HEIGHTS[fidelity], tier[toolchain], cycles, -_LEVELS[contract]

    return [one for _, one in sorted(standings, key=rank)]


def tiers(
    used_at: Mapping[str, float], fingerprint: Callable[[str], Mapping[str, str]]
) -> dict[str, int]:
    """Which toolchains, of those with the digests ``used_at``, are compared by cycles: those with
    the same number. 0 has the one that was used last, and of every other code generator the last
    one that agrees with it, and with each other, in all that both name: simulator, timing model,
    compilers. The rest is divided in the same way. Digests decide between toolchains that were
    used last at the same moment.
    """
    if len(used_at) == 1:
        return dict.fromkeys(used_at, 0)
    left = sorted(used_at, key=lambda digest: (-used_at[digest], digest))
    named = {digest: fingerprint(digest) for digest in left}
    found: dict[str, int] = {}
    for tier in range(len(left)):
        together: list[str] = []
        for digest in left:
            if all(_comparable(named[digest], named[other]) for other in together):
                together.append(digest)
        found |= dict.fromkeys(together, tier)
        left = [digest for digest in left if digest not in found]
    return found


def _comparable(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether they differ in nothing but the code generator and what only one of them has."""
    both = one.keys() & other.keys() - {"generator"}
    is_another = one.get("generator") != other.get("generator")
    return is_another and all(one[name] == other[name] for name in both)


def first_valid(
    fitting: Callable[[], Iterable[T]],
    fault: Callable[[T], str],
    set_aside: Callable[[T, str], Any],
) -> T | None:
    """The first of ``fitting()``, which come best first, that is without ``fault``.

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
