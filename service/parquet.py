"""Rows as a Parquet file, for data frames; needs pyarrow, the extra ``parquet``."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

from service.problem_details import HttpError

MEDIA_TYPE: Final = "application/vnd.apache.parquet"


def parquet_offered() -> bool:
    """Whether this process could write such files."""
    return importlib.util.find_spec("pyarrow") is not None


def parquet_file(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """A file with ``columns`` of equal length. Values of different types in one column become text.

    Raises ``HttpError`` 501 without pyarrow.
    """
    if not parquet_offered():
        raise HttpError(
            501,
            "this service cannot write Parquet files",
            accepted="csv, and json or jsonl",
            next_step="its operator can add them: pip install 'hvxtune[parquet]'",
        )
    import pyarrow
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(
        pyarrow.table({name: _column(values) for name, values in columns.items()}), file
    )
    return file.getvalue()


def _column(values: Sequence[Any]) -> Any:
    import pyarrow

    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
        return pyarrow.array([None if value is None else str(value) for value in values])
