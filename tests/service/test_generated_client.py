"""A client that somebody generates from ``/openapi.json`` is enough to use a service."""

from __future__ import annotations

import io
import subprocess
import sys
import venv
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.service.served import served
from tuner.conformance.patience import PATIENCE_S, until

pytestmark = pytest.mark.slow

PACKAGE = "generated_client"
LOCK = Path(__file__).parents[2] / ".ci" / "lock" / "client-generator.txt"


def generator_in(folder: Path) -> Path:
    """The Python of a new environment in ``folder`` with the pinned generator, whose typer is older
    than ours."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pinned = ["--require-hashes", "--only-binary", ":all:", "--no-deps", "-r", str(LOCK)]
    subprocess.run([*pip, *pinned], check=True, capture_output=True, timeout=PATIENCE_S)
    return python


def test_it_takes_a_job_from_submission_to_the_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path / "state") as service:
        (tmp_path / "openapi.json").write_bytes(service.get("/openapi.json").content)
        (tmp_path / "config.yml").write_text("post_hooks: []\n")
        python = generator_in(tmp_path / "venv")
        subprocess.run(
            [python, "-m", "openapi_python_client", "generate", "--meta", "none",
             "--fail-on-warning", "--path", "openapi.json", "--config", "config.yml",
             "--output-path", PACKAGE],
            cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE_S,
        )  # fmt: skip
        (beside,) = (tmp_path / "venv").glob("lib/*/site-packages")  # what it needs: attrs
        monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path, str(beside)])
        client = import_module(PACKAGE).AuthenticatedClient(service.url, service.token)

        def call(place: str, *path: str, **asked: Any) -> Any:
            return import_module(f"{PACKAGE}.api.{place}").sync(*path, client=client, **asked)

        params = {"h": 4, "n": 256}
        models = import_module(f"{PACKAGE}.models")
        body = {"kernel": "scale_u8", "params": params, "budget": {"trials": 2}}
        (job,) = call("jobs.submit_job", body=models.SubmitBody.from_dict(body)).jobs
        until(lambda: call("jobs.get_job", job.job).state == "done")
        assert {one.outcome for one in call("jobs.list_trials", job.job).items} >= {"ok"}

        best = call("schedules.best_schedule", kernel="scale_u8", param=["h=4", "n=256"])
        assert best.params.to_dict() == params
        code = call("schedules.schedule_object", best.id).payload.read()
        assert code.startswith(b"\x7fELF")
        assert best.symbol in call("schedules.schedule_header", best.id)
        with zipfile.ZipFile(io.BytesIO(call("schedules.export_schedules").payload.read())) as kept:
            assert code in [kept.read(name) for name in kept.namelist()]
