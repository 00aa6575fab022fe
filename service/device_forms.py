"""Devices and what became of them as JSON: the same over REST and from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.measure.farm.states import DeviceEvent, DeviceRecord


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
