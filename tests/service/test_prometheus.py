"""The example rules, the dashboard's expressions and the documented scrape, in real Prometheus."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from db import open_store
from db.devices.roster import SqlRoster
from tests.databases import put_database
from tests.service.served import Served, served
from tests.service.test_monitoring import FILES, METRIC, expressions, family, rules
from tuner.conformance.patience import PATIENCE_S, until
from tuner.measure.farm.roster import Enrolment
from tuner.paths import STATE_DIR_VARIABLE

PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
RULES = FILES / "prometheus-rules.yml"

pytestmark = pytest.mark.skipif(
    PROMTOOL is None or PROMETHEUS is None,
    reason="promtool and prometheus are not installed here (Debian's package `prometheus`)",
)


def promtool(*arguments: str | Path) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def documented_scrape() -> dict[str, Any]:
    """The configuration that docs/service.md shows."""
    page = (FILES.parents[1] / "docs" / "service.md").read_text()
    block = re.search(r"```yaml\n(scrape_configs:.*?)```", page, re.DOTALL)
    assert block is not None
    found = yaml.safe_load(block[1])
    assert isinstance(found, dict)
    return found


def test_the_rules_and_the_documented_scrape_are_valid(tmp_path: Path) -> None:
    assert f"SUCCESS: {len(rules())} rules found" in promtool("check", "rules", RULES)
    config = tmp_path / "prometheus.yml"
    config.write_text(yaml.safe_dump({**documented_scrape(), "rule_files": [str(RULES)]}))
    assert "is valid" in promtool("check", "config", "--syntax-only", config)


ALERTS: dict[str, dict[str, str]] = {
    "HvxtuneDatabaseDown": {"hvxtune_database_up": "0x60"},
    "HvxtuneNoFitConductor": {'hvxtune_conductors{state="fit"}': "0x60"},
    "HvxtuneNoWorkers": {'hvxtune_executor_workers{executor="dask://lab:8786"}': "0x60"},
    "HvxtuneQueueStuck": {
        'hvxtune_queue_oldest_seconds{instance="lab"}': "601+60x60",
        'hvxtune_candidates_in_flight{instance="lab"}': "0x60",
    },
    "HvxtuneTrialsStopped": {
        "hvxtune_candidates_in_flight": "2x60",
        'hvxtune_trials_total{outcome="ok"}': "7x60",
    },
    "HvxtuneDevicesQuarantined": {
        'hvxtune_devices{kind="phone", state="quarantined"}': "2x60",
        'hvxtune_devices{kind="phone", state="ready"}': "3x60",
    },
    "HvxtuneSlowAnswers": {
        f'hvxtune_request_seconds_bucket{{route="/v1/schedules/best", le="{le}"}}': f"0+{n}x60"
        for le, n in (("0.1", 50), ("0.25", 100), ("+Inf", 100))
    },
}
"""A lab in trouble, for each alert: its series, minute by minute."""


def test_each_alert_fires_in_its_trouble_and_no_other_does(tmp_path: Path) -> None:
    names = {rule["alert"] for rule in rules() if "alert" in rule}
    assert set(ALERTS) == names
    firing = {name: [rule for rule in rules() if rule.get("alert") == name] for name in names}
    tests = []
    for name, series in ALERTS.items():
        [rule] = firing[name]
        labels = {
            "HvxtuneNoFitConductor": {"state": "fit"},
            "HvxtuneNoWorkers": {"executor": "dask://lab:8786"},
            "HvxtuneQueueStuck": {"instance": "lab"},
            "HvxtuneDevicesQuarantined": {"kind": "phone"},
        }.get(name, {})
        summary = rule["annotations"]["summary"]  # type: ignore[index]
        summary = summary.replace("{{ $labels.executor }}", "dask://lab:8786")
        summary = summary.replace("{{ $labels.kind }}", "phone").replace("{{ $value }}", "2")
        fires = {
            "exp_labels": {**rule["labels"], **labels},  # type: ignore[dict-item]
            "exp_annotations": {"summary": summary},
        }
        tests.append(
            {
                "name": name,
                "interval": "1m",
                "input_series": [{"series": k, "values": v} for k, v in series.items()],
                "alert_rule_test": [
                    {
                        "eval_time": "50m",
                        "alertname": one,
                        "exp_alerts": [fires] if one == name else [],
                    }
                    for one in sorted(names)
                ],
            }
        )
    file = tmp_path / "alerts.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    assert "SUCCESS" in promtool("test", "rules", file)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A service that has run a job, with a phone on its list that was never connected."""
    state = tmp_path / "state"
    put_database(state)
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(state))
    with closing(open_store()) as store:
        SqlRoster(store).enrol(Enrolment("pixel", "phone", "hardware", ("v68",)))
    with served(state) as running:
        asked = {"kernel": "scale_u8", "generator": "halide", "budget": {"trials": 2}}
        answer = httpx.post(
            f"{running.url}/v1/jobs",
            json=asked,
            headers={"Authorization": f"Bearer {running.token}"},
            timeout=PATIENCE_S,
        )
        assert answer.status_code == 201, answer.text
        job = answer.json()["jobs"][0]["job"]
        until(lambda: running.get(f"/v1/jobs/{job}").json()["state"] == "done")
        yield running


@contextmanager
def scraping(config: dict[str, Any], folder: Path) -> Iterator[httpx.Client]:
    """Prometheus with this configuration, on loopback alone; the client of its HTTP API."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    file, log = folder / "prometheus.yml", folder / "prometheus.log"
    file.write_text(yaml.safe_dump(config))
    assert PROMETHEUS is not None
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                *(PROMETHEUS, f"--config.file={file}", f"--storage.tsdb.path={folder / 'tsdb'}"),
                f"--web.listen-address={place}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        with httpx.Client(base_url=f"http://{place}", timeout=PATIENCE_S) as client:

            def ready() -> bool:
                assert process.poll() is None, log.read_text()
                try:
                    return client.get("/-/ready").status_code == 200
                except httpx.TransportError:
                    return False

            until(ready)
            yield client
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_prometheus_scrapes_a_service_and_answers_rules_and_dashboard(
    service: Served, tmp_path: Path
) -> None:
    """As the documents configure it, but for address, token file and TLS."""
    config = documented_scrape()
    [job] = config["scrape_configs"]
    token = tmp_path / "hvxtune.token"
    token.write_text(service.token)
    job["authorization"]["credentials_file"] = str(token)
    job["static_configs"] = [{"targets": [service.url.partition("://")[2]]}]
    job["scheme"] = "http"
    often = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
    config |= {"global": often, "rule_files": [str(RULES)]}
    with scraping(config, tmp_path) as prometheus:

        def ask(path: str, **what: str) -> Any:
            answer = prometheus.get(f"/api/v1/{path}", params=what)
            assert answer.status_code == 200, (what, answer.text)
            return answer.json()["data"]

        def series(expression: str) -> list[Any]:
            found: list[Any] = ask("query", query=expression)["result"]
            return found

        until(lambda: any(one["health"] == "up" for one in ask("targets")["activeTargets"]))
        # What rates are taken of has been seen twice, and what is recorded once.
        until(lambda: series("count_over_time(hvxtune_database_up[5m]) > 3") != [])
        until(lambda: series("hvxtune:measure_seconds:p95") != [])
        there = set(ask("label/__name__/values"))
        for expression in expressions():
            assert set(METRIC.findall(expression)) <= there, expression
            series(expression)  # Prometheus answers no 200 for one that it cannot parse
        dashboard = json.loads((FILES / "grafana-dashboard.json").read_text())
        shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        assert [expression for expression in shown if not series(expression)] == []
        [group] = ask("rules")["groups"]
        until(lambda: {r["health"] for g in ask("rules")["groups"] for r in g["rules"]} == {"ok"})
        assert len(group["rules"]) == len(rules())
        ours = {family(name) for name in there if name.startswith("hvxtune_")}
        used = {family(name) for one in expressions() for name in METRIC.findall(one)}
        assert ours == used
