"""Which of several searches goes on."""

from __future__ import annotations

from tuner.search.allocation import SearchState, next_search


def search(
    *history: tuple[int, int | None], weight: int = 1, peak: float = 10, family: str = "f"
) -> SearchState:
    made = SearchState(weight, peak, family)
    for trials, best in history:
        made.record(trials, best)
    return made


def test_every_search_begins_before_any_goes_on() -> None:
    assert next_search([search((2, 1_000_000)), search()]) == 1


def test_the_search_with_most_cycles_left_to_save_goes_on() -> None:
    assert next_search([search((2, 1000)), search((2, 5000))]) == 1


def test_trials_that_saved_nothing_make_room_for_others() -> None:
    tired = search((2, 5000), (40, 5000))
    assert next_search([tired, search((2, 1000))]) == 1


def test_a_relative_far_better_off_shows_how_much_is_left() -> None:
    """Twice the best share of the roofline in the family is as far as hope goes."""
    reached = search((2, 100), peak=90, family="a")
    behind = search((1, 1000), peak=100, family="a")
    alone = search((1, 1000), peak=100, family="b")
    assert next_search([alone, behind, reached]) == 1


def test_a_search_without_a_valid_candidate_is_given_up_after_some_trials() -> None:
    assert next_search([search((2, None)), search((2, 1000))]) == 0
    assert next_search([search((8, None)), search((2, 1000))]) == 1


def timed(trials: int, best: int, seconds: float) -> SearchState:
    made = SearchState(1, 10, "f")
    made.record(trials, best, seconds)
    return made


def test_a_trial_that_would_not_end_in_time_is_not_begun() -> None:
    large, small = timed(2, 5000, 20.0), timed(40, 20, 80.0)
    assert next_search([large, small], seconds_left=5.0) == 1
    assert next_search([large, small], seconds_left=1.0) is None
