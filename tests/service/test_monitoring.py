"""The example rules and the example dashboard ask for metrics, and labels, that a service has."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from db.devices.roster import SqlRoster
from db.jobs.claims import Owner
from db.jobs.conductors import Conductor, renew
from db.sql_store import SqlStore
from tests.service.job_routes import with_trials
from tuner.machine.fitness import Abilities, Capacity
from tuner.measure.farm.roster import Enrolment
from tuner.records.outcome import Outcome

pytestmark = pytest.mark.sqlite

FILES = Path(__file__).parents[2] / "examples" / "operating"
METRIC = re.compile(r"\bhvxtune_\w+")
RECORDED = re.compile(r"\bhvxtune:[\w:]+")
SELECTED = re.compile(r"(\w+)=~?\"")
GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")


def rules() -> list[dict[str, str]]:
    found = yaml.safe_load((FILES / "prometheus-rules.yml").read_text())
    return [rule for group in found["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    dashboard = json.loads((FILES / "grafana-dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [rule["expr"] for rule in rules()] + asked


@pytest.fixture
def exported(client: TestClient, store: SqlStore) -> dict[str, set[str]]:
    """The labels of each sample of a service that has some of everything."""
    with_trials(store, Outcome.OK)
    SqlRoster(store).enrol(Enrolment("pixel", "phone", "hardware", ("v68",)))
    owner, able = Owner("elsewhere", 1, 1.0), Abilities(("qemu",))
    one = Conductor("c", owner, 2, "1", "x", able, executor="threads", capacity=Capacity(1, 4))
    renew(store, one)
    client.get("/healthz")
    found: dict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            found[sample.name] |= set(sample.labels) | {"instance"}  # which Prometheus adds
    return found


def test_they_name_metrics_and_labels_that_exist(exported: dict[str, set[str]]) -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    assert len(expressions()) > 20
    for expression in expressions():
        metrics = METRIC.findall(expression)
        assert set(metrics) <= set(exported), expression
        assert set(RECORDED.findall(expression)) <= recorded, expression
        groups = [name.strip() for part in GROUPED.findall(expression) for name in part.split(",")]
        labels = {*SELECTED.findall(expression), *groups}
        assert labels <= set().union(*(exported[name] for name in metrics)), expression


def test_every_metric_is_on_the_dashboard_or_in_a_rule(exported: dict[str, set[str]]) -> None:
    named = {
        re.sub(r"_(bucket|count|sum)$", "", m) for e in expressions() for m in METRIC.findall(e)
    }
    ours = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exported}
    assert {name for name in ours if not name.endswith("_created")} <= named


def test_every_metric_says_what_it_counts(client: TestClient) -> None:
    families = list(text_string_to_metric_families(client.get("/metrics").text))
    assert families
    assert [family.name for family in families if not family.documentation.strip()] == []
