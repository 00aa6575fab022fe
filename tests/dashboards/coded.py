"""Jobs with trials whose code is a few packets of assembly, and their real explanations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from db.sql_store import SqlStore
from tests.rig.scale_u8 import KERNELS
from tests.tuner.codegen.test_loop_origins import NEST, SCHEDULE
from tests.tuner.measure.explained import explain_packets
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, failed, ok, pending, spec
from tuner.errors import CandidateError
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.measure.explanation import Explanation
from tuner.records.candidate import Artifact
from tuner.records.outcome import Outcome
from tuner.records.trial import Submission

ASSEMBLY = """
f:
// %bb.0:                               // %entry
	{
		loop1(.LBB0_1,#4)
		r8 = #0
	}
.LBB0_1:                                // Block address taken
                                        // %"2_for_C.s0.y.yo"
                                        // =>This Loop Header: Depth=1
	{
		loop0(.LBB0_2,#10)
		r5 = r10
		r9 = memw(r10+#64)
	}                                       // 4-byte Folded Reload
.LBB0_2:                                // %"3_for_sums.s1.r$x"
                                        //   Parent Loop BB0_1 Depth=1
	{
		v2.uw += vrmpy(v3.ub,v1.ub)
		r6 = memw(r5+#0)
	}
	{
		r7 = mpyi(r6,r1)
	} :endloop0
// %bb.3:                               // %"5_consume_sums"
	{
		r8 = add(r8,#1)
		vmem(r10+#1) = v2
	} :endloop1
// %bb.4:
	{
		jumpr r31
	}
.LBB0_5:                                // %"assert failed"
	{
		call ##halide_error
	}
"""

TIMES = {0: 10, 1: 30}
"""How often the inner loop of a trial runs each time through the outer one."""


def packets(times: int) -> str:
    """The code that :data:`ASSEMBLY` names, with an inner loop of ``times``."""
    return f"""
    {{ loop1(1f,#4) ; r8 = #0 }}
    1: {{ loop0(2f,#{times}) ; r5 = r10 ; r9 = memw(r10+#64) }}
    2: {{ v2.uw += vrmpy(v3.ub,v1.ub) ; r6 = memw(r5+#0) }}
    {{ r7 = mpyi(r6,r1) }}:endloop0
    {{ r8 = add(r8,#1) ; vmem(r10+#1) = v2 }}:endloop1
    """


def explanations(folder: Path) -> dict[int, Explanation]:
    """Of trials 0 and 1."""
    found = {}
    with pytest.MonkeyPatch.context() as patches:
        patches.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
        for number, times in TIMES.items():
            place = folder / str(number)
            place.mkdir()
            found[number] = explain_packets(packets(times), place)
    return found


def halide_files() -> dict[str, bytes]:
    """What Halide tells of that code, beside the object."""
    return {"loopnest": NEST.encode(), "schedule": SCHEDULE.encode(), "assembly": ASSEMBLY.encode()}


def coded_job(store: SqlStore, explained: dict[int, Explanation]) -> str:
    """Trial 0 is the default and 1 the textbook schedule, both Halide's; 2 is C; 3 failed."""
    job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ada"))
    token = store.claim(job.id)
    made = [
        artifact(0, **halide_files()),
        artifact(1, **halide_files()),
        artifact(2, loopnest=b"void f(void) {}\n", assembly=b"for.body:\n"),
    ]
    trials = [
        ok(0, made[0], explained[0].cycles, origin="default"),
        ok(1, made[1], explained[1].cycles, origin="textbook"),
        ok(2, made[2], explained[0].cycles),
        failed(3),
    ]
    store.commit(job.id, token, started=[pending(n) for n in range(4)])
    store.commit(job.id, token, finished=trials, artifacts=made)
    return job.id


def answer_with(
    monkeypatch: pytest.MonkeyPatch, explained: dict[int, Explanation]
) -> Callable[[], None]:
    """The pages' runs give ``explained``; after the call of what is returned, they fail."""
    by_digest = {artifact(n).digest: explained[n % 2] for n in range(3)}
    state = {"fails": False}

    def explain(problem: object, made: Artifact, **_: object) -> Explanation:
        if state["fails"]:
            raise CandidateError(Outcome.TIMEOUT, "it took too long")
        return replace(by_digest[made.digest])

    def compiled(*_: object, **__: object) -> Artifact:
        raise CandidateError(Outcome.TIMEOUT, "not needed: assembly is stored")

    monkeypatch.setattr("dashboards.pages.trial.explain", explain)
    monkeypatch.setattr("dashboards.pages.code.compiled", compiled)
    return lambda: state.update(fails=True)
