"""Taking devices out of the farm and back: the same over REST and from the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from db.devices.roster import SqlRoster
from service.auth.audit import record
from service.http_errors import absent, conflicts, not_found
from tuner.measure.farm.roster import LEGAL, DeviceRecord, DeviceState

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from db.sql_store import SqlStore
    from service.auth.caller import Caller


_ACTS: Mapping[str, Callable[[SqlRoster, str, str], DeviceRecord]] = {
    "drain": SqlRoster.drain,
    "quarantine": SqlRoster.quarantine,
    "release": SqlRoster.release,
}


def verbs_for(state: DeviceState) -> list[str]:
    """The verbs that change a device in ``state``."""
    found = []
    if DeviceState.DRAINED in LEGAL[state]:
        found.append("drain")
    if DeviceState.QUARANTINED in LEGAL[state]:
        found.append("quarantine")
    if state in (DeviceState.QUARANTINED, DeviceState.DRAINED):
        found.append("release")
    return found


def steer(
    store: SqlStore,
    caller: Caller,
    name: str,
    verb: str,
    reason: str,
    request: HTTPConnection,
) -> DeviceRecord:
    """Drains, quarantines or releases a device for ``caller``, and records that in the audit.

    ``HttpError`` 404 for a device or verb that does not exist, 409 if its state does not allow it.
    """
    if verb not in _ACTS:
        raise not_found(f"no action '{verb[:60]}' on a device", accepted=", ".join(_ACTS))
    why = f"{verb} by {caller.name or caller.owner}" + (f": {reason}" if reason else "")
    roster = SqlRoster(store)
    with absent():
        roster.device(name)
    with conflicts(), store.transaction():
        changed = _ACTS[verb](roster, name, why)
        record(store, caller, f"device.{verb}", name, {"reason": why}, request)
    return changed
