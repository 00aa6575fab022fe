"""Files of columns for data frames."""

from __future__ import annotations

import io

import pytest
from pyarrow.parquet import read_table
from starlette.testclient import TestClient

from db.sql_store import SqlStore
from service import parquet
from service.parquet import parquet_file
from service.problem_details import HttpError
from tests.service.job_routes import with_trials
from tuner.records.outcome import Outcome


def test_types_and_gaps_are_kept() -> None:
    columns = {"cycles": [1000, None], "share": [0.5, 0.25], "outcome": ["ok", "wrong"]}
    read = read_table(io.BytesIO(parquet_file(columns)))
    assert {name: read[name].to_pylist() for name in read.column_names} == columns


def test_a_column_of_several_types_becomes_text() -> None:
    read = read_table(io.BytesIO(parquet_file({"knob": [4, "off", None], "large": [1, 2**70, 3]})))
    assert read["knob"].to_pylist() == ["4", "off", None]
    assert read["large"].to_pylist() == ["1", str(2**70), "3"]


def test_no_rows_are_a_file_with_columns() -> None:
    read = read_table(io.BytesIO(parquet_file({"cycles": [], "outcome": []})))
    assert (read.column_names, read.num_rows) == (["cycles", "outcome"], 0)


def test_without_pyarrow_the_operator_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "parquet_offered", lambda: False)
    with pytest.raises(HttpError, match="cannot write Parquet") as refused:
        parquet_file({"cycles": [1]})
    assert (refused.value.status, "hvxtune[parquet]" in refused.value.next_step) == (501, True)


def test_trials_come_with_the_columns_of_the_csv(client: TestClient, store: SqlStore) -> None:
    job = with_trials(store, Outcome.OK, Outcome.COMPILE_ERROR, Outcome.OK)
    place = f"/v1/jobs/{job}/trials"
    answer = client.get(place, params={"format": "parquet"})
    assert answer.headers["content-type"] == parquet.MEDIA_TYPE
    read = read_table(io.BytesIO(answer.content))
    header = client.get(place, params={"format": "csv"}).text.splitlines()[0]
    assert read.column_names == header.split(",")
    assert read["trial"].to_pylist() == list(range(read.num_rows))
