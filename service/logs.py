"""The logs of processes: lines for people, or JSON for what collects them, without tokens.

Each line of JSON has the ids of the work it is about (:func:`tuner.log_ids.ids`), and a line for
every trial is added. Of libraries python-json-logger would do; what is needed of it is shorter.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from enum import StrEnum

from service.request_ids import current_request_id
from service.token_text import RedactingFormatter, redact_all
from tuner.log_ids import ids

LOG_FORMAT_VARIABLE = "HVXTUNE_LOG_FORMAT"
NONE = "-"
"""In lines for people, outside of requests."""
_PEOPLES = "%(asctime)s %(process)d %(levelname)s %(name)s [%(request_id)s]: %(message)s"


class LogFormat(StrEnum):
    """Forms of a log."""

    TEXT = "text"
    JSON = "json"


class NamesRequests(logging.Filter):
    """Gives every log record a ``request_id``."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets every record pass."""
        record.request_id = current_request_id() or NONE
        return True


class JsonFormatter(logging.Formatter):
    """One object a line, with secrets of tokens left out of all its texts."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
            **ids(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(redact_all(line), default=str)


def log_to_stderr(log_format: LogFormat) -> None:
    """Sends this process's log to standard error. Processes that it starts do the same."""
    os.environ[LOG_FORMAT_VARIABLE] = log_format.value
    handler = logging.StreamHandler()
    if log_format is LogFormat.JSON:
        handler.setFormatter(JsonFormatter())
    else:
        handler.addFilter(NamesRequests())
        handler.setFormatter(RedactingFormatter(_PEOPLES))
    logging.basicConfig(handlers=[handler], force=True)
    for name in ("hvxtune", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.INFO)
    of_trials = logging.WARNING if log_format is LogFormat.TEXT else logging.NOTSET
    logging.getLogger("hvxtune.trial").setLevel(of_trials)
