"""Spaces: constraints, conditional knobs, sampling, enumeration, JSON, refusals."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import UserError
from tuner.space import Constraint, Knob, Space

TILING = Space(
    kernel="example",
    knobs=(
        Knob("tile", (1, 2, 4, 8), "rows of a tile"),
        Knob("form", ("plain", "vrmpy"), "reduction form"),
        Knob("unroll", (1, 2, 4), "unrolled steps", when="tile > 1"),
        Knob("fold", ("off", "on"), "fold storage", when="unroll > 1 and form == 'vrmpy'"),
    ),
    constraints=(
        Constraint("tile % unroll == 0", "the unrolled steps must divide the tile"),
        Constraint("form != 'vrmpy' or tile < limit", "wide tiles spill registers"),
    ),
    constants={"limit": 8},
)


@st.composite
def spaces(draw):
    """Small random spaces with conditional knobs and constraints between neighbours."""
    knobs: list[Knob] = []
    for i in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            choices = tuple(sorted(draw(st.sets(st.integers(1, 32), min_size=1, max_size=4))))
        else:
            choices = tuple(sorted(draw(st.sets(st.sampled_from("abcd"), min_size=1))))
        integers = [k.name for k in knobs if k.ordered]
        when = None
        if integers and draw(st.booleans()):
            when = f"{draw(st.sampled_from(integers))} > {draw(st.integers(0, 16))}"
        name = draw(st.sampled_from([f"k{i}", f"group.k{i}", f"c_{i}.k.k"]))
        knobs.append(Knob(name, choices, f"knob {i}", when=when))
    integers = [k.name for k in knobs if k.ordered]
    constraints = []
    for _ in range(draw(st.integers(0, 2)) if len(integers) > 1 else 0):
        a, b = draw(st.permutations(integers))[:2]
        constraints.append(Constraint(f"{a} % {b} < {draw(st.integers(1, 8))}", "test"))
    return Space("random", tuple(knobs), tuple(constraints))


def test_enumeration_is_every_valid_config_once():
    configs = list(TILING)
    assert len(set(configs)) == len(configs) == TILING.count(limit=1000)
    by_hand = {
        (tile, form, unroll, fold)
        for tile in (1, 2, 4, 8)
        for form in ("plain", "vrmpy")
        for unroll in ((1, 2, 4) if tile > 1 else (None,))
        for fold in (("off", "on") if unroll in (2, 4) and form == "vrmpy" else (None,))
        if (unroll is None or tile % unroll == 0) and (form == "plain" or tile < 8)
    }
    found = {(c["tile"], c["form"], c.get("unroll"), c.get("fold")) for c in configs}
    assert found == by_hand


@given(spaces(), st.integers(1, 40))
def test_configs_are_counted_as_far_as_asked(space, limit):
    assert space.count(limit) == min(len(list(space)), limit)


@given(spaces(), st.integers(0, 2**32))
def test_samples_are_members_of_the_space(space, seed):
    members = set(space)
    if not members:
        with pytest.raises(UserError, match="no valid config"):
            space.sample(Random(seed))
        return
    config = space.sample(Random(seed))
    assert config in members
    assert space.config(config.as_dict()) == config
    assert space.sample(Random(seed)) == config


@given(spaces())
def test_every_member_can_come_up(space):
    members = set(space)
    if not members or len(members) > 12:
        return
    random = Random(0)
    assert {space.sample(random) for _ in range(100 * len(members))} == members


@given(spaces())
def test_json_round_trip_keeps_digest_and_members(space):
    copy = Space.from_dict(json.loads(json.dumps(space.as_dict())))
    assert copy == space
    assert copy.digest == space.digest
    assert list(copy) == list(space)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tile": 3, "form": "plain"}, ["tile=3", "1, 2, 4, 8"]),
        ({"tile": 1}, ["form is missing", "plain, vrmpy"]),
        ({"tile": 1, "form": "plain", "unroll": 1}, ["unroll=1", "only where tile > 1"]),
        ({"tile": 1, "from": "plain"}, ["unknown knob 'from'", "did you mean form"]),
        (
            {"tile": 2, "form": "plain", "unroll": 4},
            ["tile % unroll == 0", "tile=2", "unroll=4", "must divide the tile"],
        ),
    ],
)
def test_refuses_configs_outside_naming_knob_value_and_what_is_accepted(values, words):
    with pytest.raises(UserError) as caught:
        TILING.config(values)
    for word in words:
        assert word in str(caught.value)


def accepted(space, values):
    try:
        space.config(values)
    except (UserError, TypeError, AttributeError):
        return False
    return True


@given(spaces(), st.data())
def test_a_space_admits_exactly_what_makes_a_config(space, data):
    for config in list(space)[:20]:
        assert space.admits(config.as_dict())
    names = st.sampled_from([*(knob.name for knob in space.knobs), "other"])
    values = st.integers(0, 33) | st.sampled_from("abcde") | st.booleans() | st.none()
    for _ in range(5):
        near = data.draw(st.dictionaries(names, values, max_size=6))
        assert space.admits(near) == accepted(space, near)


@pytest.mark.parametrize(
    "data",
    [
        {"kernel": "x"},
        {"kernel": "x", "knobs": 3, "constraints": [], "constants": {}},
        {
            "kernel": "x",
            "knobs": [],
            "constraints": [{"text": "open('x')", "reason": ""}],
            "constants": {},
        },
    ],
)
def test_refuses_json_that_is_no_space(data):
    with pytest.raises(UserError):
        Space.from_dict(data)
