"""What a client asks for: the problem it has, and what may answer it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from db.serving import Lookup
from service.schemas.params import read_params
from tuner.candidate import CACHE_STATES, FIDELITIES, CacheState, Fidelity, Problem
from tuner.contract import Contract, find_contract
from tuner.errors import UserError
from tuner.kernels import PIPELINE_PREFIX, Kernel, find_kernel
from tuner.target import DEFAULT_TARGET, find_target

DEFAULT_CONTRACT: Final = "static"


@dataclass(frozen=True)
class Asked:
    """The best-query, read and checked. ``kernel`` is the problem's; ``kept`` are the contracts
    that the caller's promises imply, weakest first."""

    kernel: Kernel
    problem: Problem
    kept: tuple[Contract, ...]
    cache: CacheState = "warm"
    min_fidelity: Fidelity = "model"
    allow_nearest: bool = False
    enqueue: bool = False
    owner: str = ""
    """Whose private schedules may answer beside the shared ones."""

    @property
    def lookup(self) -> Lookup:
        """Which stored schedules fit."""
        return Lookup(
            self.problem.workload.digest,
            self.problem.target.digest,
            self.kept,
            self.cache,
            self.min_fidelity,
            self.owner,
        )


def ask(
    kernel: str,
    params: Mapping[str, int],
    *,
    target: str = DEFAULT_TARGET,
    contract: str = DEFAULT_CONTRACT,
    cache: CacheState = "warm",
    min_fidelity: Fidelity = "model",
    allow_nearest: bool = False,
    enqueue: bool = False,
) -> Asked:
    """The query for a workload; ``UserError`` names what is wrong with it."""
    found = find_kernel(kernel)
    problem = found.problem(params, find_contract(contract), find_target(target))
    kept = found.kept_contracts(problem)
    return Asked(found, problem, kept, cache, min_fidelity, allow_nearest, enqueue)


def read_plain(query: bytes) -> Asked | None:
    """The query in an URL (after its ``?``), or ``None`` if it is not plainly right.

    Reads in microseconds what the schema of the route reads in hundreds of them. It knows no
    errors: whatever it does not take is the schema's to judge. A property test holds the two
    to the same readings.
    """
    given: dict[str, str] = {}
    params: list[str] = []
    try:
        for part in query.split(b"&"):
            name, equals, value = part.partition(b"=")
            if not equals or b"+" in value:
                return None
            text = (unquote_to_bytes(value) if b"%" in value else value).decode()
            if name == b"params":
                params.append(text)
            elif name in _PLAIN and name.decode() not in given:
                given[name.decode()] = text
            else:
                return None
        return _asked(given, params)
    except (UserError, UnicodeDecodeError):
        return None


_PLAIN: Final = frozenset(
    {b"kernel", b"target", b"contract", b"cache", b"min_fidelity", b"allow_nearest"}
)
_SWITCHES: Final = {"true": True, "false": False}
_CACHES: Final[dict[str, CacheState]] = {state: state for state in CACHE_STATES}
_FIDELITIES: Final[dict[str, Fidelity]] = {fidelity: fidelity for fidelity in FIDELITIES}


def _asked(given: Mapping[str, str], params: list[str]) -> Asked | None:
    kernel = given.get("kernel")
    cache = _CACHES.get(given.get("cache", "warm"))
    fidelity = _FIDELITIES.get(given.get("min_fidelity", "model"))
    nearest = _SWITCHES.get(given.get("allow_nearest", "false"))
    if kernel is None or kernel.startswith(PIPELINE_PREFIX):
        return None  # what is derived may take a process of its own
    if cache is None or fidelity is None or nearest is None:
        return None
    return ask(
        kernel,
        read_params(params),
        target=given.get("target", DEFAULT_TARGET),
        contract=given.get("contract", DEFAULT_CONTRACT),
        cache=cache,
        min_fidelity=fidelity,
        allow_nearest=nearest,
    )
