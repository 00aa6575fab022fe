"""The best-query as clients put it: read, checked and turned into a lookup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from db.pipelines import KernelName
from service.schemas.params import read_params
from tuner.errors import UserError
from tuner.keeping.best import Lookup
from tuner.kernels import PIPELINE_PREFIX, Kernel, find_kernel
from tuner.problem.contract import Contract, find_contract
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.target import Target, find_target
from tuner.records.candidate import (
    CACHE_STATES,
    FIDELITIES,
    PREFERENCES,
    CacheState,
    Fidelity,
    Preference,
    Problem,
)
from tuner.records.request import DEFAULT_CONTRACT


@dataclass(frozen=True)
class Asked:
    """The best-query, read and checked. ``kernel`` is that of the lookup's problem; the lookup's
    audience is the owner of the token that asks."""

    kernel: Kernel
    lookup: Lookup
    allow_nearest: bool = False
    enqueue: bool = False

    @property
    def problem(self) -> Problem:
        """The problem in question, under the contract that the caller promises."""
        return self.lookup.problem


def ask(
    kernel: KernelName,
    params: Mapping[str, int],
    *,
    target: str = DEFAULT_TARGET,
    contract: str = DEFAULT_CONTRACT,
    cache: CacheState = "warm",
    min_fidelity: Fidelity = "model",
    prefer: Preference = "robust",
    allow_nearest: bool = False,
    enqueue: bool = False,
    owner: str,
) -> Asked:
    """The query for a workload; ``UserError`` names what is wrong with it."""
    found = find_kernel(kernel)
    problem = found.problem(params, find_contract(contract), find_target(target))
    contracts = found.kept_contracts(problem)
    lookup = Lookup(problem, contracts, cache, min_fidelity, audience=owner, prefer=prefer)
    return Asked(found, lookup, allow_nearest, enqueue)


def read_plain(query: bytes, owner: str) -> Asked | None:
    """The query in an URL (after its ``?``) of ``owner``, or ``None`` if it is not plainly right.

    Reads in microseconds what the schema of the route reads in hundreds of them. It knows no
    errors: whatever it does not take is the schema's to judge. A property test holds the two
    to the same readings.
    """
    params: list[str] = []
    others: list[bytes] = []
    try:
        for part in query.split(b"&"):
            if part.startswith(_PARAM):
                if b"+" in part:
                    return None
                params.append(_unquoted(part[len(_PARAM) :]))
            else:
                others.append(part)
        terms = _terms(b"&".join(others))
        return None if terms is None else _asked(terms, read_params(params), owner)
    except (UserError, UnicodeDecodeError):
        return None


_PARAM: Final = b"param="


def _unquoted(value: bytes) -> str:
    if b"%" not in value:
        return value.decode()
    # The escapes that HTTP clients write between parameters, and nearly always the only ones.
    value = value.replace(b"%3D", b"=").replace(b"%2C", b",")
    return (unquote_to_bytes(value) if b"%" in value else value).decode()


class _Terms(NamedTuple):
    """All of a query but the parameters: the same for most workloads of a model."""

    kernel: str
    target: Target
    contract: Contract
    cache: CacheState
    min_fidelity: Fidelity
    prefer: Preference
    allow_nearest: bool


_NAMES: Final = frozenset(
    {b"kernel", b"target", b"contract", b"cache", b"min_fidelity", b"prefer", b"allow_nearest"}
)
_PREFERENCES: Final[dict[str, Preference]] = {prefer: prefer for prefer in PREFERENCES}
_SWITCHES: Final = {"true": True, "false": False}
_CACHES: Final[dict[str, CacheState]] = {state: state for state in CACHE_STATES}
_FIDELITIES: Final[dict[str, Fidelity]] = {fidelity: fidelity for fidelity in FIDELITIES}


@lru_cache(maxsize=1024)
def _terms(others: bytes) -> _Terms | None:
    """The parts of a query other than parameters; ``None`` if one is not plainly right. Kept: the
    result depends on nothing else."""
    given: dict[str, str] = {}
    for part in others.split(b"&"):
        name, equals, value = part.partition(b"=")
        if not equals or b"+" in value or name not in _NAMES or name.decode() in given:
            return None
        given[name.decode()] = _unquoted(value)
    kernel = given.get("kernel")
    cache = _CACHES.get(given.get("cache", "warm"))
    fidelity = _FIDELITIES.get(given.get("min_fidelity", "model"))
    prefer = _PREFERENCES.get(given.get("prefer", "robust"))
    nearest = _SWITCHES.get(given.get("allow_nearest", "false"))
    if kernel is None or kernel.startswith(PIPELINE_PREFIX):
        return None  # what is derived may take a process of its own
    if cache is None or fidelity is None or prefer is None or nearest is None:
        return None
    target = find_target(given.get("target", DEFAULT_TARGET))
    contract = find_contract(given.get("contract", DEFAULT_CONTRACT))
    return _Terms(kernel, target, contract, cache, fidelity, prefer, nearest)


def _asked(terms: _Terms, params: Mapping[str, int], owner: str) -> Asked:
    kernel = find_kernel(terms.kernel)
    problem = kernel.problem(params, terms.contract, terms.target)
    contracts = kernel.kept_contracts(problem)
    lookup = Lookup(problem, contracts, terms.cache, terms.min_fidelity, "", owner, terms.prefer)
    return Asked(kernel, lookup, terms.allow_nearest)
