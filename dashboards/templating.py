"""Templates, and the formats of figures in them.

Everything is escaped: templates get values, never markup. Figures have units and separators, so
that columns of them line up."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from tuner.kernels import PACKAGE_PREFIX, PIPELINE_PREFIX
from tuner.records.candidate import cycles_text

VERSIONED = (PIPELINE_PREFIX, PACKAGE_PREFIX)
ABSENT = "\N{EN DASH}"
_KIB = 1024


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page or part ``template``; ``viewer`` and ``root`` are there beside ``values``."""
    root = request.scope.get("root_path", "")
    context = {
        "request": request,
        "root": root,
        "docs": root.removesuffix("/ui") + "/docs",
        "viewer": getattr(request.state, "viewer", None),
        "path": request.url.path,
        **values,
    }
    return HTMLResponse(environment().get_template(template).render(context), status)


def compile_templates() -> None:
    """Compiles them all, for which the first page of each kind would otherwise wait."""
    for name in environment().list_templates():
        environment().get_template(name)


@cache
def environment() -> Environment:
    """The templates of this folder."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        count=count,
        cycles=cycles,
        separated=separated,
        ratio=ratio,
        share=share,
        duration=duration,
        size=size,
        micros=micros,
        millis=millis,
        celsius=celsius,
        ago=ago,
        moment=moment,
        shape=shape,
        digits=digits,
        as_json=as_json,
    )
    return made


def count(value: float | None) -> str:
    """``12,345``."""
    return ABSENT if value is None else f"{value:,.0f}"


class _Measured(Protocol):
    """What has cycles and their range."""

    @property
    def cycles(self) -> int: ...
    @property
    def lowest_cycles(self) -> int | None: ...
    @property
    def highest_cycles(self) -> int | None: ...


def cycles(of: _Measured | None) -> str:
    """``68,998 (to 71,000)``."""
    if of is None:
        return ABSENT
    return cycles_text(of.cycles, of.lowest_cycles, of.highest_cycles)


_NUMBER = re.compile(r"(?<![\w.,:/#-])\d{5,15}(?![\w/]|[.,:]\d)")


def separated(text: str) -> str:
    """``text`` with separators in its whole numbers: ``stopped after 20,886,431 cycles``. Digits in
    names, versions, paths and times stay."""
    return _NUMBER.sub(lambda found: f"{int(found[0]):,}", text)


def ratio(value: float | None) -> str:
    """A ratio as a factor, with two decimals."""
    return ABSENT if value is None else f"{value:.2f}\N{MULTIPLICATION SIGN}"


def share(value: float | None) -> str:
    """``41.2 %``."""
    return ABSENT if value is None else f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def duration(seconds: float | None) -> str:
    """``3 min 20 s``: two units at most, the second only if it is not zero."""
    if seconds is None:
        return ABSENT
    if seconds < 10:
        return f"{seconds:.1f}\N{NO-BREAK SPACE}s"
    left = round(seconds)
    parts: list[tuple[int, str]] = []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, length)
        if amount or parts:
            parts.append((amount, unit))
    shown = [part for part in parts[:2] if part[0]]
    return " ".join(f"{amount}\N{NO-BREAK SPACE}{unit}" for amount, unit in shown)


def size(value: float | None) -> str:
    """``640 B``, ``1.5 KiB``, ``4 MiB``."""
    if value is None:
        return ABSENT
    if value < _KIB:
        return f"{value:.0f}\N{NO-BREAK SPACE}B"
    unit, scaled = ("KiB", value / _KIB) if value < _KIB**2 else ("MiB", value / _KIB**2)
    return f"{scaled:,.1f}".removesuffix(".0") + f"\N{NO-BREAK SPACE}{unit}"


def micros(value: float | None) -> str:
    """Microseconds: ``1,234.5``."""
    return ABSENT if value is None else f"{value:,.1f}"


def millis(value_us: float | None) -> str:
    """Milliseconds of microseconds: ``1.234``."""
    return ABSENT if value_us is None else f"{value_us / 1000:,.3f}"


def celsius(value: float | None) -> str:
    """``31.5 °C``."""
    return ABSENT if value is None else f"{value:.1f}\N{NO-BREAK SPACE}\N{DEGREE SIGN}C"


def ago(at: float) -> str:
    """``3 min ago``."""
    passed = max(0.0, time.time() - at)
    if passed < 5:
        return "just now"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if passed >= length:
            return f"{passed // length:.0f}\N{NO-BREAK SPACE}{unit} ago"
    return "just now"


def moment(at: float) -> str:
    """ISO 8601, for ``<time>`` elements and titles."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def shape(params: dict[str, Any]) -> str:
    """``m=256 n=256``."""
    return " ".join(f"{name}={value}" for name, value in params.items())


def digits(kernel: str) -> str:
    """The digits of an upload's or a package's version; nothing for a kernel without versions."""
    return kernel.partition(":")[2] if kernel.startswith(VERSIONED) else ""


def as_json(value: Any) -> Markup:
    """For ``<script type="application/json">``: nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)  # noqa: S704  # escaped above, for where HTML escapes mean nothing
