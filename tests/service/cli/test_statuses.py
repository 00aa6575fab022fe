"""The exit statuses: the table of docs/cli.md, and what leads to each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from service.cli.statuses import Exit, status_of
from service.client import RefusedError, UnreachableError
from service.client.answers import EnqueuedError, error_of
from tuner.errors import (
    DeviceError,
    HvxtuneError,
    InternalError,
    NotStoredError,
    StoreError,
    ToolchainError,
    UserError,
)

ROOT = Path(__file__).parents[3]


def test_the_document_has_every_status_with_its_meaning() -> None:
    rows = re.findall(
        r"^\| (\d+) \| (.*) \|$", (ROOT / "docs" / "cli.md").read_text(), re.MULTILINE
    )
    assert [(int(status), meaning) for status, meaning in rows] == [
        (status.value, status.meaning) for status in Exit
    ]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UserError("x"), 2),
        (NotStoredError("x"), 3),
        (ToolchainError("x"), 4),
        (DeviceError("x"), 4),
        (StoreError("x"), 5),
        (UnreachableError("x"), 5),
        (InternalError("x"), 1),
        (EnqueuedError({"job": "1a"}), 3),
        (error_of(404, {"detail": "no job '1a'"}), 3),
        (error_of(422, {"detail": "trials=0"}), 2),
        (error_of(409, {"detail": "it has ended"}), 2),
        (error_of(503, {"detail": "no space", "kind": "store"}), 5),
    ],
    ids=lambda value: value if isinstance(value, int) else type(value).__name__,
)
def test_what_failed_decides_the_status(error: HvxtuneError, status: int) -> None:
    assert status_of(error) == status


def test_an_answer_of_404_is_still_a_refusal_with_its_status() -> None:
    error = error_of(404, {"detail": "no job '1a'"})
    assert isinstance(error, RefusedError)
    assert (error.status, str(error)) == (404, "no job '1a'.")
