"""The ``hvxtune`` command: joins tuner and db in this process.

:func:`main` is the entry point. Whatever goes wrong below it ends here as one line on standard
error (one JSON object with ``--json``) and an exit status of :mod:`service.cli.statuses`. Standard
output then stays empty.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from service.cli.statuses import Exit, status_of
from tuner.errors import HvxtuneError, InternalError, StoreError
from tuner.plain_text import plain

_STANDARD_ERROR = 2
DEBUG_VARIABLE = "HVXTUNE_DEBUG"
"""Set to anything, an unexpected error shows its traceback."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line ``arguments`` (by default the process's) and gives its exit status."""
    _open_closed_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(given or ["--help"])
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except HvxtuneError as error:
        return _report(error, as_json="--json" in given)


def _open_closed_streams() -> None:
    """Standard streams that the process was started without (``>&-``) lead nowhere: Python has
    ``None`` for them, and the next file that is opened would take their descriptor."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def _run(given: list[str]) -> int:
    import typer

    from service.cli.app import app, usage_error

    try:
        status = app(args=given, prog_name="hvxtune", standalone_mode=False)
    except HvxtuneError:
        raise
    except typer.Abort:
        return Exit.INTERRUPTED
    except typer.TyperException as error:
        raise usage_error(error) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise StoreError(f"{where}{error.strerror or error}") from None
    except Exception as error:
        if DEBUG_VARIABLE in os.environ:
            raise
        raise InternalError(
            f"{type(error).__name__}: {error}",
            next_step=f"run it again with {DEBUG_VARIABLE}=1 and report what that prints",
        ) from error
    return status if isinstance(status, int) else Exit.DONE


def _report(error: HvxtuneError, *, as_json: bool) -> int:
    from service.cli.typed import as_typed
    from tuner.shipped import with_places

    as_typed(error)
    error.accepted, error.next_step = with_places(error.accepted), with_places(error.next_step)
    if as_json:
        import json

        line = json.dumps({"error": error.as_dict()})
    else:
        line = "error: " + plain(" ".join(str(error).split()))
    sys.stderr.write(line + "\n")
    return status_of(error)


__all__ = ["DEBUG_VARIABLE", "main"]
