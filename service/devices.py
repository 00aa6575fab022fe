"""Devices and what became of them as JSON: the same over REST and from the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from db.devices.roster import SqlRoster
from service.auth.audit import record
from service.problem_details import HttpError, not_found
from tuner.errors import UserError
from tuner.measure.farm.roster import LEGAL, DeviceRecord, DeviceState

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from db.sql_store import SqlStore
    from service.auth.caller import Caller
    from tuner.measure.farm.roster import DeviceEvent, DeviceRecord


def device_json(record: DeviceRecord, now: float) -> dict[str, Any]:
    """A device as it stands at ``now`` (Unix seconds)."""
    lease, share = record.lease, record.failure_share
    return {
        "name": record.name,
        "kind": record.kind,
        "fidelity": record.fidelity,
        "tags": list(record.tags),
        "state": record.state.value,
        "reason": record.reason,
        "since": record.since,
        "lease": None
        if lease is None
        else {
            "holder": lease.holder,
            "purpose": lease.purpose.value,
            "expires_at": lease.expires_at,
        },
        "temperature_c": record.temperature_c,
        "trials": record.trials,
        "faults": record.faults,
        "busy_s": round(record.busy_s, 3),
        "trials_per_minute": round(record.trials_per_minute(now), 2),
        "failure_share": None if share is None else round(share, 4),
        "last_check_at": record.last_check_at,
        "last_check": record.last_check,
        "gold_cycles": record.gold_cycles,
        "details": dict(record.details),
    }


def device_event_json(event: DeviceEvent) -> dict[str, Any]:
    """A change of a device's state."""
    return {
        "number": event.number,
        "at": event.at,
        "before": None if event.before is None else event.before.value,
        "after": event.after.value,
        "reason": event.reason,
    }


_ACTS: Mapping[str, Callable[[SqlRoster, str, str], DeviceRecord]] = {
    "drain": SqlRoster.drain,
    "quarantine": SqlRoster.quarantine,
    "release": SqlRoster.release,
}


def verbs_for(state: DeviceState) -> list[str]:
    """What can be asked of a device in ``state`` that makes a difference."""
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
    """Drains, quarantines or releases a device for ``caller``, and leaves that in the audit.

    ``HttpError`` 404 for a device or verb that does not exist, 409 if its state does not allow it.
    """
    if verb not in _ACTS:
        raise not_found(
            f"nothing called '{verb[:60]}' can be asked of a device", accepted=", ".join(_ACTS)
        )
    why = f"{verb} by {caller.name}" + (f": {reason}" if reason else "")
    roster = SqlRoster(store)
    try:
        roster.device(name)
    except UserError as error:
        raise unknown_device(error) from None
    try:
        with store.transaction():
            changed = _ACTS[verb](roster, name, why)
            record(store, caller, f"device.{verb}", name, {"reason": why}, request)
    except UserError as error:
        raise HttpError(
            409, error.message, accepted=error.accepted, next_step=error.next_step
        ) from None
    return changed


def unknown_device(error: UserError) -> HttpError:
    """404 for a device that no farm file names."""
    return not_found(error.message, accepted=error.accepted, next_step="GET /v1/devices lists them")
