"""Sizes and numbers as pages write them, and when templates are compiled."""

from __future__ import annotations

import pytest
from fastapi import FastAPI

from dashboards.templating import environment, separated

pytestmark = pytest.mark.sqlite


def test_numbers_in_messages_have_separators_and_names_do_not() -> None:
    assert (
        separated("stopped after 20886431 of (4423680)")
        == "stopped after 20,886,431 of (4,423,680)"
    )
    for text in (
        "1234 0x1234567 1s8rm12345 12345.6",
        "pipeline:123456789012 /tmp/123456 1,234,567",
    ):
        assert separated(text) == text


def test_templates_are_compiled_before_the_first_visit(app: FastAPI) -> None:
    environment.cache_clear()
    for prepare in app.state.preparations:
        prepare()
    found = environment()
    assert found.cache is not None
    assert len(found.cache) == len(found.list_templates()) > 30
