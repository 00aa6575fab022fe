"""One network for a build: its bundle, with functions from a source or as the lock file pins them.

Only the workloads of its layers are asked of a source. The network with its weights stays here,
where the bundle is made; the lock file has the digest of all that goes into it, and of what comes
out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.client.answers import RefusedError
from service.client.cache import ClientCache
from service.fetching.fetch import Wish, not_pinned, pinned_file, require_fit
from service.fetching.pins import (
    FunctionPin,
    NetworkPin,
    function_pin,
    held,
    read_pins,
    write_pins,
)
from service.fetching.sources import NothingStoredError, Offer, Source
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.keeping.best import lookup_of
from tuner.network import Graph
from tuner.network.running.execution import STORED
from tuner.network.shipping import (
    MANIFEST,
    Bundle,
    Function,
    bundle_with,
    made_with,
    problems_of,
    require_name,
    require_place,
    write,
)
from tuner.problem.target import Target
from tuner.records.candidate import Artifact, CacheState, Problem
from tuner.space.config import Config

_CACHE: CacheState = "warm"
"""The functions of a network are called again and again."""
_NAMED = 3
"""Workloads that an error names."""


@dataclass(frozen=True)
class NetworkWish:
    """A build's request for a network, under a C identifier that names pin and bundle."""

    name: str
    graph: Graph
    target: Target

    def __post_init__(self) -> None:
        require_name(self.name)
        if self.name == "version":
            raise UserError(
                f"the name '{self.name}'", accepted="another C identifier", next_step="give --name"
            )


@dataclass(frozen=True)
class FetchedNetwork:
    """A pinned network whose bundle is in place. ``origin`` and ``notice`` as of
    :class:`service.fetching.Fetched`."""

    pin: NetworkPin
    bundle: Bundle
    origin: str
    notice: str = ""


def fetch_network(
    wish: NetworkWish,
    source: Source | None,
    *,
    place: Path,
    lock: Path,
    cache: ClientCache,
    update: bool = False,
) -> FetchedNetwork:
    """Writes the bundle of a network to ``place``, a folder or archive, and pins it in ``lock``.

    Pinned functions are taken as pinned, from the cache if possible, and must give the pinned
    bundle; ``update`` pins the best ones now. Without a ``source`` (offline) lock file and cache
    must do. Nothing is written unless all of it is right: raises ``UserError`` if a function has no
    stored schedule or the pin is for another network or target, and ``StoreError`` for an object
    that is not the pinned one or is not available.
    """
    require_place(place)
    problems = problems_of(wish.graph, wish.target)
    with held(lock):
        pins = read_pins(lock)
        known = pins.get(wish.name)
        if known is not None and not isinstance(known, NetworkPin):
            raise UserError(
                f"'{wish.name}' is a schedule in {lock}",
                next_step="choose another name with --name",
            )
        pinned = None if update else known
        notice = ""
        if pinned is not None:
            _require_pinned(wish, problems, pinned, lock)
            chosen: Sequence[FunctionPin] = pinned.functions
        elif source is None:
            raise not_pinned(wish.name, lock)
        else:
            offers = _offers(wish, problems, source)
            notice = next(filter(None, (offer.stale for offer in offers)), "")
            chosen = [
                _pin_of(wish, problem, offer, source)
                for problem, offer in zip(problems, offers, strict=True)
            ]
        objects = [pinned_file(one, "object", source, cache) for one in chosen]
        functions = map(_function, problems, chosen, objects)
        bundle = bundle_with(wish.graph, wish.name, list(functions), target=wish.target)
        pin = NetworkPin(
            network=wish.graph.digest,
            target=wish.target.name,
            bundle=digest_of_bytes(bundle.files[MANIFEST]),
            made_with=made_with(),
            functions=tuple(chosen),
        )
        if pinned is not None:
            _require_same(wish.name, pin, pinned, lock)
            pin = pinned
        for content in objects:
            cache.keep_object(content)
        write(bundle, place)
        write_pins(lock, {**pins, wish.name: pin})
    return FetchedNetwork(pin, bundle, "source" if pinned is None else "lock", notice)


def _offers(wish: NetworkWish, problems: Sequence[Problem], source: Source) -> list[Offer]:
    """The best schedules; an error names those that there are not."""
    found, missing = [], []
    for problem in problems:
        try:
            found.append(source.best(lookup_of(problem, cache=_CACHE)))
        except NothingStoredError:
            missing.append(problem)
        except RefusedError as error:
            if error.status != 404:
                raise
            missing.append(problem)
    if missing:
        named = "; ".join(problem.workload.label for problem in missing[:_NAMED])
        more = ", ..." if len(missing) > _NAMED else ""
        raise NothingStoredError(
            f"no schedule is stored for {len(missing)} of {len(problems)} functions of "
            f"{wish.graph.name} on {wish.target.name}: {named}{more}",
            next_step="tune its layers with `hvxtune network tune`, or at a service with `hvxtune "
            "tune --set` and the set that `hvxtune network import --write-set` writes",
        )
    return found


def _pin_of(wish: NetworkWish, problem: Problem, offer: Offer, source: Source) -> FunctionPin:
    """The pin of what a source offers, which may be anything."""
    require_fit(Wish(wish.name, lookup_of(problem, cache=_CACHE)), offer)
    workload = source.workload(offer)
    if workload != problem.workload.digest:
        raise UserError(
            f"the schedule {offer.schedule} for '{wish.name}' is for another version of the kernel "
            f"{problem.workload.kernel} than the one here",
            next_step="install the same version of hvxtune on both sides, or tune again",
        )
    try:
        return function_pin(
            {
                "kernel": offer.kernel,
                "params": dict(offer.params),
                "workload": workload,
                "contract": offer.contract,
                "schedule": offer.schedule,
                "symbol": offer.symbol,
                "object": offer.object_digest,
                "cycles": offer.cycles,
                "fidelity": offer.fidelity,
                "generator": offer.generator,
                "config": offer.config,
                "toolchain": offer.toolchain,
            }
        )
    except ValueError as error:
        raise UserError(f"the schedule {offer.schedule[:80]!r} of the service {error}") from None


def _function(problem: Problem, pin: FunctionPin, content: bytes) -> Function:
    return Function(
        problem=problem,
        artifact=Artifact(pin.object, pin.symbol, {"object": content}),
        config=Config(pin.config),
        generator=pin.generator,
        cycles=pin.cycles,
        fidelity=pin.fidelity,
        cache=_CACHE,
        origin=STORED,
        schedule=pin.schedule,
        contract=pin.contract,
        toolchain=pin.toolchain,
    )


def _require_pinned(
    wish: NetworkWish, problems: Sequence[Problem], pin: NetworkPin, lock: Path
) -> None:
    """That ``pin`` is for this network and target, and for kernels as they are here."""
    way = "take what was pinned, or pin this with --update"
    for what, pinned, asked in (
        ("target", pin.target, wish.target.name),
        ("the network", pin.network[:16], wish.graph.digest[:16]),
    ):
        if pinned != asked:
            raise UserError(
                f"{lock}: '{wish.name}' is pinned for {what} {pinned}, this is {asked}",
                accepted="the model that was pinned, with its weights, and with the same --axis"
                if what != "target"
                else pinned,
                next_step=way,
            )
    for function, problem in zip(pin.functions, problems, strict=False):
        if function.workload != problem.workload.digest:
            raise UserError(
                f"{lock}: the kernel {problem.workload.kernel} of '{wish.name}' has changed since "
                "it was pinned",
                next_step="install the version of hvxtune that pinned it, or tune again and pin "
                "with --update",
            )
    if len(pin.functions) != len(problems):
        raise UserError(
            f"{lock}: '{wish.name}' has {len(pin.functions)} functions, not {len(problems)}",
            next_step=way,
        )


def _require_same(name: str, made: NetworkPin, pinned: NetworkPin, lock: Path) -> None:
    """That the bundle is the pinned one."""
    if made.bundle == pinned.bundle:
        return
    changed = _changed(pinned.made_with, made.made_with)
    raise UserError(
        f"{lock}: the bundle of '{name}' is not the pinned one: "
        + (", ".join(changed) or "the same versions make other bytes here"),
        accepted="the versions that it was pinned with",
        next_step="install those, or pin what is made here with --update",
    )


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [
        f"{name} was {before.get(name, 'not used')} and is {now.get(name, 'not used')}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
