"""Parameters of kernels in query strings."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.errors import UserError

ACCEPTED = "params=NAME=INTEGER,NAME=INTEGER, such as params=m=256,n=256,k=256"


def read_params(texts: Iterable[str]) -> dict[str, int]:
    """The parameters in ``texts``, each ``NAME=VALUE`` or several with commas between them.

    ``UserError`` for another form, a value that is no integer, a parameter given twice. Names
    and ranges are the kernel's to check.
    """
    params: dict[str, int] = {}
    for text in texts:
        for pair in text.split(","):
            if not pair or pair.isspace():
                continue
            name, equals, value = pair.partition("=")
            name = name.strip()
            if not (name and equals):
                raise UserError(f"params: '{pair[:40]}'", accepted=ACCEPTED)
            if name in params:
                raise UserError(f"params: {name} is given twice", next_step="leave one out")
            try:
                params[name] = int(value)
            except ValueError:
                value = value.strip()[:40]
                raise UserError(f"params: {name}='{value}'", accepted=ACCEPTED) from None
    return params
