"""The stored schedules: the best of those that fit, and those that are set aside."""

from __future__ import annotations

import logging
from functools import partial

from db.database import Database, Part
from db.files.kept import Artifacts
from db.models import ScheduleRow
from db.records import schedule_record
from db.schedules.quarantine import quarantine, quarantine_row
from db.schedules.serving import ServingRow, fitting_rows
from db.schedules.validation import Validator
from tuner.errors import StoreError
from tuner.keeping.best import Lookup, first_valid
from tuner.kernels import Kernel
from tuner.records.trial import Schedule

_log = logging.getLogger("hvxtune.store")


class Schedules(Part):
    """The schedules of a database, whose objects are among ``artifacts``."""

    def __init__(self, database: Database, artifacts: Artifacts) -> None:
        super().__init__(database)
        self.validator = Validator(artifacts.files, artifacts.require_here)

    def best(self, lookup: Lookup) -> Schedule | None:
        while (first := self.best_row(lookup)) is not None:
            with self._database.reading() as session:
                row = session.get(ScheduleRow, first.id)
                if row is not None and (row.public_id, row.seal) == (first.public_id, first.seal):
                    return schedule_record(row, lookup.stored_under(first.contract))
        return None

    def best_row(self, lookup: Lookup, kernel: Kernel | None = None) -> ServingRow | None:
        """The row of :meth:`best`; ``kernel`` is the problem's, for callers that have it."""

        def fault(row: ServingRow) -> str:
            return self.validator.fault(row, lookup.stored_under(row.contract), kernel=kernel)

        return first_valid(partial(self.fitting, lookup), fault, self.set_aside)

    def fitting(self, lookup: Lookup) -> list[ServingRow]:
        """Every schedule that fits and is not quarantined, best first, valid or not."""
        with self._database.reading() as session:
            return fitting_rows(session, self._as_seen(lookup))

    def _as_seen(self, lookup: Lookup) -> Lookup:
        """``lookup`` with the viewer's private schedules and no others."""
        viewer = self._database.viewer
        if viewer is None or lookup.audience == viewer:
            return lookup
        return lookup._replace(audience="" if lookup.audience else viewer)

    def quarantine(self, public_id: str, reason: str) -> bool:
        return quarantine(self._database, public_id, reason)

    def set_aside(self, row: ServingRow, reason: str) -> None:
        """Quarantines a schedule that was found faulty, unless it was replaced since. A database
        that cannot be written to does not stop answers."""
        _log.warning("schedule %s is quarantined: %s", row.public_id, reason)
        try:
            quarantine_row(self._database, row, reason)
        except StoreError as error:
            _log.error("schedule %s could not be quarantined: %s", row.public_id, error)
