"""Schedules for buffers that lie anywhere are answered to those who have such, and to no others."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from db.sql_store import SqlStore
from tests.rig.loose_u8 import KERNELS
from tests.service.stored import problem, store_schedule
from tuner.kernels import EXTRA_KERNELS_VARIABLE

pytestmark = pytest.mark.sqlite

SHAPE = {"h": 4, "n": 512}


@pytest.fixture(autouse=True)
def kernel(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)


def answer(client: TestClient, loose: int | None, **changes: str) -> dict[str, Any]:
    param = ["h=4", "n=512", *([] if loose is None else [f"input_loose={loose}"])]
    asked = {"kernel": "loose_u8", "param": param, **changes}
    return dict(client.get("/v1/schedules/best", params=asked).json())


def test_each_gets_its_own(client: TestClient, store: SqlStore) -> None:
    promised = store_schedule(store, problem("loose_u8", **SHAPE), 100)
    assert answer(client, None)["id"] == answer(client, 0)["id"] == promised
    missed = answer(client, 1)
    assert missed["status"] == 404
    assert missed["submit"]["params"] == {**SHAPE, "input_loose": 1}
    assert [near["params"] for near in missed["nearest"]] == [SHAPE]
    loose = store_schedule(store, problem("loose_u8", input_loose=1, **SHAPE), 50)
    assert answer(client, 1)["id"] == loose
    assert answer(client, 2)["status"] == 404
    assert answer(client, None)["id"] == promised


@pytest.mark.parametrize(("stored", "asked"), [(0, 1), (1, 0), (2, 1)])
def test_code_for_the_other_is_no_nearest_one_to_link(
    client: TestClient, store: SqlStore, stored: int, asked: int
) -> None:
    """Its config may do."""
    of = problem("loose_u8", "none", h=4, n=512, input_loose=stored)
    store_schedule(store, of, 100)
    found = answer(client, asked, allow_nearest="true", contract="none")
    assert (found["match"], found["params"]) == ("nearest", dict(of.workload.params))
    assert "object" not in found["links"]
