"""``hvxtune export-study``."""

from __future__ import annotations

from pathlib import Path

import optuna


def test_a_tuned_job_becomes_a_study(hvxtune, bench, tmp_path: Path) -> None:
    job = hvxtune("tune", "scale_u8", "--trials", "5", "--json").json["job"]
    storage = f"sqlite:///{tmp_path / 'x.db'}"
    answer = hvxtune("export-study", job, "--storage", storage)
    assert answer.status == 0
    assert f"optuna-dashboard {storage}" in answer.out
    assert len(optuna.load_study(study_name=f"hvxtune-{job}", storage=storage).trials) == 5


def test_an_unknown_job_is_told(hvxtune) -> None:
    answer = hvxtune("export-study", "1rtzz", "--storage", "sqlite:///x.db")
    assert "1rtzz" in answer.error_line
