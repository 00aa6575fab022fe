"""Code that the pinned clang miscompiles: the compiler is blamed, and searched on without."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.tuner.packages.broken import edit, opened
from tuner.codegen import clang
from tuner.jobs.tuning import tune
from tuner.keeping.memory_store import MemoryStore
from tuner.packages.check import checked
from tuner.packages.files import keep
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.outcome import Outcome
from tuner.search.proposer import Proposer
from tuner.space import Config, Knob, Space

MESSAGE_SCHEDULE = Path(__file__).with_name("message_schedule")
"""Right where the loop is unrolled twice, wrong from four times on (LLVM issue 209946)."""


@pytest.mark.slow
def test_a_loop_that_the_pipeliner_miscompiles_is_tuned_without_it() -> None:
    kernel = opened(MESSAGE_SCHEDULE)
    keep(kernel.package)
    result = tune(kernel.name, store=(store := MemoryStore()), trials=20, workers=1)
    trials = store.trials(result.job.id)
    blamed = [t for t in trials if (t.error or "").startswith(clang.MISCOMPILED)]
    assert len(blamed) == 1
    assert blamed[0].outcome is Outcome.WRONG_OUTPUT
    later = [t for t in trials if t.number > blamed[0].number]
    assert clang.without_pipeliner(blamed[0].config) in [t.config for t in trials]
    assert {t.config[clang.PIPELINER.name] for t in later} == {"off"}
    assert {t.outcome for t in later} == {Outcome.OK}
    assert result.best.config.integer("UNROLL") in (4, 8)


def test_who_does_not_name_the_pipeliner_means_the_default() -> None:
    kernel = opened(MESSAGE_SCHEDULE)
    problem = kernel.problem(None, Contract.STATIC, find_target("hexagon-v66"))
    space = kernel.space(problem)
    assert space.config({"UNROLL": 4}) == Config({"UNROLL": 4, "llvm_pipeliner": "default"})
    assert Space.from_dict(space.as_dict()) == space


@pytest.mark.slow
def test_a_check_blames_the_compiler_too(tmp_path: Path) -> None:
    folder = shutil.copytree(MESSAGE_SCHEDULE, tmp_path / "package")
    edit(folder, "choices = [2, 4, 8]", "choices = [4, 8]")
    kernel = opened(folder)
    keep(kernel.package)
    (found,) = checked(kernel, find_target("hexagon-v66"))
    assert found.error.startswith(clang.MISCOMPILED)


@pytest.mark.parametrize("sampler", ["random", "tpe", "surrogate", "brute"])
def test_what_is_settled_is_proposed_no_other_way_and_all_of_it(sampler: str) -> None:
    knobs = (Knob("size", (1, 2, 3, 4), "of tiles"), clang.PIPELINER)
    proposer = Proposer(Space("any", knobs), sampler, 0)
    for number in range(8):
        if number == 2:
            proposer.settle(clang.PIPELINER.name, "off")
        proposal = proposer.ask()
        if proposal is None:
            break
        if number >= 2:
            assert proposal.config[clang.PIPELINER.name] == "off"
        proposer.tell(proposal, Outcome.OK, 10.0)
    assert all(c["llvm_pipeliner"] != "off" or proposer.has_seen(c) for c in Space("any", knobs))
