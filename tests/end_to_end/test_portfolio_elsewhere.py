"""A schedule of a portfolio goes to another service as a file: there it is the same object."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import tuner
from db import open_store
from db.exchange import export_schedules, import_schedules
from tuner.codegen.portfolio import GENERATOR, spaces
from tuner.jobs.one_config import compiled
from tuner.jobs.tuning import find_problem, installed_toolchains
from tuner.keeping.best import lookup_of
from tuner.kernels import find_kernel

KERNEL, PARAMS = "box_blur_u8", {"width": 256, "height": 8}


@pytest.mark.slow
def test_what_a_portfolio_found_is_made_again_elsewhere_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "schedules.zip"
    with closing(open_store(f"sqlite:///{tmp_path / 'here.sqlite'}")) as here:
        result = tuner.tune(
            KERNEL, PARAMS, store=here, trials=5, workers=1, generator="portfolio", seed=0
        )
        assert result.schedule is not None
        found = here.artifact(result.schedule.artifact_digest).files
        tried = here.trials(result.job.id)
        assert export_schedules(here, file) == 1

    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "elsewhere"))
    problem = find_problem(KERNEL, PARAMS, "hexagon-v66", "static")
    with closing(open_store(f"sqlite:///{tmp_path / 'there.sqlite'}")) as there:
        taken = import_schedules(there, file, installed=installed_toolchains())
        assert (taken.stored, taken.kept) == (1, 0)
        best = there.best(lookup_of(problem))
        assert best is not None
        assert (best.generator, best.config) == ("portfolio", result.schedule.config)
        assert there.artifact(best.artifact_digest).files == found

    # Not the best alone: each generator's code is the same again.
    assert {trial.config[GENERATOR] for trial in tried} == set(spaces(find_kernel(KERNEL), problem))
    for trial in tried:
        again = compiled(problem, trial.config, generator="portfolio")
        assert again.digest == trial.artifact_digest
        if again.digest == best.artifact_digest:
            assert again.files["object"] == found["object"]
