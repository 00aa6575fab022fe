"""Names of uploads belong to who gave them, and are what people read."""

from __future__ import annotations

import sqlite3

import pytest
from starlette.testclient import TestClient

from db import pipelines
from db.audience import Viewer
from db.sql_store import SqlStore
from service.app import create_app
from service.auth import Scope
from service.settings import Settings
from tests.service.gates import CallerGate
from tuner.errors import UserError

NOTHING = {"stages": [], "inputs": [], "outputs": []}


def keep(store: SqlStore, data: bytes, name: str, owner: str, *, private: bool = False) -> str:
    """The kernel of what ``owner`` uploaded."""
    stored, _ = pipelines.keep(store, data, name, owner, NOTHING, private=private)
    return stored.kernel


def meant(store: SqlStore, name: str, owner: str) -> str:
    return pipelines.named(store, name, Viewer(owner)).kernel


def client_of(store: SqlStore, name: str) -> TestClient:
    scopes = (Scope.READ, Scope.SUBMIT)
    return TestClient(create_app(store, CallerGate(name, *scopes), Settings()))


def test_a_name_never_leads_to_anothers_newer_upload(store: SqlStore) -> None:
    anns = keep(store, b"ann's", "blur", "ann")
    mallorys = keep(store, b"mallory's", "blur", "mallory")
    assert meant(store, "pipeline:blur", "ann") == anns != mallorys
    assert meant(store, "pipeline:blur", "mallory") == mallorys
    assert meant(store, "pipeline:mallory/blur", "ann") == mallorys
    assert meant(store, anns, "mallory") == anns


def test_who_gave_no_such_name_is_told_who_did(store: SqlStore) -> None:
    for owner in ("ann", "mallory"):
        keep(store, owner.encode(), "blur", owner)
    with pytest.raises(UserError, match="you have uploaded nothing called 'blur'") as refused:
        meant(store, "pipeline:blur", "bob")
    assert set(refused.value.accepted.split(", ")) == {"pipeline:ann/blur", "pipeline:mallory/blur"}
    with pytest.raises(UserError, match="unknown pipeline"):
        meant(store, "pipeline:nobody/sharpen", "bob")


def test_a_name_that_reads_like_a_digest_is_refused(store: SqlStore) -> None:
    digits = keep(store, b"ann's", "blur", "ann").removeprefix("pipeline:")
    for name in (digits, "abcdef012345", "a" * 64):
        with pytest.raises(UserError, match="reads like a digest"):
            keep(store, b"mallory's", name, "mallory")


def test_a_private_upload_is_unknown_to_others_even_by_its_digest(store: SqlStore) -> None:
    kernel = keep(store, b"secret", "blur", "ann", private=True)
    assert meant(store, "pipeline:blur", "ann") == kernel
    for name in (kernel, "pipeline:ann/blur", "pipeline:blur"):
        with pytest.raises(UserError, match="unknown pipeline"):
            meant(store, name, "bob")
    assert keep(store, b"secret", "mine", "bob") == kernel, "who has the bytes may use them"
    assert pipelines.named(store, kernel, Viewer("bob")).label == "mine"
    assert meant(store, kernel, "cy") == kernel


@pytest.mark.sqlite
def test_sqlite_is_asked_for_names_by_an_index(store: SqlStore) -> None:
    assert store.place.path is not None
    with sqlite3.connect(store.place.path) as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT digest FROM pipelines"
            " WHERE tenant = 'ann' AND name = 'blur' ORDER BY created_at DESC"
        ).fetchall()
    assert "ix_pipelines_tenant_name_created_at" in str(plan)
