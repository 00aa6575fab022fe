"""The config of a space that is nearest to wanted values."""

from tuner.space import Constraint, Knob, Space

SPACE = Space(
    "example",
    knobs=(
        Knob("tile", (1, 2, 4, 8), "rows of a tile"),
        Knob("align", ("off", "on"), "storage"),
        Knob("tail", ("moved", "guarded"), "last tile", when="extent % tile != 0"),
    ),
    constraints=(
        Constraint("tile <= extent", "a tile fits"),
        Constraint("tail != 'guarded' or align == 'on'", "guarded tiles are aligned"),
        Constraint("tail != 'moved' or extent >= 4", "there is room to move"),
    ),
    constants={"extent": 3},
)


def test_wanted_values_are_taken() -> None:
    assert SPACE.nearest_config({"tile": 1, "align": "on"}).as_dict() == {"tile": 1, "align": "on"}


def test_what_does_not_fit_becomes_the_first_choice_that_does() -> None:
    assert SPACE.nearest_config({"tile": 8}).as_dict() == {"tile": 1, "align": "off"}


def test_a_later_dead_end_changes_an_earlier_choice_that_was_not_wanted() -> None:
    found = SPACE.nearest_config({"tile": 2}).as_dict()
    assert found == {"tile": 2, "align": "on", "tail": "guarded"}
