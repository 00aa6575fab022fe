"""Uploads that mean harm, by hand and by chance: each is refused with one line, and none runs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import halide as hl
import pytest

import service
import tuner
from tests.rig.hostile_uploads import hostile_uploads
from tests.rig.unseen_pipelines import unseen_pipeline
from tests.rig.uploads import mutated, serialized_pipeline
from tuner.codegen.halide.uploads import analyse_pipeline, describe_pipeline, readers
from tuner.codegen.halide.uploads.answers import NotTunableError
from tuner.codegen.halide.uploads.program import program_of
from tuner.codegen.halide.uploads.serialized import MOST_DEPTH, DamagedError
from tuner.errors import UserError
from tuner.program import ProgramError

ROOMS = (tuner, service)
LEAST_HANDMADE = 30
MUTATED = ("sharpen", "dense", "exposure", "strongest")


def valid_uploads() -> list[bytes]:
    return [serialized_pipeline(), *map(unseen_pipeline, MUTATED)]


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose mode and time anything run here could change, in the folder it would run in."""
    file = tmp_path / "canary"
    file.write_text("alive")
    file.chmod(0o640)
    monkeypatch.chdir(tmp_path)
    return file


def state_of(canary: Path) -> tuple[object, ...]:
    about = canary.stat()
    names = sorted(path.name for path in canary.parent.iterdir())
    return about.st_mode, about.st_mtime_ns, about.st_ctime_ns, about.st_ino, names


def test_halide_opens_none() -> None:
    sources = [path for room in ROOMS for path in Path(room.__file__).parent.rglob("*.py")]
    assert len(sources) > len(ROOMS)
    assert not [path.name for path in sources if "deserialize_" in path.read_text()]


@pytest.mark.slow
def test_each_handmade_one_is_refused_with_its_reason_and_runs_nothing(canary: Path) -> None:
    before = state_of(canary)
    describe_pipeline(serialized_pipeline())
    served_by = readers.readers().processes()
    uploads = hostile_uploads()
    assert len(uploads) >= LEAST_HANDMADE
    for name, (data, reason) in uploads.items():
        with pytest.raises(UserError) as refused:
            describe_pipeline(data)
        said = refused.value.message
        assert re.search(reason, said), f"{name}: {said}"
        assert said.isprintable(), name
        assert refused.value.accepted, name
    assert set(served_by) <= set(readers.readers().processes())
    assert state_of(canary) == before


def answer_to(data: bytes) -> str:
    """Why an upload is refused; empty if it can be tuned."""
    try:
        describe_pipeline(data)
        analyse_pipeline(data, {})
    except UserError as error:
        return error.message
    return ""


def test_whatever_bytes_there_are_reading_them_ends_in_a_refusal() -> None:
    found: Counter[str] = Counter()
    for data in mutated(valid_uploads(), 60, seed=0):
        try:
            program_of(data)
            found["accepted"] += 1
        except (DamagedError, NotTunableError, ProgramError) as error:
            found[type(error).__name__] += 1
    assert found["DamagedError"] > found["accepted"]


@pytest.mark.parametrize(
    "count",
    [pytest.param(60, marks=pytest.mark.slow), pytest.param(500, marks=pytest.mark.nightly)],
)
def test_mutations_of_valid_uploads_are_harmless_or_refused(count: int, canary: Path) -> None:
    """Of 200 copies with one to four bits turned, Halide's own reader died of 67."""
    before = state_of(canary)
    describe_pipeline(serialized_pipeline())
    served_by = readers.readers().processes()
    said = [answer_to(data) for data in mutated(valid_uploads(), count, seed=count)]
    refused = [message for message in said if message]
    assert all(message.isprintable() and len(message) < 400 for message in refused)
    crashes = [message for message in refused if "reader died" in message]
    assert not crashes, f"{len(crashes)} of {count}, {count - len(refused)} harmless"
    assert set(served_by) <= set(readers.readers().processes())
    assert state_of(canary) == before


def test_a_long_sum_is_no_depth() -> None:
    """Nor is anything else that people write: an expression of many terms nests one for each."""
    x, sums = hl.Var("x"), hl.Func("sums")
    image = hl.ImageParam(hl.UInt(8), 1, "image")
    value = image[x]
    for number in range(MOST_DEPTH // 2):
        value = value + image[x + number]
    sums[x] = value
    assert describe_pipeline(bytes(hl.serialize_pipeline(hl.Pipeline(sums)))).outputs
