"""The trials of a job, page by page and exported."""

from __future__ import annotations

import csv
import io

import pytest
from starlette.testclient import TestClient

from db.jobs import trials as trial_queries
from db.sql_store import SqlStore
from tests.service.job_routes import items, with_trials
from tuner.conformance.records import config
from tuner.records.outcome import Outcome

OK, BAD = Outcome.OK, Outcome.COMPILE_ERROR


@pytest.fixture
def job(store: SqlStore) -> str:
    return with_trials(store, OK, BAD, OK, BAD, OK)


def test_pages_hold_every_trial_once_by_number(client: TestClient, job: str) -> None:
    path = f"/v1/jobs/{job}/trials"
    assert [t["trial"] for t in items(client, path, limit=2)] == [0, 1, 2, 3, 4]
    assert [t["trial"] for t in items(client, path, limit=1, outcome="ok")] == [0, 2, 4]
    assert [t["cycles"] for t in items(client, path)] == [1000, None, 998, None, 996]


def test_a_trial_tells_when_it_ran_and_where_its_time_went(client: TestClient, job: str) -> None:
    trial = client.get(f"/v1/jobs/{job}/trials").json()["items"][0]
    assert trial["finished_at"] - trial["started_at"] == 1.25
    assert trial["timings"] == {"compile_s": 0.2, "link_s": 0.1, "run_s": 0.05, "overhead_s": 0.01}
    assert trial["config"] == config(0).as_dict()
    assert trial["origin"] == "default"


@pytest.mark.parametrize(
    "how", [{"params": {"format": "csv"}}, {"headers": {"Accept": "text/csv"}}]
)
def test_all_of_them_as_csv(client: TestClient, job: str, how: dict[str, dict[str, str]]) -> None:
    answer = client.get(f"/v1/jobs/{job}/trials", **how)
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert f"{job}-trials.csv" in answer.headers["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["trial"] for row in rows] == list("01234")
    assert [row["cycles"] for row in rows] == ["1000", "", "998", "", "996"]
    assert rows[2]["config.tile_m"] == str(config(2)["tile_m"])
    assert rows[1]["outcome"] == "compile_error"
    assert rows[1]["error"]


def test_an_export_is_read_a_few_trials_at_a_time(
    client: TestClient, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    page = trial_queries.trials_page

    def counting(*arguments):
        found = page(*arguments)
        read.append(len(found))
        return found

    monkeypatch.setattr(trial_queries, "trials_page", counting)
    monkeypatch.setattr(trial_queries, "_BATCH", 2)
    answer = client.get(f"/v1/jobs/{job}/trials", params={"format": "csv"})
    assert len(answer.text.splitlines()) == 1 + 5
    assert read == [2, 2, 1, 0]
