"""``tune --promote-to``, and what ``show`` tells of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.cli.conftest import STAND_IN_PHONE

TUNE = ("tune", "scale_u8", "--trials", "8", "--workers", "2", "--sampler", "random")


@pytest.fixture
def promoted(hvxtune: Any, bench: Any) -> dict[str, Any]:
    answer = hvxtune(*TUNE, "--promote-to", STAND_IN_PHONE, "--promote", "5", "--json")
    assert answer.status == 0, answer.err
    assert answer.err.splitlines()[-1].endswith("5/5 promoted")
    return dict(answer.json)


def test_a_job_promotes_and_says_what_came_of_it(hvxtune: Any, promoted: dict[str, Any]) -> None:
    ladder = promoted["ladder"]
    assert (ladder["promote_to"], ladder["promote"]) == (STAND_IN_PHONE, 5)
    assert len(ladder["promotions"]) == 5
    for one in ladder["promotions"]:
        assert (one["outcome"], one["fidelity"]) == ("ok", "hardware")
        assert (one["trial_fidelity"], one["trial_cycles"]) == ("model", one["cycles"])
    assert promoted["best"]["fidelity"] == "model", "the job's trials stay what they are"
    assert ladder["agreement"]["pairs"] == 5
    assert ladder["agreement"]["factor"] == 1
    assert ladder["agreement"]["tau"] == pytest.approx(1)
    out = hvxtune("show", promoted["job"]).out
    assert f"promoted to {STAND_IN_PHONE}: 5 of 5" in out
    assert "1 times the cycles (median of 5), Kendall's tau of both orders 1.00" in out
    best = hvxtune("best", "scale_u8", "--json").json
    assert (best["fidelity"], best["provenance"]["promoted"]) == ("hardware", True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--promote-to", "qemu"), "fidelity model"),
        (("--promote-to", STAND_IN_PHONE, "--promote", "0"), "--promote 0"),
        (("--promote-to", "no-such-tag"), ""),
    ],
)
def test_what_cannot_be_promoted_to_is_refused_before_anything_is_stored(
    hvxtune: Any, bench: Any, options: tuple[str, ...], told: str
) -> None:
    answer = hvxtune(*TUNE, *options)
    assert told in answer.error_line
    assert hvxtune("jobs", "--json").json["jobs"] == []
