"""Other releases of hvxtune as their users have them: the previous one from the history of this
repository, and one to come, made of today's files. Each is built as a wheel and unpacked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.rig.wheels import built_wheel, tracked_copy
from tuner.conformance.patience import PATIENCE_S
from tuner.paths import CACHE_DIR_VARIABLE, STATE_DIR_VARIABLE, cache_dir

ROOT = Path(__file__).parents[2]
_VERSION = re.compile(r'^version = "([\d.]+)"', re.MULTILINE)
_SCHEMA = re.compile(r'^SCHEMA_VERSION = "(\d+)"', re.MULTILINE)


@dataclass(frozen=True)
class Release:
    """An hvxtune that runs from the folder ``site``, with the packages that are installed here."""

    version: str
    schema: str
    site: Path

    def environment(self, state: Path, more: Mapping[str, str]) -> dict[str, str]:
        """For its processes, which work in the state directory ``state``."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HVXTUNE_", "PYTHON"))}
        return {
            **kept,
            "PYTHONPATH": str(self.site),
            STATE_DIR_VARIABLE: str(state),
            CACHE_DIR_VARIABLE: str(cache_dir()),  # the machine's, whatever runs on it
            **more,
        }

    @contextmanager
    def started(
        self, arguments: list[str], state: Path, log: Path, more: Mapping[str, str]
    ) -> Iterator[subprocess.Popen[str]]:
        """``hvxtune`` with ``arguments``, which logs to ``log``; killed if it still runs."""
        with log.open("a") as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "service.cli", *arguments],
                env=self.environment(state, more),
                cwd=state,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def run(self, arguments: list[str], state: Path, more: Mapping[str, str]) -> str:
        """What the command ``hvxtune`` prints with ``arguments``."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "service.cli", *arguments],
            env=self.environment(state, more),
            cwd=state,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def this_release() -> Release:
    """The files of this tree."""
    return _release_at(ROOT, ROOT)


def previous_commit() -> str | None:
    """The last commit that had an earlier version than today's: what was released before it. No
    tag says so, and none is needed. ``None`` where the history does not reach so far back, as in a
    shallow clone or outside of a repository."""
    changed = _git("log", "-1", "--format=%H", "-G", r'^version = "', "--", "pyproject.toml")
    if not changed:
        return None
    before = _git("rev-parse", "--verify", "--quiet", f"{changed}^")
    return before or None


def previous_release(folder: Path, commit: str) -> Release:
    """The release at ``commit``, built in ``folder``."""
    archive, source = folder / "previous.tar", folder / "previous"
    source.mkdir()
    subprocess.run(["git", "archive", "-o", archive, commit], cwd=ROOT, check=True)
    subprocess.run(["tar", "-xf", archive, "-C", source], check=True)
    return _release_at(source, _unpacked(source, folder / "previous-site"))


def next_release(folder: Path) -> Release:
    """Today's files as a release with another version and the same schema."""
    source = tracked_copy(ROOT, folder / "next")
    now = this_release()
    major, minor, *_ = now.version.split(".")
    _replace(source / "pyproject.toml", f'version = "{now.version}"', f"{major}.{int(minor) + 1}.0")
    return _release_at(source, _unpacked(source, folder / "next-site"))


def migrating(release: Release, folder: Path) -> Release:
    """The same release with one migration more, which adds a column to the jobs, and a table."""
    site = shutil.copytree(release.site, folder / "migrating-site")
    number = f"{int(release.schema) + 1:04}"
    _replace(site / "db/schema.py", f'SCHEMA_VERSION = "{release.schema}"', number)
    migration = _MIGRATION.format(number=number, before=release.schema)
    (site / f"db/migrations/versions/v{number}_to_come.py").write_text(migration)
    return Release(release.version, number, site)


_MIGRATION = '''"""One more."""

import sqlalchemy as sa
from alembic import op

revision = "{number}"
down_revision = "{before}"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("to_come", sa.Text(), nullable=True))
    op.create_table("to_come", sa.Column("id", sa.BigInteger(), primary_key=True))
'''


def _release_at(source: Path, site: Path) -> Release:
    version = _VERSION.search((source / "pyproject.toml").read_text())
    schema = _SCHEMA.search((source / "db/schema.py").read_text())
    assert version is not None
    assert schema is not None
    return Release(version[1], schema[1], site)


def _unpacked(source: Path, site: Path) -> Path:
    wheel = built_wheel(source, site.with_suffix(".wheels"))
    with zipfile.ZipFile(wheel) as files:
        files.extractall(site)
    shutil.rmtree(source / "build", ignore_errors=True)
    return site


def _replace(file: Path, line: str, value: str) -> None:
    """Gives the setting on ``line`` another value."""
    text = file.read_text()
    assert text.count(line) == 1, f"{file} has {line} {text.count(line)} times"
    file.write_text(text.replace(line, f'{line.partition(" = ")[0]} = "{value}"'))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""
