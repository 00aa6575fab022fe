"""Tables of the farm: the devices and their history."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from db.base import Base, Document, FreeText, RowId, choice, fidelity_choice
from tuner.measure.farm.roster import DeviceState, Purpose

DEVICE_NAME_LENGTH = 100


class DeviceRow(Base):
    """A device (:class:`tuner.measure.farm.roster.DeviceRecord`) and the lease on it.

    ``token`` rises with every lease. A device without a lease has none of the ``lease_*`` columns.
    """

    __tablename__ = "devices"

    name: Mapped[str] = mapped_column(String(DEVICE_NAME_LENGTH), primary_key=True)
    kind: Mapped[str] = mapped_column(String(50))
    fidelity: Mapped[str] = mapped_column(fidelity_choice())
    tags: Mapped[list[str]]
    state: Mapped[DeviceState] = mapped_column(choice(DeviceState, "state"))
    reason: Mapped[str] = mapped_column(FreeText())
    since: Mapped[float]
    token: Mapped[int]
    lease_holder: Mapped[str | None] = mapped_column(FreeText())
    lease_purpose: Mapped[Purpose | None] = mapped_column(choice(Purpose, "purpose"))
    lease_expires_at: Mapped[float | None]
    recent: Mapped[str] = mapped_column(String(50))
    failed_checks: Mapped[int]
    last_check_at: Mapped[float | None]
    last_check: Mapped[str] = mapped_column(FreeText())
    temperature_c: Mapped[float | None]
    gold_cycles: Mapped[int | None]
    fingerprint: Mapped[Document | None]
    details: Mapped[Document]
    trials: Mapped[int]
    faults: Mapped[int]
    busy_s: Mapped[float]
    minutes: Mapped[list[list[int]]]

    __table_args__ = (
        CheckConstraint(
            "(lease_holder IS NULL) = (lease_purpose IS NULL)"
            " AND (lease_holder IS NULL) = (lease_expires_at IS NULL)",
            name="lease_is_whole",
        ),
        CheckConstraint("state <> 'leased' OR lease_holder IS NOT NULL", name="leased_has_lease"),
        CheckConstraint(
            "state <> 'quarantined' OR lease_holder IS NULL", name="quarantined_has_none"
        ),
    )


class DeviceEventRow(Base):
    """A change of a device's state (:class:`tuner.measure.farm.roster.DeviceEvent`)."""

    __tablename__ = "device_events"

    id: Mapped[RowId]
    device: Mapped[str] = mapped_column(ForeignKey("devices.name"))
    at: Mapped[float]
    before: Mapped[DeviceState | None] = mapped_column(choice(DeviceState, "before"))
    after: Mapped[DeviceState] = mapped_column(choice(DeviceState, "after"))
    reason: Mapped[str] = mapped_column(FreeText())

    __table_args__ = (Index(None, "device", "id"),)
