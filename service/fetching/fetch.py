"""One schedule for a build: found or taken from the lock file, verified, written out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from service.client.answers import verified
from service.client.cache import ClientCache
from service.fetching.checked_header import header_text
from service.fetching.generator_header import generator_header
from service.fetching.pins import FunctionPin, NetworkPin, Pin, held, read_pins, write_pins
from service.fetching.sources import FileKind, Offer, Source, broken_promise
from service.suggested_files import identifier
from tuner.errors import HvxtuneError, NotStoredError, StoreError, UserError
from tuner.identity import digest_of_bytes
from tuner.keeping.best import Lookup
from tuner.machine.whole_files import write_whole
from tuner.problem.contract import find_contract
from tuner.records.candidate import Problem

KINDS: tuple[FileKind, ...] = ("object", "header")


@dataclass(frozen=True)
class Wish:
    """A build's request, under a C identifier that names the pin, the files and the function."""

    name: str
    lookup: Lookup
    with_schedule: bool = False
    """Whether the ``.schedule.h`` is wanted, too."""
    source: str = ""
    """SHA-256 of the sources that say the algorithm; empty if none are named."""

    @property
    def kinds(self) -> tuple[FileKind, ...]:
        """The files that it is about."""
        return (*KINDS, *(("schedule",) if self.with_schedule else ()))

    @property
    def problem(self) -> Problem:
        """Its contract is what the caller promises."""
        return self.lookup.problem

    def __post_init__(self) -> None:
        if not (self.name.isidentifier() and self.name.isascii()) or self.name == "version":
            raise UserError(
                f"the name '{self.name}'", accepted="a C identifier", next_step="change --name"
            )


@dataclass(frozen=True)
class Fetched:
    """A pinned schedule whose files are in place. ``origin`` is ``lock`` or ``source``; ``notice``
    is for people, such as that the service did not answer."""

    pin: Pin
    origin: str
    files: Mapping[str, Path]
    notice: str = ""


def default_name(problem: Problem, label: str = "") -> str:
    """``gemm_u8_m256_n256_k256``; ``blur_x256_y48`` of an upload that people call ``blur``."""
    return identifier(problem, label).removesuffix(f"_{problem.contract}")


def fetch(
    wish: Wish,
    source: Source | None,
    *,
    folder: Path,
    lock: Path,
    cache: ClientCache,
    update: bool = False,
) -> Fetched:
    """Puts object and headers into ``folder`` and pins them in ``lock``.

    A pinned schedule is taken as pinned, from the cache if possible; ``update`` pins the best one
    now. Without a ``source`` (offline) lock file and cache must do. Nothing is written
    unless all of it is right: raises ``UserError`` if the pin is for something else or needs a
    stronger promise, ``StoreError`` for a file that is not the pinned one or is not available.
    """
    with held(lock):
        pins = read_pins(lock)
        known = pins.get(wish.name)
        if isinstance(known, NetworkPin):
            raise UserError(
                f"'{wish.name}' is a network in {lock}", next_step="choose another name with --name"
            )
        pin = None if update else known
        origin, notice = "lock", ""
        if pin is None:
            if source is None:
                raise not_pinned(wish.name, lock)
            offer = source.best(wish.lookup)
            require_fit(wish, offer)
            contents = {k: source.file(offer.schedule, offer.object_digest, k) for k in wish.kinds}
            verified(contents["object"], offer.object_digest, f"the object of {offer.schedule}")
            pin = _pin_of(wish, offer, digest_of_bytes(contents["header"]))
            origin, notice = "source", offer.stale
        else:
            _require_pinned(wish, pin, lock)
            contents = {kind: pinned_file(pin, kind, source, cache) for kind in wish.kinds}
        if wish.with_schedule:
            pin = replace(pin, schedule_file=digest_of_bytes(contents["schedule"]))
        pin = replace(pin, source=wish.source or pin.source)
        for content in contents.values():
            cache.keep_object(content)
        files = _write(wish, pin, contents, folder)
        write_pins(lock, {**pins, wish.name: pin})
    return Fetched(pin, origin, files, notice)


def not_pinned(name: str, lock: Path) -> UserError:
    """The error for what must be in ``lock``, and is not."""
    return NotStoredError(
        f"'{name}' is not pinned in {lock}, and offline nothing else can be asked",
        next_step="fetch it once with a service, without --offline",
    )


def require_fit(wish: Wish, offer: Offer | Pin) -> None:
    """That the schedule is for this kernel, shape and target, and its contract is promised."""
    problem = wish.problem
    asked = (problem.workload.kernel, dict(problem.workload.params), problem.target.name)
    given = (offer.kernel, dict(offer.params), offer.target)
    for what, wanted, found in zip(("kernel", "params", "target"), asked, given, strict=True):
        if wanted != found:
            raise UserError(
                f"the schedule {offer.schedule} for '{wish.name}' is for {what} {_text(found)}, "
                f"asked for is {_text(wanted)}"
            )
    broken = broken_promise(problem, find_contract(offer.contract))
    if broken is not None:
        raise UserError(
            f"the contract does not hold: the schedule {offer.schedule} for '{wish.name}' needs "
            f"'{offer.contract}', {broken}"
        )


def _text(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={number}" for name, number in sorted(value.items()))
    return str(value)


def _require_pinned(wish: Wish, pin: Pin, lock: Path) -> None:
    try:
        require_fit(wish, pin)
        if wish.source and pin.source and wish.source != pin.source:
            raise _changed(wish)
        lookup = wish.lookup
        for what, pinned, fits, asked in (
            ("for caches", pin.cache, pin.cache == lookup.cache, lookup.cache),
            ("of fidelity", pin.fidelity, pin.fidelity in lookup.fidelities, lookup.min_fidelity),
            ("the", pin.prefer, pin.prefer == lookup.prefer, lookup.prefer),
        ):
            if not fits:
                raise UserError(
                    f"the schedule {pin.schedule} for '{wish.name}' is {what} {pinned}, "
                    f"asked for is {asked}"
                )
    except UserError as error:
        error.message = f"{lock}: {error.message}"
        error.next_step = error.next_step or (
            "promise and build what was pinned, or pin what is best for this with --update"
        )
        raise


def _changed(wish: Wish) -> UserError:
    return UserError(
        f"the sources of '{wish.name}' have changed since its schedule was pinned",
        accepted="the sources that the schedule was found for",
        next_step="upload and tune the pipeline again, then pin with --update; if only the "
        "schedule in them changed, --update alone does",
    )


def _pin_of(wish: Wish, offer: Offer, header_digest: str) -> Pin:
    return Pin(
        kernel=offer.kernel,
        params=offer.params,
        target=offer.target,
        contract=offer.contract,
        schedule=offer.schedule,
        symbol=offer.symbol,
        object=offer.object_digest,
        header=header_digest,
        cycles=offer.cycles,
        fidelity=offer.fidelity,
        cache=wish.lookup.cache,
        prefer=wish.lookup.prefer,
    )


def pinned_file(
    pin: Pin | FunctionPin, kind: FileKind, source: Source | None, cache: ClientCache
) -> bytes:
    """A file of the schedule of ``pin``, from the cache if it is there. ``StoreError`` if it is not
    available, or not the pinned one."""
    known = pin.digest(kind)
    content = cache.object(known) if known else None
    if content is not None:
        return content
    what = f"the {kind} of the pinned schedule {pin.schedule}"
    if source is None:
        raise StoreError(
            f"{what} is not in the cache, and offline it cannot be fetched",
            next_step="fetch it once with a service, without --offline",
        )
    try:
        content = source.file(pin.schedule, pin.object, kind)
    except HvxtuneError as error:
        error.message = f"{what} cannot be fetched: {error.message}"
        raise
    return verified(content, known, what) if known else content


def _write(
    wish: Wish, pin: Pin, contents: Mapping[FileKind, bytes], folder: Path
) -> dict[str, Path]:
    if pin.symbol == wish.name:
        raise UserError(
            f"the name '{wish.name}' is that of the compiled function",
            next_step="choose another with --name",
        )
    checks = header_text(wish.name, wish.problem, find_contract(pin.contract), pin.symbol)
    places = {
        "object": (folder / f"{wish.name}.o", contents["object"]),
        "halide_header": (folder / f"{pin.symbol}.h", contents["header"]),
        "header": (folder / f"{wish.name}.h", checks.encode()),
    }
    if "schedule" in contents:
        text = generator_header(wish.name, wish.problem, pin, contents["schedule"].decode())
        places["schedule"] = (folder / f"{wish.name}.schedule.h", text.encode())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for place, content in places.values():
            # Unchanged files keep their times, so that nothing is built again.
            if not place.exists() or place.read_bytes() != content:
                write_whole(place, content)
    except OSError as error:
        raise UserError(
            f"cannot write into {folder}: {error.strerror}", accepted="a folder you can write to"
        ) from None
    return {kind: place for kind, (place, _) in places.items()}
