"""What a backup promises, whatever database the store is in."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

import db.exchange.backup
import db.exchange.rows
from db import pipelines
from db.access.audit import add_entry, newest_entries
from db.access.sessions import begin_session, token_of_session
from db.access.tokens import Token, add_token
from db.exchange import copy_store, restore_backup, write_backup
from db.exchange.rows import kept_tables
from db.jobs.annotations import annotate
from db.schema import stored_schema
from db.sql_store import SqlStore
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, ok, pending, spec
from tuner.errors import StoreError, UserError
from tuner.identity import digest_of_bytes
from tuner.keeping.archive import MANIFEST
from tuner.uploaded import files as uploads

UPLOAD = b"a serialized pipeline"
MakeStore = Callable[[], SqlStore]


def fill(store: SqlStore) -> None:
    """A job with two measured trials and a comment, a token, an
    upload, a session and an entry of the audit."""
    job = store.create_job(spec(), SPACE, TOOLCHAIN)
    token = store.claim(job.id)
    store.commit(job.id, token, started=[pending(0), pending(1)])
    made = [artifact(0), artifact(1)]
    store.commit(job.id, token, finished=[ok(n, a) for n, a in enumerate(made)], artifacts=made)
    add_token(store, Token("k3zq7a2m", "ann", "0" * 64, ["read"], {"running_jobs": 2}))
    pipelines.keep(store, UPLOAD, "blur", "ann", {"stages": []})
    annotate(store, job.id, comment="kept", add_tags=["kept"])
    begin_session(store, "5" * 64, "k3zq7a2m", 3600)
    note_down(store, "before")


def note_down(store: SqlStore, subject: str) -> int:
    return add_entry(
        store, token_id=None, action="test", subject=subject, detail={"a": None}, client="here"
    )


def contents(store: SqlStore) -> dict[str, list[Any]]:
    """Every row of every table that a backup keeps."""
    with store.reading() as session:
        connection = session.connection()
        return {
            table.name: [
                tuple(row)
                for row in connection.execute(select(table).order_by(*table.primary_key.columns))
            ]
            for table in kept_tables(connection)
        }


def summary(store: SqlStore) -> list[Any]:
    """The schema, and how many rows some tables have: quicker than all :func:`contents`."""
    tables = ("jobs", "trials", "tokens", "audit", "pipelines", "artifacts")
    with store.reading() as session:
        connection = session.connection()
        counts = [
            connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar()  # noqa: S608
            for table in tables
        ]
        return [stored_schema(connection), *counts]


def kept_files(store: SqlStore) -> set[Path]:
    roots = (store.files.storage.root, uploads.path_of("0" * 64).parents[1])
    return {path for root in roots for path in root.rglob("*") if path.is_file()}


def rebuilt(source: Path, place: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """The backup ``source`` with other members, written to ``place``."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(place, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return place


class BackupConformance(ABC):
    """``store`` is empty, ``elsewhere`` makes empty ones of the same kind, each with folders of
    their own."""

    @abstractmethod
    @pytest.fixture
    def store(self) -> SqlStore: ...

    @abstractmethod
    @pytest.fixture
    def elsewhere(self) -> MakeStore: ...

    @pytest.fixture
    def file(self, store: SqlStore, tmp_path: Path) -> Path:
        fill(store)
        write_backup(store, tmp_path / "backup.zip")
        return tmp_path / "backup.zip"

    def test_a_restored_store_is_what_was_backed_up(
        self, store: SqlStore, elsewhere: MakeStore, tmp_path: Path
    ) -> None:
        fill(store)
        made = write_backup(store, tmp_path / "backup.zip")
        before = contents(store)
        other = elsewhere()
        done = restore_backup(other, tmp_path / "backup.zip")
        assert contents(other) == before
        assert (done.rows, done.files) == (made.rows, made.files)
        assert done.rows == sum(len(rows) for rows in before.values())
        assert done.files == 3
        assert done.manifest_sha256 == made.manifest_sha256
        for digest, symbol, *_ in (row for row in before["artifacts"]):
            found = next(r for r in before["artifacts"] if r[0] == digest)
            file_digest = next(v for v in found[4:] if isinstance(v, str))
            assert other.files.read(digest, symbol, file_digest).files["header"]
        assert uploads.path_of(digest_of_bytes(UPLOAD)).read_bytes() == UPLOAD

    def test_sessions_that_may_have_ended_since_are_not_brought_back(
        self, file: Path, elsewhere: MakeStore, store: SqlStore
    ) -> None:
        assert token_of_session(store, "5" * 64) == "k3zq7a2m"
        other = elsewhere()
        restore_backup(other, file)
        assert token_of_session(other, "5" * 64) is None

    def test_it_is_as_of_one_moment(
        self, store: SqlStore, elsewhere: MakeStore, tmp_path: Path
    ) -> None:
        fill(store)
        before = contents(store)
        written: list[int] = []

        def write_meanwhile(_done: int, _total: int) -> None:
            writer = threading.Thread(
                target=lambda: (
                    written.append(note_down(store, "meanwhile")),
                    store.create_job(spec(), SPACE, TOOLCHAIN),
                )
            )
            writer.start()
            writer.join()

        write_backup(store, tmp_path / "backup.zip", write_meanwhile)
        assert len(written) > len(before)
        other = elsewhere()
        restore_backup(other, tmp_path / "backup.zip")
        assert contents(other) == before

    def test_what_is_there_is_replaced_only_by_force(
        self, store: SqlStore, file: Path, elsewhere: MakeStore
    ) -> None:
        before = contents(store)
        other = elsewhere()
        note_down(other, "mine")
        mine = contents(other)
        with pytest.raises(UserError, match="not empty") as refused:
            restore_backup(other, file)
        assert "--force" in refused.value.next_step
        assert contents(other) == mine
        restore_backup(other, file, force=True)
        assert contents(other) == before

    def test_a_copy_holds_what_its_source_holds(
        self, store: SqlStore, elsewhere: MakeStore
    ) -> None:
        fill(store)
        before = contents(store)
        done = copy_store(store, other := elsewhere())
        assert contents(other) == before == contents(store)
        assert {name: table.rows for name, table in done.tables.items()} == {
            name: len(rows) for name, rows in before.items()
        }
        assert (done.files, done.missing) == (3, [])
        for digest, *_ in before["artifacts"]:
            assert other.artifact(digest) == store.artifact(digest)
        assert note_down(other, "after") > newest_entries(store, 1)[0].number

    def test_a_copy_with_other_rows_than_its_source_is_undone(
        self, store: SqlStore, elsewhere: MakeStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(store)
        other = elsewhere()
        empty = contents(other)
        insert_rows = db.exchange.rows.insert_rows

        def spoil(connection: Any, table: Any, rows: Any) -> int:
            return insert_rows(
                connection,
                table,
                ({**row, "name": "eve"} if table.name == "tokens" else row for row in rows),
            )

        monkeypatch.setattr(db.exchange.rows, "insert_rows", spoil)
        with pytest.raises(StoreError, match="table tokens"):
            copy_store(store, other)
        assert contents(other) == empty

    def test_a_copy_tells_of_files_that_its_source_has_lost(
        self, store: SqlStore, elsewhere: MakeStore
    ) -> None:
        fill(store)
        lost = next(path for path in sorted(kept_files(store)) if path.suffix == ".zip")
        lost.unlink()
        done = copy_store(store, elsewhere())
        assert done.missing == [f"artifacts/{lost.relative_to(store.files.storage.root)}"]

    def test_one_that_was_cut_off_changes_nothing(self, file: Path, elsewhere: MakeStore) -> None:
        data, other = file.read_bytes(), elsewhere()
        for share in (0.0, 0.1, 0.999):
            file.write_bytes(data[: int(share * len(data))])
            self.refuses(other, file, "damaged, cut off or not a zip")

    def test_any_other_bytes_are_noticed(self, file: Path, elsewhere: MakeStore) -> None:
        other = elsewhere()
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            ends = [*(one.header_offset for one in members[1:]), archive.start_dir]
            places = {
                one.filename: end - one.compress_size // 2
                for one, end in zip(members, ends, strict=True)
            }
        whole = file.read_bytes()
        files = {name: place for name, place in places.items() if name.startswith("files/")}
        some = {name: places[name] for name in ("tables/jobs.jsonl", "tables/tokens.jsonl")}
        assert len(files) == 3
        for place in (*files.values(), *some.values()):
            data = bytearray(whole)
            data[place] ^= 1
            file.write_bytes(data)
            self.refuses(other, file, "damaged, cut off")

    def test_a_missing_member_is_named(
        self, file: Path, elsewhere: MakeStore, tmp_path: Path
    ) -> None:
        def leave_out(members: dict[str, bytes]) -> None:
            del members[next(name for name in members if name.startswith(gone))]

        other = elsewhere()
        for gone in ("files/", "tables/jobs", MANIFEST):
            self.refuses(other, rebuilt(file, tmp_path / "other.zip", leave_out), gone)

    def test_a_name_that_leads_elsewhere_is_refused(
        self, file: Path, elsewhere: MakeStore, tmp_path: Path
    ) -> None:
        name = "../../etc/passwd"

        def put_both_ways(members: dict[str, bytes]) -> None:
            members[name] = b"x"

        def name_a_file(members: dict[str, bytes]) -> None:
            about = json.loads(members[MANIFEST])
            files = about["store"]["files"]
            files[name] = files.pop(next(iter(files)))
            members[MANIFEST] = json.dumps(about).encode()

        other = elsewhere()
        self.refuses(other, rebuilt(file, tmp_path / "a.zip", put_both_ways), "a member called")
        self.refuses(other, rebuilt(file, tmp_path / "b.zip", name_a_file), "a file called")

    def test_rows_that_are_none_change_nothing_whatever_the_digests_say(
        self, file: Path, elsewhere: MakeStore, tmp_path: Path
    ) -> None:
        def forge(members: dict[str, bytes], rows: bytes) -> None:
            members["tables/tokens.jsonl"] = rows
            about = json.loads(members[MANIFEST])
            digest = hashlib.sha256(rows).hexdigest()
            about["store"]["tables"]["tokens"] = {"rows": 1, "sha256": digest}
            members[MANIFEST] = json.dumps(about).encode()

        other = elsewhere()
        for rows, says in ((b'["id"]\n', "columns"), (b"nothing\n", "cannot be read")):
            forged = rebuilt(file, tmp_path / "other.zip", partial(forge, rows=rows))
            self.refuses(other, forged, says, may_leave_files=True)

    def test_ended_by_ctrl_c_it_changed_nothing_and_can_be_run_again(
        self,
        store: SqlStore,
        file: Path,
        elsewhere: MakeStore,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        other = elsewhere()
        note_down(other, "mine")
        mine, calls = contents(other), 0
        read_rows = db.exchange.backup.read_rows

        def interrupt(*arguments: Any) -> int:
            nonlocal calls
            calls += 1
            if calls > 7:
                raise KeyboardInterrupt
            return read_rows(*arguments)

        monkeypatch.setattr(db.exchange.backup, "read_rows", interrupt)
        with pytest.raises(KeyboardInterrupt):
            restore_backup(other, file, force=True)
        assert contents(other) == mine
        monkeypatch.setattr(db.exchange.backup, "read_rows", read_rows)
        restore_backup(other, file, force=True)
        assert contents(other) == contents(store)

    def test_a_file_that_the_store_has_lost_is_told_and_no_obstacle(
        self, store: SqlStore, elsewhere: MakeStore, tmp_path: Path
    ) -> None:
        fill(store)
        lost = next(path for path in sorted(kept_files(store)) if path.suffix == ".zip")
        lost.unlink()
        made = write_backup(store, tmp_path / "backup.zip")
        assert made.missing == [f"artifacts/{lost.relative_to(store.files.storage.root)}"]
        assert restore_backup(elsewhere(), tmp_path / "backup.zip").missing == made.missing

    def test_a_backup_is_for_its_user_and_replaces_none(self, store: SqlStore, file: Path) -> None:
        assert file.stat().st_mode & 0o777 == 0o600
        with pytest.raises(UserError, match="exists"):
            write_backup(store, file)
        assert [p.name for p in file.parent.iterdir() if p.name.startswith(".")] == []

    def refuses(
        self, store: SqlStore, file: Path, says: str, *, may_leave_files: bool = False
    ) -> None:
        """``file`` is refused in one line, and nothing came of it."""
        before, files = summary(store), kept_files(store)
        with pytest.raises(UserError, match=says) as refused:
            restore_backup(store, file)
        assert "\n" not in str(refused.value)
        assert summary(store) == before
        if not may_leave_files:
            assert kept_files(store) == files


def in_use(store: SqlStore, file: Path) -> None:
    """Restoring says who uses the store."""
    with pytest.raises(StoreError, match="is in use"):
        restore_backup(store, file, force=True)
