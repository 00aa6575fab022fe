"""The file of timing parameters with calibrated values: everything else as it was."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tomllib
from pathlib import Path

from tuner.errors import InternalError, UserError
from tuner.machine.paths import writable
from tuner.measure.qemu.calibration.calibrate import Calibration, FittedParameter
from tuner.measure.qemu.model_file import ModelFile
from tuner.measure.qemu.parameters import specs_of


def default_place(target: str) -> Path:
    """Where a calibration of ``target`` goes if nobody says otherwise: in the state directory."""
    return writable("timing") / f"{target}.toml"


def require_writable(place: Path, samples: Path) -> None:
    """``UserError`` if ``place`` cannot be written, or is the file of ``samples`` itself."""
    if place.exists() and place.samefile(samples):
        raise UserError(
            f"{place} holds the samples", accepted="another file to write the parameters to"
        )
    reason = "a folder" if place.is_dir() else "its folder is missing or closed"
    if place.is_dir() or not os.access(place.parent, os.W_OK | os.X_OK):
        raise UserError(
            f"cannot write {place}: {reason}",
            accepted="a file in a folder you can write to",
        )


def write_parameters(place: Path, text: str) -> None:
    """Writes ``text`` to ``place``, whole or not at all. ``UserError`` if that cannot be done."""
    partial = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        partial.write_text(text)
        partial.replace(place)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise UserError(
            f"cannot write {place}: {error.strerror}",
            accepted="a file in a folder you can write to",
        ) from None


def calibrated_text(file: ModelFile, calibration: Calibration, origin: str) -> str:
    """The text of ``file`` with the fitted values, and their sources replaced.

    ``origin`` says where the samples come from. Comments, bounds and all other entries stay.
    Raises ``UserError`` if the file does not give a fitted parameter a table of its own.
    """
    text = file.text
    for fitted in calibration.fitted:
        text = _replaced(text, fitted, _source(calibration, fitted, origin), file)
    written = specs_of(ModelFile(file.path, text, tomllib.loads(text)))
    for fitted in calibration.fitted:
        if written[fitted.name].value != fitted.value:
            raise InternalError(
                f"parameter {fitted.name} was written as {written[fitted.name].value}, not "
                f"{fitted.value}"
            )
    return text


def _source(calibration: Calibration, fitted: FittedParameter, origin: str) -> str:
    bound = ", at its bound" if fitted.at_bound else ""
    return (
        f"calibrated: {calibration.samples} samples, {origin}; cross-validated error "
        f"{calibration.after}; +- {fitted.interval:g} at 95 % confidence{bound}; "
        f"was {fitted.before:g}"
    )


def _replaced(text: str, fitted: FittedParameter, source: str, file: ModelFile) -> str:
    table = re.search(
        rf"^\[parameters\.{re.escape(fitted.name)}\][^\n]*\n(?:(?!\[).*\n?)*", text, re.MULTILINE
    )
    if table is None:
        raise UserError(
            f"{file.path} has no table [parameters.{fitted.name}] to write to",
            accepted="a file laid out like the packaged one",
        )
    body = _with_line(table.group(), "value", f"{fitted.value!r}")
    # JSON's strings are TOML's, as long as they hold no escaped pairs of surrogates.
    body = _with_line(body, "source", json.dumps(source, ensure_ascii=False))
    return text[: table.start()] + body + text[table.end() :]


def _with_line(table: str, key: str, value: str) -> str:
    line = rf"^[ \t]*{key}[ \t]*=.*$"
    return re.sub(line, lambda _: f"{key} = {value}", table, count=1, flags=re.MULTILINE)
