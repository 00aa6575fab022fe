"""The devices of the farm: ``farm kinds``, ``list``, ``check``, ``drain``, ``quarantine``,
``release``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.connecting import connected
from service.cli.options import AsJson, DeviceTags, ServerAddress
from service.cli.output import (
    console,
    print_json,
    print_line,
    print_table,
    sentence,
    table,
    time_text,
)
from service.cli.statuses import Exit
from service.cli.watching import Watch, refuse_json, shown_until_stopped
from service.here import Here
from tuner.shipped import with_places

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tuner.measure.farm.farm_file import Farm
    from tuner.measure.farm.health import Caretaker, CheckResult
    from tuner.measure.farm.roster import Roster

DeviceName = Annotated[
    str, typer.Argument(metavar="DEVICE", help="A device's name; `hvxtune farm list` shows them.")
]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for others.", show_default=False)
]


def kinds(as_json: AsJson = False) -> None:
    """List the kinds of devices and the keys of their tables in the farm file."""
    from dataclasses import asdict

    from tuner.measure.device import Limits, device_kinds, find_kind
    from tuner.measure.farm.farm_file import keys_of

    tables = {"limits": keys_of(Limits)}
    tables |= {name: keys_of(find_kind(name).Settings) for name in device_kinds()}
    if as_json:
        print_json(
            {"tables": {name: [asdict(key) for key in keys] for name, keys in tables.items()}}
        )
        return
    for name, keys in tables.items():
        print_table(
            [f"key of {name}", "value", "default", "meaning"],
            [[key.name, key.type, _default(key.default), key.help] for key in keys],
        )


def _default(value: Any) -> str:
    if value is None:
        return "must be given"
    return (" ".join(value) if isinstance(value, tuple) else str(value)) or "empty"


def list_devices(
    on: DeviceTags = "",
    watch: Watch = False,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """List the devices and their states."""
    wanted = {tag.strip() for tag in on.split(",")} - {""}
    with connected(server) as client:

        def known() -> list[dict[str, Any]]:
            return [one for one in client.devices() if wanted <= set(one["tags"])]

        def draw() -> RenderableType:
            found = known()
            none = with_places("no device; docs/devices.md shows how to name some in a farm file")
            return _devices_table(found) if found else sentence(none)

        if watch:
            refuse_json(as_json)
            shown_until_stopped(draw)
        elif as_json:
            print_json({"devices": known()})
        else:
            console().print(draw())


def _devices_table(found: list[dict[str, Any]]) -> RenderableType:
    return table(
        ["device", "kind", "state", "why", "tags", "°C", "runs", "faults", "last check"],
        [
            [
                *(one[name] for name in ("name", "kind", "state", "reason")),
                " ".join(tag for tag in one["tags"] if tag not in (one["name"], one["kind"])),
                "" if one["temperature_c"] is None else f"{one['temperature_c']:.0f}",
                one["trials"],
                one["faults"],
                time_text(one["last_check_at"], "never"),
            ]
            for one in found
        ],
        numeric=["°C", "runs", "faults"],
    )


def check(on: DeviceTags = "", as_json: AsJson = False) -> None:
    """Check every device now: that it answers, computes right, and is as fast as before."""
    from db import open_store
    from tuner.measure.farm.farm_file import read_farm
    from tuner.measure.farm.health import enrol

    farm = read_farm()
    members = farm.selected(on)
    with open_store() as store:
        roster = store.roster()
        enrol(farm, roster)
        caretaker = _caretaker(farm, roster)
        found: list[CheckResult] = []
        for done in caretaker.check(members):
            found.append(done)
            _tell(len(found), len(members), done)
    found.sort(key=lambda one: one.record.name)
    if as_json:
        now = time.time()
        print_json(
            {
                "ok": all(one.checked and not one.failure for one in found),
                "devices": [
                    {
                        **one.record.as_dict(now),
                        "checked": one.checked,
                        "failure": one.failure,
                    }
                    for one in found
                ],
            }
        )
    else:
        _print_checks(found)
    if any(one.failure or not one.checked for one in found):
        raise typer.Exit(Exit.FAILED)


def _caretaker(farm: Farm, roster: Roster) -> Caretaker:
    from tuner.measure.farm.health import Caretaker

    return Caretaker(farm, roster, "hvxtune farm check")


def _tell(count: int, of: int, done: CheckResult) -> None:
    word = done.failure or ("passed" if done.checked else f"not now: {done.record.state}")
    sys.stderr.write(f"{count}/{of} {done.record.name}: {word}\n")
    sys.stderr.flush()


def _print_checks(found: list[CheckResult]) -> None:
    print_table(
        ["device", "state", "check", "gold cycles", "°C", "details"],
        [
            [
                one.record.name,
                one.record.state,
                one.failure or ("passed" if one.checked else f"not now: {one.record.reason}"),
                one.record.gold_cycles,
                "" if one.record.temperature_c is None else f"{one.record.temperature_c:.0f}",
                ", ".join(one.record.details.values()),
            ]
            for one in found
        ],
        numeric=["gold cycles", "°C"],
    )


def drain(
    device: DeviceName, reason: Reason = "", server: ServerAddress = None, as_json: AsJson = False
) -> None:
    """Take DEVICE out once it has finished its work."""
    _steer("drain", device, reason, server, as_json=as_json)


def quarantine(
    device: DeviceName, reason: Reason = "", server: ServerAddress = None, as_json: AsJson = False
) -> None:
    """Take DEVICE out at once: its work under way does not count."""
    _steer("quarantine", device, reason, server, as_json=as_json)


def release(
    device: DeviceName, reason: Reason = "", server: ServerAddress = None, as_json: AsJson = False
) -> None:
    """Let a drained or quarantined DEVICE come back, after a check."""
    _steer("release", device, reason, server, as_json=as_json)


def _steer(verb: str, device: str, reason: str, server: str | None, *, as_json: bool) -> None:
    with connected(server) as client:
        found = client.steer_device(device, verb, reason)
        if verb == "release" and isinstance(client, Here):
            found = _check_again(client, found)
    if as_json:
        print_json(found)
    else:
        print_line(f"{found['name']} is {found['state']}: {found['reason']}")


def _check_again(here: Here, found: dict[str, Any]) -> dict[str, Any]:
    """Checks a released device if this machine's farm file names it; else a conductor will."""
    from tuner.measure.farm.farm_file import NoFarmError, read_farm

    try:
        farm = read_farm()
    except NoFarmError:
        return found
    ours = [member for member in farm.members if member.name == found["name"]]
    for done in _caretaker(farm, here.store.roster()).check(ours):
        return done.record.as_dict(time.time())
    return found
