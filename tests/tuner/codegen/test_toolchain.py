"""The wheel's compiler and the cache of what it built."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.codegen.toolchain import NativePart, built
from tuner.errors import InternalError
from tuner.paths import CACHE_DIR_VARIABLE


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def part(tmp_path: Path) -> NativePart:
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
    source = tmp_path / "answer.c"
    source.write_text('#include "answer.h"\nint answer(void) { return ANSWER; }\n')
    return NativePart("answer", "hexagon", (source,), (tmp_path / "answer.h",), arch="v66")


def test_what_was_built_is_not_built_again(part: NativePart) -> None:
    first = built(part)
    stamp = first.stat().st_mtime_ns
    assert built(part) == first
    assert first.stat().st_mtime_ns == stamp


def test_a_changed_source_header_flag_or_arch_is_another_build(part: NativePart) -> None:
    places = {built(part)}
    part.headers[0].write_text("#define ANSWER 43\n")
    places.add(built(part))
    part.sources[0].write_text(part.sources[0].read_text() + "int more;\n")
    places.add(built(part))
    places.add(built(replace(part, flags=("-DMORE",))))
    places.add(built(replace(part, arch="v68")))
    assert len(places) == 5


def test_several_may_build_the_same_at_once(part: NativePart, cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        places = set(pool.map(lambda _: built(part), range(4)))
    assert len(places) == 1
    assert [path.name for path in (cache / "native").iterdir()] == [places.pop().name]


def test_a_mistake_in_our_own_source_is_told_with_its_line(part: NativePart) -> None:
    part.sources[0].write_text("int answer(void) { return; }\n")
    with pytest.raises(InternalError, match=r"answer\.c:1"):
        built(part)
