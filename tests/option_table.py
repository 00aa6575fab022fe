"""The table of a job's options in docs/cli.md. ``python -m tests.option_table`` writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

from tuner.jobs.choices import help_of
from tuner.records.request import BUDGET, JobOptions, Option, options_of

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
BEGIN, END = "<!-- make option-table -->\n", "<!-- end of the table -->\n"


def option_table() -> str:
    """As Markdown, a row for each option."""
    rows = [
        "| option of `tune` | REST field | meaning | default |",
        "| --- | --- | --- | --- |",
        *(_row(option) for option in options_of(JobOptions)),
    ]
    return "\n".join(rows) + "\n"


def _row(option: Option) -> str:
    value = "" if option.kind == "bool" or option.switch else f" {option.metavar or 'N'}"
    if option.kind == "text" and not option.metavar and not option.switch:
        value = f" {option.name.upper()}"
    flags = ", ".join(f"`{flag}{value}`" for flag in option.flags).replace("/", "`, `")
    field = f"budget.{option.name}" if option.group == BUDGET else option.name
    text = help_of(option)
    if option.see:
        text = f"{text.removesuffix('.')} ([{option.see.partition('#')[0]}]({option.see}))."
    default = option.unset or str(option.default)
    if option.kind == "names":
        default = ", ".join(option.default)
    elif option.kind == "bool":
        default = "yes" if option.default else "no"
    return f"| {flags} | `{field}` | {text} | {default} |"


def written() -> str:
    """The table that the page has now."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    around = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    PAGE.write_text(around.sub(lambda _: BEGIN + option_table() + END, PAGE.read_text()))
