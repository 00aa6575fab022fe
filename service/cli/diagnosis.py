"""``doctor``: the parts this machine has and lacks."""

from __future__ import annotations

import typer

from service.cli.options import AsJson
from service.cli.output import print_json, print_line, print_table


def doctor(as_json: AsJson = False) -> None:
    """Check this machine; say what to install."""
    from tuner.machine.doctor import examine

    findings = examine()
    broken = [f for f in findings if f.required and not f.present]
    if as_json:
        print_json({"ok": not broken, "findings": [f.as_dict() for f in findings]})
    else:
        print_table(
            ["", "part", "found", "needed for"],
            [
                [
                    "ok" if f.present else "MISSING" if f.required else "no",
                    f.name,
                    f.found,
                    f.purpose,
                ]
                for f in findings
            ],
        )
        for finding in findings:
            if not finding.present:
                print_line(f"{finding.name}: {finding.remedy}")
    if broken:
        raise typer.Exit(1)
