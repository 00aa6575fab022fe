"""What builds call: ``fetch``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.options import (
    DEFAULT_CONTRACT,
    AsJson,
    CacheName,
    ContractName,
    KernelName,
    ParamTexts,
    ServerAddress,
    TargetName,
    read_problem,
    read_server,
)
from service.cli.output import print_json, print_line
from service.cli.summary import print_loose, shown_name
from tuner.errors import UserError
from tuner.problem.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from service.fetching import Fetched
    from service.fetching.sources import Source

DEFAULT_LOCK = Path("hvxtune.lock")


def fetch(
    kernel: KernelName,
    param: ParamTexts = None,
    target: TargetName = DEFAULT_TARGET,
    contract: ContractName = DEFAULT_CONTRACT,
    cache: CacheName = "warm",
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Write the files there.")
    ] = Path(),
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="Names the files, the function and the pin; by default kernel and shape.",
            show_default=False,
        ),
    ] = None,
    lock: Annotated[
        Path, typer.Option("--lock", metavar="FILE", help="The lock file.")
    ] = DEFAULT_LOCK,
    update: Annotated[
        bool, typer.Option("--update", help="Pin what is best now, whatever is pinned.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask nobody: lock file and cache must do.")
    ] = False,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Put object and headers of KERNEL's best schedule where a build finds them, and pin them."""
    from service.client.cache import ClientCache
    from service.fetching import Wish
    from service.fetching import fetch as fetch_files
    from service.fetching.fetch import default_name

    if update and offline:
        raise UserError("--update with --offline", next_step="leave one out")
    problem = read_problem(kernel, param, target, contract)
    called = shown_name(problem.workload.kernel)
    wish = Wish(name or default_name(problem, called), problem, cache)
    with _source(read_server(server), offline=offline) as source:
        fetched = fetch_files(
            wish, source, folder=output, lock=lock, cache=ClientCache(), update=update
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


@contextmanager
def _source(server: str | None, *, offline: bool) -> Iterator[Source | None]:
    """The service, or the database of this machine; nothing if ``offline``."""
    from service.fetching.sources import LocalSource, ServerSource

    if offline:
        yield None
    elif server is not None:
        from service.client import Client

        with Client(server) as client:
            yield ServerSource(client)
    else:
        from db import open_store

        with open_store() as store:
            yield LocalSource(store)
