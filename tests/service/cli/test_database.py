"""`hvxtune db`: backups by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from db import open_store, schema
from db.engine import find_url, make_engine
from db.sql_store import SqlStore
from service.cli import main
from service.cli import progress as long_work
from service.cli.statuses import Exit
from tests.databases import put_database
from tests.db.backup_conformance import contents, fill
from tuner.paths import STATE_DIR_VARIABLE


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(folder))
    monkeypatch.delenv("HVXTUNE_DATABASE_URL", raising=False)
    put_database(folder)
    return folder


@pytest.fixture(autouse=True)
def nothing_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_work, "QUIET_S", float("inf"))


@pytest.fixture
def filled(state: Path) -> Iterator[SqlStore]:
    with open_store() as store:
        fill(store)
        yield store


@pytest.fixture
def file(filled: SqlStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["db", "backup", str(tmp_path / "one.zip")]) == 0
    capsys.readouterr()
    return tmp_path / "one.zip"


def test_there_and_back(
    filled: SqlStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["db", "backup", str(tmp_path), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    file = Path(made["file"])
    assert file.parent == tmp_path
    assert file.stat().st_size == made["bytes"]
    before = contents(filled)
    put_database(tmp_path / "elsewhere")
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "elsewhere"))
    assert main(["db", "restore", str(file), "--json"]) == 0
    written = capsys.readouterr()
    done = json.loads(written.out)
    assert written.err == ""
    assert done.items() >= {k: made[k] for k in ("rows", "files", "manifest_sha256")}.items()
    with open_store() as restored:
        assert contents(restored) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["backup", "{file}"], "exists"),
        (["backup", "{file}/x.zip"], "cannot write"),
        (["restore", "{file}.none"], "cannot read"),
        (["restore", "{file}"], "is not empty (1 jobs, 0 schedules, 1 tokens, 1 pipelines)"),
        (["restore", "--force", "{cut}"], "damaged, cut off or not a zip"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    file: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = file.with_name("cut.zip")
    cut.write_bytes(file.read_bytes()[:5000])
    given = [argument.format(file=file, cut=cut) for argument in arguments]
    assert main(["db", *given]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert says in written.err
    assert written.err.count("\n") == 1


def test_a_copy_is_compared_and_its_digests_are_printed(
    filled: SqlStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, one, two = (
        f"sqlite:///{path}" for path in (filled.place.path, tmp_path / "1.db", tmp_path / "2.db")
    )
    assert main(["db", "copy", source, one, "--to-artifacts", "database:", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["files"], done["missing"]) == (3, [])
    assert done["rows"] == sum(table["rows"] for table in done["tables"].values())
    assert done["tables"]["trials"]["rows"] == 2
    given = ["--from-artifacts", "database:", "--to-artifacts", f"folder:{tmp_path / 'objects'}"]
    assert main(["db", "copy", one, two, *given]) == 0
    shown = capsys.readouterr().out
    assert done["tables"]["jobs"]["sha256"] in shown
    assert main(["db", "copy", source, two]) == 2
    assert "is not empty (1 jobs, 0 schedules, 1 tokens" in capsys.readouterr().err


def test_what_is_no_database_of_this_schema_is_not_copied(
    filled: SqlStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, target = f"sqlite:///{tmp_path / 'empty.db'}", f"sqlite:///{tmp_path / 'new.db'}"
    make_engine(find_url(empty), 1.0).connect().close()
    assert main(["db", "copy", empty, target]) == Exit.UNREACHABLE
    assert "empty.db is empty" in capsys.readouterr().err
    assert main(["db", "copy", f"sqlite:///{tmp_path / 'none.db'}", target]) == Exit.UNREACHABLE
    assert "none.db: no such file" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()
    assert main(["db", "upgrade", empty]) == 0
    assert f"schema {schema.SCHEMA_VERSION}" in capsys.readouterr().out
    assert main(["db", "upgrade", empty, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["before"], told["schema"]) == (schema.SCHEMA_VERSION,) * 2
    assert main(["db", "copy", empty, target]) == 0


def test_the_artifacts_are_counted_and_lost_ones_named(
    filled: SqlStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["db", "artifacts", "--verify", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["referred"], found["files"], found["missing"]) == (2, 4, [])
    assert main(["db", "artifacts"]) == 0
    assert "2 artifacts in the database, names and sizes compared" in capsys.readouterr().out
    storage = filled.files.storage
    [first, _] = sorted(one.key for one in storage.files() if one.key.endswith(".zip"))
    storage.delete(first)
    assert main(["db", "artifacts", "--sweep"]) == 1
    assert f"1 missing: {first}" in capsys.readouterr().out
