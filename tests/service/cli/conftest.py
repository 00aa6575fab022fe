"""The command run in this process, in a new state directory, on stand-ins for the slow parts."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from service.cli import main
from tests.databases import put_database
from tests.rig.scale_u8 import KERNELS
from tests.rig.stand_ins import StandInGenerator, StandInMeasurer, standing_in_for
from tuner.errors import CandidateError
from tuner.executor import executor
from tuner.jobs import one_config, tuning
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.records.candidate import CacheState, Fidelity
from tuner.records.outcome import Outcome

STAND_IN_PHONE = "stand-in-phone"
"""A measurer that the command knows beside the usual ones, of fidelity ``hardware``."""


@dataclass(frozen=True)
class Answer:
    """What one run of the command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def error_line(self) -> str:
        """The only line on standard error, in the form every error has."""
        assert self.status != 0
        assert self.out == ""
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err.removesuffix("\n")


@pytest.fixture
def bare_state(tmp_path):
    """The state directory of a command that was never run here: it is not there."""
    return tmp_path / "state"


@pytest.fixture
def hvxtune(request, tmp_path, monkeypatch, capsys):
    """``hvxtune("jobs", "--json")`` gives an :class:`Answer`.

    There is an empty database, unless the test asks for a ``bare_state``.
    """
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("HVXTUNE_DATABASE_URL", raising=False)
    if "bare_state" not in request.fixturenames:
        put_database(tmp_path / "state")
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["hvxtune"])
    monkeypatch.setenv("COLUMNS", "160")  # what tests look for stands on one line

    def run(*arguments: str) -> Answer:
        capsys.readouterr()
        status = main(arguments)
        return Answer(status, *capsys.readouterr())

    return run


class Bench:
    """Stand-ins whose misbehaviour a test can set."""

    def __init__(self) -> None:
        self.broken_everywhere = False
        self.on_measure = lambda: None

    def fault(self, config):
        if self.broken_everywhere:
            return CandidateError(Outcome.COMPILER_CRASH, "the compiler aborted\nwith a message")
        return None

    def cycles(self, text: str) -> int:
        self.on_measure()
        return 100_000 + sum(text.encode())


class Generator(StandInGenerator):
    """Writes every kind of file an artifact has."""

    def compile(self, candidate, *, with_assembly=False):
        from dataclasses import replace

        artifact = super().compile(candidate)
        data = artifact.object_bytes
        files = {kind: kind.encode() + data for kind in ("header", "schedule", "loopnest")}
        return replace(artifact, files={"object": data, **files})


@pytest.fixture
def bench(monkeypatch):
    """Puts the stand-ins where the command looks for compilers and simulators."""
    made = Bench()

    def find_stand_in(name: str):
        stand_in = standing_in_for(name, Generator)
        return lambda workers=1: stand_in(workers, fault=made.fault)

    for module in (executor, one_config):
        monkeypatch.setattr(module, "find_generator", find_stand_in)

    def find(name: str) -> type[StandInMeasurer]:
        class Found(StandInMeasurer):
            def __init__(self, cache: CacheState = "warm") -> None:
                fidelity: Fidelity = "hardware" if name == STAND_IN_PHONE else "model"
                super().__init__(made.cycles, cache=cache, fidelity=fidelity)

        return Found

    monkeypatch.setattr("tuner.measure.find_measurer", find)
    monkeypatch.setattr(tuning, "measurer_names", lambda: ["qemu", STAND_IN_PHONE])
    return made
