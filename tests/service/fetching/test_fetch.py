"""Fetching for a build: what is pinned is what is taken, and nothing that does not fit."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from service.client import UnreachableError
from service.client.cache import ClientCache
from service.fetching import Wish, fetch
from service.fetching.pins import read_pins
from service.fetching.sources import Offer, broken_promise
from tuner.errors import StoreError, UserError
from tuner.identity import digest_of_bytes
from tuner.jobs.tuning import find_problem
from tuner.keeping.best import lookup_of
from tuner.problem.contract import Contract

OBJECTS = [b"\x7fELF the first", b"\x7fELF a faster one"]
HEADER = b"int add(struct halide_buffer_t *);\n"


class Shelf:
    """A source that a test fills."""

    def __init__(self, contract="static", target="hexagon-v66", **params):
        self.content = OBJECTS[0]
        self.offer = Offer(
            kernel="gaussian5x5_u8",
            params={"width": 256, "height": 8, **params},
            target=target,
            contract=contract,
            schedule="job1-1",
            symbol=f"blur_{contract}",
            object_digest=digest_of_bytes(self.content),
            cycles=100,
            fidelity="model",
        )
        self.asked = []

    def best(self, lookup):
        self.asked.append("best")
        return self.offer

    def file(self, schedule, object_digest, kind):
        self.asked.append(kind)
        return self.content if kind == "object" else HEADER

    def improve(self):
        self.content = OBJECTS[1]
        digest = digest_of_bytes(self.content)
        self.offer = replace(self.offer, schedule="job2-5", object_digest=digest, cycles=50)


class Down(Shelf):
    def best(self, lookup):
        raise UnreachableError("no service answers")

    def file(self, schedule, object_digest, kind):
        raise UnreachableError("no service answers")


def wish(contract="static", target="hexagon-v66", name="add", **params):
    return Wish(
        name,
        lookup_of(
            find_problem("gaussian5x5_u8", {"width": 256, "height": 8, **params}, target, contract)
        ),
    )


@pytest.fixture
def get(tmp_path):
    """``get(wish(), source)`` fetches into one folder, with one lock file and one cache."""

    def run(what, source, **options):
        places = {"folder": tmp_path / "out", "lock": tmp_path / "hvxtune.lock"}
        return fetch(what, source, **places, cache=ClientCache(tmp_path / "cache"), **options)

    return run


def test_object_and_headers_are_put_in_place_and_pinned(get, tmp_path):
    fetched = get(wish(), Shelf())
    assert fetched.origin == "source"
    assert (tmp_path / "out" / "add.o").read_bytes() == OBJECTS[0]
    assert (tmp_path / "out" / "blur_static.h").read_bytes() == HEADER
    assert '#include "blur_static.h"' in (tmp_path / "out" / "add.h").read_text()
    assert read_pins(tmp_path / "hvxtune.lock") == {"add": fetched.pin}
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_what_is_pinned_and_cached_is_asked_of_nobody(get):
    get(wish(), Shelf())
    assert get(wish(), None).origin == "lock"
    shelf = Shelf()
    get(wish(), shelf)
    assert shelf.asked == []


def test_a_new_machine_gets_what_is_pinned(get, tmp_path):
    first = get(wish(), Shelf())
    (tmp_path / "cache").rename(tmp_path / "cache of the other machine")
    with pytest.raises(StoreError, match="not in the cache"):
        get(wish(), None)
    with pytest.raises(UnreachableError, match="the pinned schedule job1-1 cannot be fetched"):
        get(wish(), Down())
    assert get(wish(), Shelf()).pin == first.pin


def test_an_object_that_is_not_the_pinned_one_is_refused(get, tmp_path):
    get(wish(), Shelf())
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    (tmp_path / "out" / "add.o").unlink()
    other = Shelf()
    other.content = b"another"
    with pytest.raises(StoreError, match="changed or damaged"):
        get(wish(), other)
    assert not (tmp_path / "out" / "add.o").exists()


def test_an_object_that_is_not_the_offered_one_is_not_pinned(get, tmp_path):
    shelf = Shelf()
    shelf.content = b"another"
    with pytest.raises(StoreError, match="changed or damaged"):
        get(wish(), shelf)
    assert not (tmp_path / "hvxtune.lock").exists()
    assert not (tmp_path / "out").exists()


def test_a_weaker_promise_does_not_get_what_needs_a_stronger_one(get, tmp_path):
    get(wish(), Shelf())
    with pytest.raises(UserError, match="the contract does not hold") as caught:
        get(wish(contract="host"), Shelf(contract="host"))
    message = str(caught.value)
    assert "needs 'static', the caller promises 'host' only" in message
    assert "--update" in message
    shelf = Shelf(contract="host")
    assert get(wish(contract="host"), shelf, update=True).pin.contract == "host"


def test_a_stronger_promise_may_use_what_needs_a_weaker_one(get):
    get(wish(contract="host"), Shelf(contract="host"))
    assert get(wish(contract="static"), None).pin.contract == "host"


def test_a_service_that_offers_what_is_not_promised_is_not_believed(get, tmp_path):
    with pytest.raises(UserError, match="the contract does not hold"):
        get(wish(contract="host"), Shelf(contract="static"))
    assert not (tmp_path / "hvxtune.lock").exists()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"target": "hexagon-v68"}, "for target hexagon-v66, asked for is hexagon-v68"),
        ({"height": 9}, "for params height=8 width=256, asked for is height=9 width=256"),
    ],
)
def test_a_pin_for_something_else_is_refused(get, other, said):
    get(wish(), Shelf())
    with pytest.raises(UserError, match=said):
        get(wish(**other), Shelf(**other))


def test_builds_at_the_same_time_all_get_pinned(get, tmp_path):
    names = [f"add{i}" for i in range(8)]
    builds = [threading.Thread(target=get, args=(wish(name=name), Shelf())) for name in names]
    for build in builds:
        build.start()
    for build in builds:
        build.join()
    assert sorted(read_pins(tmp_path / "hvxtune.lock")) == names


def test_a_name_is_a_name_of_c():
    for name in ("", "with space", "../up", "1st", "version", "né"):
        with pytest.raises(UserError, match="C identifier"):
            wish(name=name)


def test_exact_shapes_keep_weaker_contracts_only_where_they_do():
    whole = find_problem("gaussian5x5_u8", {"width": 256, "height": 8}, "hexagon-v66", "static")
    ragged = find_problem("gaussian5x5_u8", {"width": 250, "height": 8}, "hexagon-v66", "static")
    assert broken_promise(whole, Contract.EXTENT) is None
    assert "not whole vectors" in broken_promise(ragged, Contract.STRIDE)
    assert lookup_of(whole).contracts == tuple(Contract)
    assert lookup_of(ragged).contracts == ("none", "host", "static")
    extent = find_problem("gaussian5x5_u8", {"width": 256, "height": 8}, "hexagon-v66", "extent")
    assert lookup_of(extent).contracts == ("none", "host", "stride", "extent")
