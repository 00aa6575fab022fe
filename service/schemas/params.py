"""Parameters of kernels in query strings and on the command line."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.errors import UserError


def read_params(texts: Iterable[str], option: str = "") -> dict[str, int]:
    """The parameters in ``texts``, each ``NAME=VALUE`` or several with commas between them, of the
    query ``param`` or of the command line's ``option``.

    ``UserError`` for another form, a value that is not an integer, a parameter given twice. Names
    and ranges are the kernel's to check.
    """
    where = f"{option} " if option else "param: "
    example = f"{option} m=256" if option else "param=m=256,n=256,k=256"
    accepted = f"NAME=INTEGER, with commas between several, such as {example}"
    params: dict[str, int] = {}
    for pair in (pair for text in texts for pair in text.split(",") if pair.strip() or option):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals):
            raise UserError(f"{where}'{pair[:40]}'", accepted=accepted)
        if name in params:
            raise UserError(f"{where}{name} is given twice", next_step="leave one out")
        try:
            params[name] = int(value)
        except ValueError:
            raise UserError(
                f"{where}{name}='{value[:40]}'", accepted=f"an integer, such as {example}"
            ) from None
    return params
