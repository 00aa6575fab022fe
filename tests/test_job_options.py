"""The options of a job are defined once: every door has all of them, and says the same."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, get_type_hints

import pytest
import typer

from service.cli.app import app
from service.client import Client
from service.schemas.jobs import BudgetBody, JobForm, SubmitBody
from tuner.errors import UserError
from tuner.jobs.choices import choices_of, help_of
from tuner.jobs.keywords import JobKeywords
from tuner.jobs.tuning import plan, submit, tune, tune_pipeline
from tuner.records.request import (
    BUDGET,
    JobOptions,
    Option,
    SearchOptions,
    options_of,
)

OPTIONS = options_of(JobOptions)
TUNE = typer.main.get_command(app).commands["tune"]


def test_the_command_line_has_every_option() -> None:
    shown = " ".join(TUNE.get_help(typer.Context(TUNE, info_name="tune")).split())
    for option in OPTIONS:
        command_line_has(option, shown)


def command_line_has(option: Option, shown: str) -> None:
    (parameter,) = [p for p in TUNE.params if p.name == option.name]
    spelled = {*parameter.opts, *parameter.secondary_opts}
    assert spelled == {flag for both in option.flags for flag in both.split("/")}
    assert help_of(option) in shown
    if "{choices}" in option.help:
        assert all(name in shown for name in choices_of(option))


def test_the_rest_body_has_every_option() -> None:
    for option in OPTIONS:
        rest_body_has(option)


def rest_body_has(option: Option) -> None:
    fields = (BudgetBody if option.group == BUDGET else SubmitBody).model_json_schema()[
        "properties"
    ]
    assert option.name in fields
    text = help_of(option)
    assert text[1:] in fields[option.name]["description"]
    accepted = next(iter(fields[option.name].get("anyOf", [fields[option.name]])))
    if option.kind == "int":
        assert (accepted["minimum"], accepted["maximum"]) == (option.least, option.most)


def test_the_answer_has_every_option_that_a_job_keeps() -> None:
    kept = {o.name for o in options_of(SearchOptions) if o.group != BUDGET}
    assert kept <= JobForm.model_json_schema()["properties"].keys()


def test_the_keywords_of_python_are_those_of_the_definition() -> None:
    typed, defined = get_type_hints(JobKeywords), get_type_hints(JobOptions)
    assert defined.pop("objectives") == tuple[str, ...]
    assert typed.pop("objectives") == Sequence[str], "lists do, too"
    assert typed == defined
    for function in (tune, tune_pipeline, submit):
        shown = inspect.signature(function).parameters
        assert {o.name: shown[o.name].default for o in OPTIONS} == {
            o.name: o.default for o in OPTIONS
        }
        described = " ".join(str(function.__doc__).split())
        assert [o.name for o in OPTIONS if f"{o.name}: {help_of(o)}" not in described] == []


def test_a_misspelt_keyword_names_the_nearest_option() -> None:
    for ask in (
        lambda: plan("gemm_u8", until_gian=0.1),
        lambda: Client("http://x").submit("gemm_u8", until_gian=0.1),
    ):
        with pytest.raises(UserError, match="unknown job option 'until_gian'") as refused:
            ask()
        assert refused.value.next_step == "did you mean until_gain?"
        assert "until_gain" in refused.value.accepted


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        ({"trials": 0}, "1 to 10000000"),
        ({"seconds": float("nan")}, "above 0"),
        ({"until_gain": 1.5}, "below 1"),
        ({"cache": "hot"}, "warm, cold"),
        ({"objectives": "cycles"}, "cycles, code_bytes"),
        ({"workers": 2.0}, "1 to 256"),
    ],
)
def test_a_value_that_will_not_do_is_named(given: dict[str, Any], accepted: str) -> None:
    (name,) = given
    with pytest.raises(UserError, match=f"^{name}=") as refused:
        JobOptions.of(given)
    assert accepted in refused.value.accepted


def test_the_body_says_what_the_options_say() -> None:
    options = {"objectives": ("cycles", "vtcm_bytes"), "patience": 4, "priority": 2, "seed": 9}
    body = SubmitBody.of(options, kernel="gemm_u8")
    assert JobOptions.of(body.options()) == JobOptions.of(options)
