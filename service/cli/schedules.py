"""Commands for builds: ``best`` shows the best stored schedule, ``fetch`` puts it in place."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.connecting import connected
from service.cli.networks import AxisTexts, bundle_lines, read_network
from service.cli.options import (
    DEFAULT_CONTRACT,
    AsJson,
    CacheName,
    ContractName,
    HeaderFile,
    KernelName,
    ObjectFile,
    OptionalKernelName,
    OptionalTargetName,
    ParamTexts,
    ScheduleFile,
    ServerAddress,
    TargetName,
    kernel_in,
    read_params,
    read_problem,
    read_server,
)
from service.cli.output import print_json, print_line, print_sentence
from service.cli.summary import form_label, print_config, print_doubt, print_figures, print_loose
from service.labels import shown_name
from service.suggested_files import way_to
from tuner.errors import NotStoredError, UserError
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.candidate import Fidelity, Preference

if TYPE_CHECKING:
    from service.client import Best
    from service.client.blocking import BestOptions, FileKind
    from service.fetching import Fetched
    from service.fetching.sources import Source

DEFAULT_LOCK = Path("hvxtune.lock")
Prefer = Annotated[
    Preference,
    typer.Option(
        "--prefer",
        help="Which comes first: robust (fewest expected cycles) or fastest (fewest cycles).",
    ),
]
LeastFidelity = Annotated[
    Fidelity,
    typer.Option(
        "--min-fidelity", help="The least fidelity to accept; the highest stored comes first."
    ),
]


def best(
    kernel: KernelName,
    param: ParamTexts = None,
    target: OptionalTargetName = None,
    contract: ContractName = DEFAULT_CONTRACT,
    cache: CacheName = "warm",
    min_fidelity: LeastFidelity = "model",
    prefer: Prefer = "robust",
    object_file: ObjectFile = None,
    header_file: HeaderFile = None,
    schedule_file: ScheduleFile = None,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Give the best stored schedule of KERNEL."""
    places: dict[FileKind, Path | None] = {
        "object": object_file,
        "header": header_file,
        "schedule": schedule_file,
    }
    wanted = {kind: path for kind, path in places.items() if path is not None}
    options: BestOptions = {
        "contract": contract,
        "cache": cache,
        "min_fidelity": min_fidelity,
        "prefer": prefer,
    }
    if target is not None:
        options["target"] = target
    with connected(server) as client:
        found = client.best(kernel_in(kernel), read_params(param), **options)
        files = {str(kind): client.file(found, kind) for kind in wanted}
        doubt = None if found.from_cache else client.doubt(found)
    form = _best_json(found, doubt)
    for kind, path in wanted.items():
        write_file(path, files, kind)
    if as_json:
        print_json(form)
        return
    print_sentence(form_label(form))
    print_figures(form)
    print_doubt(form["doubt"])
    print_config(form["config"])
    print_line(f"symbol {form['symbol']}, object {form['object_digest'][:16]}, {form['prefer']}")
    for kind, path in wanted.items():
        print_line(f"wrote {path} ({kind})")


def _best_json(found: Best, doubt: dict[str, Any] | None) -> dict[str, Any]:
    """What ``best --json`` prints; a warning where it is an old answer."""
    from service.fetching.sources import age_text

    if found.from_cache:
        sys.stderr.write(
            f"warning: {found.reason}; this is its answer of {age_text(found.age_s)} ago\n"
        )
    toolchain = found.document.get("toolchain")
    provenance = {**found.document["provenance"]} | ({"toolchain": toolchain} if toolchain else {})
    more = {"from_cache": found.from_cache, "doubt": doubt, "provenance": provenance}
    return {**found.document, **more}


def write_file(path: Path, files: Mapping[str, bytes], kind: str) -> None:
    """Writes a file whole or not at all: a build must never link half an object."""
    from tuner.machine.whole_files import write_whole

    if kind not in files:
        raise UserError(
            f"this schedule has no {kind}", accepted=", ".join(files), next_step=way_to(kind)
        )
    try:
        write_whole(path, files[kind])
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}", accepted="a file in a folder you can write to"
        ) from None


def fetch(
    kernel: OptionalKernelName = None,
    network: Annotated[
        Path | None,
        typer.Option(
            "--network",
            metavar="FILE",
            help="In place of KERNEL: an int8 ONNX or TFLite model, whose bundle becomes "
            "the folder DIR/NAME.",
        ),
    ] = None,
    axis: AxisTexts = None,
    param: ParamTexts = None,
    target: TargetName = DEFAULT_TARGET,
    contract: ContractName = DEFAULT_CONTRACT,
    cache: CacheName = "warm",
    min_fidelity: LeastFidelity = "model",
    prefer: Prefer = "robust",
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Write the files there (here); of a network also NAME.tar.gz.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="Names the files, the function and the pin; by default kernel and shape, or the "
            "name of the network's FILE.",
            show_default=False,
        ),
    ] = None,
    lock: Annotated[
        Path, typer.Option("--lock", metavar="FILE", help="The lock file.")
    ] = DEFAULT_LOCK,
    update: Annotated[
        bool,
        typer.Option(
            "--update", help="Pin what is best now; without KERNEL, for all pins of the lock file."
        ),
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no service: lock file and cache must do.")
    ] = False,
    schedule: Annotated[
        bool,
        typer.Option("--schedule", help="Also NAME.schedule.h, for a C++ Generator to apply."),
    ] = False,
    source: Annotated[
        list[Path] | None,
        typer.Option(
            "--source",
            metavar="FILE",
            help="A source of the algorithm; once per file. Pinned, so that a change is noticed.",
        ),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Ask no service: take schedules from a file that `hvxtune db export` or a service "
            "wrote.",
        ),
    ] = None,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Put object and headers of KERNEL's best schedule where a build finds them, and pin them.

    With --network, all that a program needs to run a network (see `hvxtune network bundle`).
    """
    if update and offline:
        raise UserError("--update with --offline", next_step="leave one out")
    if archive is not None and (offline or server is not None):
        other = "--offline" if offline else "--server"
        raise UserError(f"--from with {other}", next_step="leave one out")
    pinning = Pinning(lock, update=update, offline=offline, server=server, archive=archive)
    if network is not None:
        refused = {
            "KERNEL": kernel is not None,
            "--param": bool(param),
            "--contract": contract != DEFAULT_CONTRACT,
            "--cache": cache != "warm",
            "--min-fidelity": min_fidelity != "model",
            "--prefer": prefer != "robust",
            "--schedule": schedule,
            "--source": bool(source),
        }
        for option, given in refused.items():
            if given:
                raise UserError(f"--network with {option}", next_step=f"leave {option} out")
        _fetch_network(network, axis, name, target, output or Path(), pinning, as_json=as_json)
        return
    if axis:
        raise UserError(f"--axis {axis[0]} without --network", next_step="leave it out")
    if kernel is None and update:
        _update_all(pinning, output, as_json=as_json)
        return
    if kernel is None:
        raise UserError(
            "fetch without KERNEL",
            accepted="the name of a kernel, or --network FILE",
            next_step="`hvxtune kernel list` lists kernels",
        )
    from service.client.cache import ClientCache
    from service.fetching import Wish
    from service.fetching import fetch as fetch_files
    from service.fetching.fetch import default_name
    from service.fetching.generator_header import digest_of_sources
    from tuner.keeping.best import lookup_of

    problem = read_problem(kernel, param, target, contract)
    called = shown_name(problem.workload.kernel)
    lookup = lookup_of(problem, cache=cache, min_fidelity=min_fidelity, prefer=prefer)
    sources = digest_of_sources(source or ())
    wish = Wish(name or default_name(problem, called), lookup, schedule, sources)
    with pinning.source() as offers:
        fetched = fetch_files(
            wish, offers, folder=output or Path(), lock=lock, cache=ClientCache(), update=update
        )
    if fetched.notice:
        sys.stderr.write(f"warning: {wish.name}: {fetched.notice}\n")
    if as_json:
        print_json(_fetched_json(wish.name, fetched))
        return
    pin = fetched.pin
    verb = "pinned" if fetched.origin == "source" else "as pinned"
    print_line(
        f"{wish.name}: schedule {pin.schedule}, {pin.cycles:,} cycles ({pin.fidelity}), "
        f"contract {pin.contract}, {verb} in {lock}"
    )
    print_loose(problem)
    for path in fetched.files.values():
        print_line(f"  {path}")


def _update_all(pinning: Pinning, output: Path | None, *, as_json: bool) -> None:
    """Pins the best schedule now for every function in the lock file. Files are written where that
    is asked; builds find them in the cache. Networks are left: to pin one takes its model."""
    from tempfile import TemporaryDirectory

    from service.client.cache import ClientCache
    from service.fetching import Wish
    from service.fetching import fetch as fetch_files
    from service.fetching.pins import Pin, read_pins
    from tuner.jobs.tuning import find_problem
    from tuner.keeping.best import lookup_of

    pins = read_pins(pinning.lock)
    if not pins:
        raise NotStoredError(
            f"{pinning.lock} pins nothing", next_step="`hvxtune fetch KERNEL` pins a schedule"
        )
    done = []
    with pinning.source() as offers, TemporaryDirectory() as aside:
        for name, pin in sorted(pins.items()):
            if not isinstance(pin, Pin):
                sys.stderr.write(f"{name}: a network; `hvxtune fetch --network` updates it\n")
                continue
            problem = find_problem(pin.kernel, pin.params, pin.target, pin.contract)
            lookup = lookup_of(
                problem,
                cache="cold" if pin.cache == "cold" else "warm",
                prefer="fastest" if pin.prefer == "fastest" else "robust",
            )
            wish = Wish(name, lookup, bool(pin.schedule_file), pin.source)
            folder = output or Path(aside)
            fetched = fetch_files(
                wish, offers, folder=folder, lock=pinning.lock, cache=ClientCache(), update=True
            )
            done.append({**_fetched_json(name, fetched), "cycles_before": pin.cycles})
    if as_json:
        print_json({"pins": done})
        return
    for one in done:
        print_line(f"{one['name']}: {one['cycles']:,} cycles, before {one['cycles_before']:,}")


def _fetched_json(name: str, fetched: Fetched) -> dict[str, object]:
    pin = fetched.pin
    return {
        "name": name,
        "kernel": pin.kernel,
        "params": dict(pin.params),
        "contract": pin.contract,
        "target": pin.target,
        "schedule": pin.schedule,
        "symbol": pin.symbol,
        "object_digest": pin.object,
        "cycles": pin.cycles,
        "fidelity": pin.fidelity,
        "files": {kind: str(path.absolute()) for kind, path in fetched.files.items()},
        "from_lock": fetched.origin == "lock",
        "notice": fetched.notice,
    }


@dataclass(frozen=True)
class Pinning:
    """The options of ``fetch`` on what is pinned: the lock file, and where schedules come from."""

    lock: Path
    update: bool
    offline: bool
    server: str | None
    archive: Path | None

    @contextmanager
    def source(self) -> Iterator[Source | None]:
        """The file, the service, or the store of this machine; ``None`` if offline."""
        from service.fetching.sources import LocalSource, ServerSource

        if self.offline:
            yield None
        elif self.archive is not None:
            from db.exchange import opened

            with opened(self.archive) as store:
                yield LocalSource(store)
        elif read_server(self.server) is not None:
            with connected(self.server) as client:
                yield ServerSource(client)
        else:
            from db import open_trials

            with open_trials() as store:
                yield LocalSource(store)


def _fetch_network(
    model: Path,
    axis: list[str] | None,
    name: str | None,
    target: str,
    output: Path,
    pinning: Pinning,
    *,
    as_json: bool,
) -> None:
    from service.client.cache import ClientCache
    from service.fetching.network import NetworkWish, fetch_network
    from tuner.network.shipping import SUFFIX, require_name
    from tuner.problem.target import find_target

    chosen, called = find_target(target), name or model.stem
    require_name(called)
    wish = NetworkWish(called, read_network(model, axis), chosen)
    place = output if output.name.endswith(SUFFIX) else output / called
    with pinning.source() as offers:
        fetched = fetch_network(
            wish,
            offers,
            place=place,
            lock=pinning.lock,
            cache=ClientCache(),
            update=pinning.update,
        )
    if fetched.notice:
        sys.stderr.write(f"warning: {called}: {fetched.notice}\n")
    from_lock = fetched.origin == "lock"
    if as_json:
        about: dict[str, object] = {"output": str(place.absolute()), "bundle": fetched.pin.bundle}
        about |= {"from_lock": from_lock, "notice": fetched.notice}
        print_json({**about, **fetched.bundle.manifest})
        return
    for line in bundle_lines(fetched.bundle, place):
        print_line(line)
    print_line(f"{called}: {'as pinned' if from_lock else 'pinned'} in {pinning.lock}")
