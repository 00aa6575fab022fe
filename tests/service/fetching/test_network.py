"""Networks for a build: the bundle that is pinned is the bundle that is made, or nothing is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from service.client import RefusedError
from service.client.cache import ClientCache
from service.fetching import Wish, fetch
from service.fetching.network import FetchedNetwork, NetworkWish, fetch_network
from service.fetching.pins import NetworkPin, read_pins, write_pins
from service.fetching.sources import FileKind, NothingStoredError, Offer
from tests.service.fetching.test_pins import NETWORK, PIN
from tests.tuner.network.shipping.graphs import GRAPHS
from tuner.codegen.toolchain import NativePart, find_toolchain
from tuner.errors import HvxtuneError, StoreError, UserError
from tuner.identity import digest_of_bytes
from tuner.keeping.best import Lookup, lookup_of
from tuner.kernels import find_kernel
from tuner.network.shipping import problems_of
from tuner.problem.contract import Contract
from tuner.problem.target import find_target

pytestmark = pytest.mark.slow

TARGET = find_target("hexagon-v66")
GRAPH = GRAPHS["residual block"]()


@cache
def compiled(source: str) -> bytes:
    """An object for Hexagon."""
    flags = NativePart("stand-in", "hexagon", (), arch="v66").compiler_flags()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "function.c").write_text(source)
        made = folder / "function.o"
        command = [*flags, "-g0", "-c", folder / "function.c", "-o", made]
        find_toolchain().cc(command, folder)
        return made.read_bytes()


class Shelf:
    """A source with a schedule for everything but ``lacks``; its functions only return ``answer``.
    A test may have it ``offer`` other values."""

    def __init__(self) -> None:
        self.answer = 0
        self.lacks: Sequence[str] = ()
        self.offer: dict[str, Any] = {}
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []

    def best(self, lookup: Lookup) -> Offer:
        problem = lookup.problem
        self.asked.append("best")
        if problem.workload.kernel in self.lacks:
            raise NothingStoredError("nothing is stored")
        content = compiled(f"int {problem.symbol}(void) {{ return {self.answer}; }}")
        digest = digest_of_bytes(content)
        self.objects[digest] = content
        offer = Offer(
            kernel=problem.workload.kernel,
            params=dict(problem.workload.params),
            target=problem.target.name,
            contract="static",
            schedule=f"job{self.answer}-1",
            symbol=problem.symbol,
            object_digest=digest,
            cycles=1000 - self.answer,
            fidelity="model",
            generator="halide",
            config={"tile_y": 8, "tile_x": 128},
            toolchain={"llvm": "21.1", "halide": "21.0"},
            workload=problem.workload.digest,
        )
        return replace(offer, **self.offer)

    def file(self, schedule: str, object_digest: str, kind: FileKind) -> bytes:
        self.asked.append(kind)
        return self.objects[object_digest]

    def workload(self, offer: Offer) -> str:
        return offer.workload


Get = Callable[..., FetchedNetwork]


@pytest.fixture
def get(tmp_path: Path) -> Get:
    """``get(source)`` fetches a network into one folder, with one lock file and one cache."""

    def run(source: Shelf | None, **options: Any) -> FetchedNetwork:
        named = {"name": "model", "graph": GRAPH, "target": TARGET}
        wish = NetworkWish(**{key: options.pop(key, value) for key, value in named.items()})
        places = {"place": tmp_path / "out", "lock": tmp_path / "hvxtune.lock"}
        kept = ClientCache(tmp_path / "cache")
        return fetch_network(wish, source, **places, cache=kept, **options)

    return run


def files_in(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def times_in(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def pinned(tmp_path: Path) -> NetworkPin:
    pin = read_pins(tmp_path / "hvxtune.lock")["model"]
    assert isinstance(pin, NetworkPin)
    return pin


def test_the_bundle_is_put_in_place_and_pinned(get: Get, tmp_path: Path) -> None:
    fetched = get(Shelf())
    assert fetched.origin == "source"
    assert files_in(tmp_path / "out") == fetched.bundle.files
    manifest = (tmp_path / "out" / "manifest.json").read_bytes()
    assert pinned(tmp_path) == fetched.pin
    assert fetched.pin.bundle == digest_of_bytes(manifest)
    assert fetched.pin.network == GRAPH.digest
    assert {function["schedule"] for function in fetched.bundle.manifest["functions"]} == {"stored"}
    wanted = [problem.workload.digest for problem in problems_of(GRAPH, TARGET)]
    assert [function.workload for function in fetched.pin.functions] == wanted


def test_what_is_pinned_stays_until_an_update_on_any_machine(get: Get, tmp_path: Path) -> None:
    shelf = Shelf()
    first = get(shelf)
    times = times_in(tmp_path / "out")
    lock = (tmp_path / "hvxtune.lock").read_bytes()
    again = get(None)
    assert again.origin == "lock"
    assert (again.pin, again.bundle.files) == (first.pin, first.bundle.files)
    assert times_in(tmp_path / "out") == times, "nothing is to be built again"
    for place in ("cache", "out"):
        (tmp_path / place).rename(tmp_path / f"{place} of the other machine")
    with pytest.raises(StoreError, match="is not in the cache"):
        get(None)
    shelf.asked = []
    assert get(shelf).bundle.files == first.bundle.files
    assert set(shelf.asked) == {"object"}
    shelf.answer = 1
    assert get(shelf).bundle.files == first.bundle.files
    assert (tmp_path / "hvxtune.lock").read_bytes() == lock
    updated = get(shelf, update=True)
    assert {function.schedule for function in updated.pin.functions} == {"job1-1"}
    assert files_in(tmp_path / "out") == updated.bundle.files != first.bundle.files


def test_functions_without_a_schedule_are_named(get: Get, tmp_path: Path) -> None:
    shelf = Shelf()
    shelf.lacks = ("qadd_u8",)
    with pytest.raises(UserError, match=r"1 of 4 functions of residual block .*: qadd_u8 ") as told:
        get(shelf)
    assert "hvxtune network tune" in told.value.next_step
    assert not (tmp_path / "hvxtune.lock").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("status", "said"), [(403, "no"), (404, "4 of 4 functions")])
def test_only_a_miss_is_a_missing_schedule(get: Get, status: int, said: str) -> None:
    class Refusing(Shelf):
        def best(self, lookup: Lookup) -> Offer:
            raise RefusedError(status, {"detail": "no"})

    with pytest.raises(UserError, match=said):
        get(Refusing())


def test_what_is_not_as_it_was_pinned_is_refused(get: Get, tmp_path: Path) -> None:
    first = get(Shelf())
    narrow, newer = GRAPHS["narrow"](), find_target("hexagon-v68")
    with pytest.raises(UserError, match="pinned for the network") as told:
        get(Shelf(), graph=narrow)
    assert "--update" in told.value.next_step
    with pytest.raises(UserError, match="for target hexagon-v66, this is hexagon-v68"):
        get(Shelf(), target=newer)
    assert files_in(tmp_path / "out") == first.bundle.files
    pin = pinned(tmp_path)
    one, *others = pin.functions
    for changes, said in (
        ({"bundle": "0" * 64}, "the same versions make other bytes here"),
        (
            {"bundle": "0" * 64, "made_with": {"hvxtune": "0.0.1", "llvm": "9"}},
            r"hvxtune was 0\.0\.1 and is .*, llvm was 9 and is not used",
        ),
        (
            {"functions": (replace(one, workload="0" * 64), *others)},
            f"the kernel {one.kernel} of 'model' has changed",
        ),
        ({"functions": pin.functions[:-1]}, "3 functions, not 4"),
    ):
        write_pins(tmp_path / "hvxtune.lock", {"model": replace(pin, **changes)})
        with pytest.raises(UserError, match=said):
            get(None)


@pytest.mark.parametrize(
    ("offer", "said"),
    [
        ({"workload": "0" * 64}, "another version of the kernel"),
        ({"target": "hexagon-v68"}, "is for target hexagon-v68"),
        ({"config": {"tile": [1]}}, "has a field of the wrong type"),
        ({"generator": "a\nb"}, "has a field of the wrong type"),
        ({"object_digest": "../../x"}, "is not sha256:DIGEST"),
    ],
)
def test_what_a_source_says_is_not_taken_on_trust(
    get: Get, tmp_path: Path, offer: dict[str, Any], said: str
) -> None:
    shelf = Shelf()
    shelf.offer = offer
    with pytest.raises(UserError, match=said) as told:
        get(shelf)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "hvxtune.lock").exists()


WRONG_OBJECTS = {
    "changed or damaged": lambda: b"other bytes",
    "cannot be linked: not ELF": lambda: b"not an object",
    "does not define q": lambda: compiled("int other(void) { return 0; }"),
    "cannot be linked": lambda: compiled("int other(void) { return 0; }")[:300],
}


@pytest.mark.parametrize("said", WRONG_OBJECTS)
def test_an_object_that_is_not_right_is_refused(get: Get, tmp_path: Path, said: str) -> None:
    content = WRONG_OBJECTS[said]()

    class Odd(Shelf):
        def file(self, schedule: str, object_digest: str, kind: FileKind) -> bytes:
            return content

    shelf = Odd()
    if said != "changed or damaged":
        shelf.offer = {"object_digest": digest_of_bytes(content)}
    with pytest.raises(HvxtuneError, match=said):
        get(shelf)
    assert not (tmp_path / "hvxtune.lock").exists()
    assert not (tmp_path / "out").exists()


def test_a_name_is_a_networks_or_a_schedules(get: Get, tmp_path: Path) -> None:
    lock = tmp_path / "hvxtune.lock"
    write_pins(lock, {"model": PIN, "net": NETWORK})
    with pytest.raises(UserError, match="'model' is a schedule in"):
        get(Shelf(), update=True)
    problem = find_kernel("gemm_u8").problem({"m": 64, "n": 128, "k": 64}, Contract.STATIC, TARGET)
    with pytest.raises(UserError, match="'net' is a network in"):
        fetch(
            Wish("net", lookup_of(problem)),
            None,
            folder=tmp_path,
            lock=lock,
            cache=ClientCache(tmp_path / "cache"),
            update=True,
        )
