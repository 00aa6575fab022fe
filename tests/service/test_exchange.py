"""Schedules as one file: they arrive as they were, and nothing else gets in."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from typer.testing import CliRunner

from db import open_store
from db.exchange import (
    Imported,
    export_schedules,
    import_schedules,
    opened,
    restore_backup,
    write_backup,
)
from db.exchange import schedules as files_of_schedules
from db.exchange.lines import read_line
from db.sql_store import SqlStore
from service import importing
from service.cli.app import app as commands
from tests.service.stored import a_config, problem, store_schedule
from tuner.conformance.records import NEWER_TOOLCHAIN, TOOLCHAIN
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.keeping.archive import LINES, MANIFEST
from tuner.keeping.best import lookup_of

UNCHECKED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)

pytestmark = pytest.mark.slow


@pytest.fixture
def elsewhere(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SqlStore]:
    """Another service's store, with a state directory of its own."""
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "elsewhere"))
    with closing(open_store(f"sqlite:///{tmp_path / 'elsewhere.sqlite'}")) as opened:
        yield opened


@pytest.fixture
def exported(store: SqlStore, tmp_path: Path) -> Path:
    """Three schedules in a file."""
    store_schedule(store, problem(m=64, n=128, k=128), 1000)
    store_schedule(store, problem(m=64, n=128, k=128, contract="none"), 2000)
    store_schedule(store, problem("sobel_u8", target="hexagon-v68"), 3000)
    file = tmp_path / "schedules.zip"
    assert export_schedules(store, file) == 3
    return file


NONE_LEFT_OUT = {"left_out": 0, "reasons": []}


def take(store: SqlStore, file: Path | io.BytesIO, **options: Any) -> Imported:
    return import_schedules(store, file, installed=[TOOLCHAIN], **options)


def test_schedules_arrive_with_objects_and_provenance(
    store: SqlStore, elsewhere: SqlStore, exported: Path
) -> None:
    assert take(elsewhere, exported) == Imported(3, 3, 0)
    for of in (problem(m=64, n=128, k=128), problem("sobel_u8", target="hexagon-v68")):
        there, here = store.best(lookup_of(of)), elsewhere.best(lookup_of(of))
        assert there is not None
        assert here == there
        assert here.provenance == there.provenance
        digest = here.artifact_digest
        assert elsewhere.artifact(digest).files == store.artifact(digest).files


def test_only_faster_ones_replace(store: SqlStore, elsewhere: SqlStore, exported: Path) -> None:
    faster = store_schedule(elsewhere, problem(m=64, n=128, k=128), 500)
    assert take(elsewhere, exported) == Imported(3, 2, 1)
    kept = elsewhere.best(lookup_of(problem(m=64, n=128, k=128)))
    assert kept is not None
    assert f"{kept.provenance['job']}-0" == faster


def test_the_same_schedules_make_the_same_file(
    store: SqlStore, exported: Path, tmp_path: Path
) -> None:
    export_schedules(store, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == exported.read_bytes()


def test_other_toolchains_are_refused_unless_asked_for_and_then_rank_behind(
    store: SqlStore, elsewhere: SqlStore, tmp_path: Path
) -> None:
    of = problem(m=64, n=128, k=128)
    store_schedule(store, of, 10, toolchain=NEWER_TOOLCHAIN)
    file = tmp_path / "foreign.zip"
    export_schedules(store, file)
    own = store_schedule(elsewhere, of, 1000)
    with pytest.raises(UserError, match=r"line 1 .*another toolchain.*llvm 21\.0"):
        take(elsewhere, file)
    assert take(elsewhere, file, any_toolchain=True).stored == 1
    best = elsewhere.best(lookup_of(of))
    assert best is not None
    assert f"{best.provenance['job']}-0" == own
    with pytest.raises(UserError, match="another toolchain"):
        take(elsewhere, file)  # to have imported one is not to have used it


def test_an_export_is_no_backup_and_a_backup_no_export(
    store: SqlStore, elsewhere: SqlStore, exported: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="hvxtune db import"):
        restore_backup(elsewhere, exported)
    write_backup(store, tmp_path / "backup.zip")
    with pytest.raises(UserError, match="hvxtune db restore"):
        take(elsewhere, tmp_path / "backup.zip")


def members(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(parts: dict[str, bytes]) -> io.BytesIO:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return data


def change_line(parts: dict[str, bytes], number: int, change: Callable[[Any], None]) -> None:
    lines = parts[LINES].splitlines()
    form = json.loads(lines[number - 1])
    change(form)
    lines[number - 1] = json.dumps(form).encode()
    parts[LINES] = b"\n".join(lines) + b"\n"


def other_config(form: Any) -> None:
    form["config"] = a_config(problem(m=64, n=128, k=128, contract="none"), 99).as_dict()


def grow_bomb(parts: dict[str, bytes]) -> None:
    name = next(n for n in parts if n.startswith("files/"))
    parts[name] = bytes(files_of_schedules.MOST_FILE_BYTES + 1)


def flip(parts: dict[str, bytes]) -> None:
    name = next(n for n in parts if n.startswith("files/"))
    parts[name] = parts[name] + b"!"


def drop(parts: dict[str, bytes]) -> None:
    del parts[next(n for n in parts if n.startswith("files/"))]


def set_field(number: int, *path: str, to: Any) -> Callable[[dict[str, bytes]], None]:
    def change(form: Any) -> None:
        for step in path[:-1]:
            form = form[step]
        form[path[-1]] = to

    return lambda parts: change_line(parts, number, change)


def put(name: str, content: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda parts: parts.__setitem__(name, content)


HOSTILE: list[tuple[Callable[[dict[str, bytes]], None], str]] = [
    (put("../../evil", b""), r"\.\./\.\./evil"),
    (put("/etc/passwd", b""), "/etc/passwd"),
    (put("files/" + "A" * 64, b""), "AAAA"),
    (put(MANIFEST, b"[" * 5000), "cannot be read"),
    (put(MANIFEST, b'{"format":"x","version":1,"schedules":3}'), "format x"),
    (put(LINES, b""), "has 0 schedules"),
    (put(LINES, b"x" * (files_of_schedules.MOST_LINE_BYTES + 2)), "line 1 is too long"),
    (put(LINES, b"[" * 100_000), "line 1: it is not JSON"),
    (put(LINES, b"null\n"), "line 1: it=None"),
    (lambda parts: parts.pop(LINES), "has no schedules.jsonl"),
    (grow_bomb, "more than 33554432 bytes"),
    (flip, "another digest"),
    (drop, "is missing"),
    (lambda parts: change_line(parts, 2, other_config), "line 2: config_digest"),
    (set_field(1, "id", to="../x-0"), "line 1: id="),
    (set_field(1, "symbol", to="f(void); int g"), "line 1: symbol="),
    (set_field(1, "workload", "params", "m", to=65), "problem_digest"),
    (set_field(1, "measurement", "cycles", to=1 << 63), "cycles="),
    (set_field(1, "measurement", "packets", to=-1), "packets=-1"),
    (set_field(1, "measurement", "verified", to=False), "verified"),
    (set_field(1, "measurement", "device", to="\ud800"), "device"),
    (set_field(1, "measurement", "breakdown", to={"a": float("nan")}), "breakdown.a=nan"),
    (set_field(1, "object_digest", to="0" * 64), "files.object"),
    (set_field(1, "files", "virus", to="0" * 64), "files"),
    (set_field(1, "provenance", "created_at", to=float("inf")), "number that JSON"),
    (set_field(1, "provenance", "note", to="x" * 70_000), "provenance is too large"),
    (set_field(1, "surprise", to=1), "surprise"),
]


def test_a_hostile_file_is_refused_by_name_and_nothing_of_it_stored(
    elsewhere: SqlStore, exported: Path
) -> None:
    for damage, told in HOSTILE:
        parts = members(exported)
        damage(parts)
        with pytest.raises(UserError, match=told):
            import_schedules(elsewhere, written(parts), installed=[TOOLCHAIN])
        assert elsewhere.best(lookup_of(problem(m=64, n=128, k=128))) is None


OF_ANOTHER_VERSION: list[tuple[tuple[Any, ...], Any, str]] = [
    (("config", "tile_m"), 5, "knob tile_m=5"),
    (("workload", "kernel"), "os.system", "unknown kernel"),
    (("workload", "version"), 99, "version 99 has other code"),
    (("workload", "source"), "0" * 16, "has other code there"),
    (("target", "vtcm_bytes"), 1, "other figures"),
]


@pytest.mark.parametrize(("path", "to", "told"), OF_ANOTHER_VERSION)
def test_what_another_version_wrote_is_left_out_and_told(
    elsewhere: SqlStore, exported: Path, path: tuple[Any, ...], to: Any, told: str
) -> None:
    parts = members(exported)
    set_field(2, *path, to=to)(parts)
    done = take(elsewhere, written(parts))
    assert (done.stored, done.left_out) == (2, 1)
    (reason,) = done.reasons
    assert reason.startswith("schedules.jsonl line 2: ")
    assert told in reason
    assert elsewhere.best(lookup_of(problem(m=64, n=128, k=128))) is not None
    set_field(1, *path, to=to)(parts)
    set_field(3, *path, to=to)(parts)
    with pytest.raises(UserError, match=f"line 1: .*{told}" if path[0] != "config" else "line"):
        take(elsewhere, written(parts))


@settings(max_examples=60, suppress_health_check=UNCHECKED)
@given(st.data())
def test_flipped_bits_are_found(elsewhere: SqlStore, exported: Path, data: st.DataObject) -> None:
    content = bytearray(exported.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        done = import_schedules(elsewhere, io.BytesIO(bytes(content)), installed=[TOOLCHAIN])
    except UserError:
        return
    # A bit that no reader looks at, such as one of a date: everything arrived whole.
    assert done.schedules == 3
    best = elsewhere.best(lookup_of(problem(m=64, n=128, k=128)))
    assert best is not None
    found = elsewhere.artifact(best.artifact_digest)
    assert digest_of_bytes(found.object_bytes) == best.artifact_digest


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@settings(suppress_health_check=UNCHECKED)
@given(st.data())
def test_any_value_in_any_field_is_read_or_refused(exported: Path, data: st.DataObject) -> None:
    form = json.loads(members(exported)[LINES].splitlines()[0])
    inside = data.draw(st.sampled_from([form, *(v for v in form.values() if isinstance(v, dict))]))
    inside[data.draw(st.sampled_from(sorted(inside)))] = data.draw(json_values)
    try:
        line = read_line(json.dumps(form).encode())
    except UserError:
        return
    assert line.schedule.problem.digest == form["problem_digest"]


def test_over_rest(
    client: TestClient,
    store: SqlStore,
    exported: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(importing, "installed_toolchains", lambda: [TOOLCHAIN])
    sent = client.get("/v1/export", params={"kernel": "gemm_u8"})
    assert sent.headers["Content-Type"] == "application/octet-stream"
    assert members_of(sent.content)[LINES].count(b"\n") == 2
    assert list((tmp_path / "state" / "transfers").iterdir()) == []
    taken = client.post("/v1/import", content=sent.content)
    assert (taken.status_code, taken.json()) == (
        200,
        NONE_LEFT_OUT | {"schedules": 2, "stored": 0, "kept": 2},
    )
    refused = client.post("/v1/import", content=b"not a zip")
    assert refused.status_code == 422
    assert "not a zip" in refused.json()["detail"]


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_over_the_command_line(
    store: SqlStore, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HVXTUNE_SERVER", raising=False)
    file = tmp_path / "out.zip"
    done = CliRunner().invoke(commands, ["db", "export", str(file), "--kernel", "gemm_u8"])
    assert done.exit_code == 0, done.output
    assert f"wrote {file}" in done.output.replace("\n", "")
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "third"))
    done = CliRunner().invoke(commands, ["db", "import", str(file), "--any-toolchain", "--json"])
    assert json.loads(done.output) == NONE_LEFT_OUT | {"schedules": 2, "stored": 2, "kept": 0}


def test_a_file_is_opened_as_a_store_of_its_own(store: SqlStore, exported: Path) -> None:
    of = problem(m=64, n=128, k=128)
    before = store.best(lookup_of(of))
    with opened(exported) as inside:
        assert inside.best(lookup_of(of)) == before
        assert inside.files.storage.root != store.files.storage.root
        place = inside.place.path
    assert place is not None
    assert not place.exists()
