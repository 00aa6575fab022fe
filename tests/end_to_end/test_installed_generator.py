"""A code generator that an installed package adds, from the job that names it to the schedule."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import tuner
from db import open_store
from service.app import create_app
from service.settings import Settings
from tests.service.gates import OpenGate
from tuner import codegen
from tuner.codegen import generator_names
from tuner.jobs.one_config import compiled
from tuner.jobs.tuning import find_problem, installed_toolchains
from tuner.keeping.best import lookup_of

NAME, PACKAGE = "halide-plain", "plain-schedules"
KERNEL, PARAMS = "box_blur_u8", {"width": 256, "height": 8}
SOURCE = '''
from dataclasses import replace
from tuner.codegen.halide.generator import HalideGenerator

class Plain(HalideGenerator):
    """The first two choices of every knob, and those of the default and the textbook."""

    name = "halide-plain"

    @classmethod
    def space(cls, kernel, problem):
        space = kernel.space(problem)
        starts = (kernel.default_config(problem), kernel.textbook_config(problem))
        def fewer(knob):
            wanted = {*knob.choices[:2], *(one[knob.name] for one in starts if knob.name in one)}
            return replace(knob, choices=tuple(c for c in knob.choices if c in wanted))
        return replace(space, knobs=tuple(map(fewer, space.knobs)))
'''


def install(folder: Path, source: str = SOURCE, entry: str = "plain_schedules:Plain") -> None:
    """A package as pip leaves it, in ``folder``."""
    (folder / "plain_schedules.py").write_text(source)
    info = folder / "plain_schedules-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[hvxtune.generators]\n{NAME} = {entry}\n")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of site packages, seen by this process and by those it starts."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    forget()
    yield folder
    forget()


def forget() -> None:
    """What is installed is looked up once a process."""
    vars(codegen.REGISTRY).pop("_installed", None)
    sys.modules.pop("plain_schedules", None)
    importlib.invalidate_caches()


@pytest.mark.slow
def test_a_job_is_tuned_with_it_and_its_schedule_says_so(installed: Path, tmp_path: Path) -> None:
    install(installed)
    with closing(open_store(f"sqlite:///{tmp_path / 'jobs.sqlite'}")) as store:
        result = tuner.tune(KERNEL, PARAMS, store=store, trials=4, workers=1, generator=NAME)
        assert result.schedule is not None
        toolchain = result.schedule.provenance["toolchain"]
        best = store.best(lookup_of(find_problem(KERNEL, PARAMS, "hexagon-v66", "static")))
    assert best is not None
    assert (best.generator, toolchain["generator"]) == (NAME, NAME)
    assert toolchain["generator code"]
    assert toolchain in installed_toolchains()
    problem = find_problem(KERNEL, PARAMS, "hexagon-v66", "static")
    again = compiled(problem, best.config, generator=best.generator)
    assert again.digest == best.artifact_digest


def test_a_service_takes_jobs_for_it(installed: Path, tmp_path: Path) -> None:
    body = {"kernel": KERNEL, "params": PARAMS, "generator": NAME, "budget": {"trials": 2}}
    with closing(open_store(f"sqlite:///{tmp_path / 'jobs.sqlite'}")) as store:
        client = TestClient(create_app(store, OpenGate(), Settings()))
        refused = client.post("/v1/jobs", json=body)
        assert refused.status_code == 422
        assert NAME not in refused.json()["accepted"]
        install(installed)
        forget()
        taken = client.post("/v1/jobs", json=body)
        assert taken.status_code == 201, taken.text
        assert [job.spec.generator for job in store.jobs()] == [NAME]


def test_a_broken_package_takes_only_its_own_generator_away(installed: Path) -> None:
    usual = installed_toolchains()
    install(installed, source="import nothing_of_that_name\n")
    forget()
    assert NAME in generator_names()
    assert installed_toolchains() == usual
    assert usual
