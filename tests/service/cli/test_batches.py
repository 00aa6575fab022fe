"""Networks and sets as one job, on stand-ins for compiler and simulator."""

from __future__ import annotations

import os
import signal
from itertools import count

import pytest

from db import open_store
from service.cli.statuses import Exit
from tests.service.cli.test_sets import LAYERS
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, ok, pending, spec
from tuner.conformance.stores import NETWORK, new_job
from tuner.jobs import set_tuning
from tuner.records.batch import BatchPlan, NetworkLayer, NewJob
from tuner.records.trial import JobState, Submission


@pytest.fixture
def tune(hvxtune, bench, tmp_path, monkeypatch):
    (tmp_path / "net.toml").write_text(LAYERS)

    def run(*arguments: str):
        return hvxtune("tune", "--set", "net.toml", "--workers", "1", *arguments)

    return run


def stored(store, kind="set", user="ann", tuned=((2000, 800), (300, 300))):
    """A batch of two jobs, three layers, with these textbook and best cycles. A network has one
    more, on the host."""
    digest = spec().problem.workload.digest
    layers = (
        NetworkLayer("a", "conv", digest, "gemm_u8", macs=64, share_of_macs=1.0, steps=1),
        NetworkLayer("d", "LayerNorm", on_host=True, note="no integer form"),
    )
    plan = BatchPlan(name="net", kind=kind, layers=layers if kind == "network" else ())
    jobs = [
        NewJob(spec(), SPACE, TOOLCHAIN, names, Submission(user))
        for names in ((("a", "c"), ("b",)) if kind == "set" else (("a",),))
    ]
    batch = store.create_batch(plan, jobs)
    for member, cycles in zip(batch.members, tuned, strict=False):
        token = store.claim(member.job)
        made = [artifact(1), artifact(2)]
        trials = [ok(0, made[0], cycles[0], origin="textbook"), ok(1, made[1], cycles[1])]
        store.commit(member.job, token, started=[pending(0), pending(1)])
        store.commit(member.job, token, finished=trials, artifacts=made)
        store.release(member.job, token, JobState.DONE)
    return batch


def test_a_set_is_one_row_of_the_list_and_its_jobs_on_request(tune, hvxtune):
    form = tune("--trials", "20", "--json").json
    alone = hvxtune("tune", "scale_u8", "--trials", "2", "--workers", "1", "--json").json["job"]
    listed = hvxtune("jobs", "--json").json
    assert [job["job"] for job in listed["jobs"]] == [alone]
    (row,) = listed["batches"]
    assert (row["batch"], row["kind"], row["name"]) == (form["batch"], "set", "net")
    assert (row["state"], row["job_count"], row["finished"]) == ("done", 2, 20)
    assert row["total"] == form["total"]
    assert row["budget"] == {"trials": 20, "seconds": None}
    heads, _, first, second = hvxtune("jobs").out.splitlines()
    assert heads.split()[0] == "job"
    assert first.split()[0] == alone
    assert second.split()[0] == form["batch"]
    assert f"{form['total']['best_cycles']:,}" in second
    assert f"set net, 2 jobs, {form['total']['speedup']:.2f}x against textbook" in second
    members = hvxtune("jobs", "--members", "--json").json["jobs"]
    assert {job["batch"] for job in members} == {None, form["batch"]}
    assert hvxtune("jobs", "--limit", "1", "--json").json["batches"] == []


def test_show_has_the_layers_their_shares_and_gains(hvxtune):
    with open_store() as store:
        batch = stored(store)
    form = hvxtune("show", batch.id, "--json").json
    first, second = form["layers"]
    assert (first["name"], first["calls"], first["job"]) == ("a", 2, batch.members[0].job)
    assert (first["textbook_cycles"], first["best_cycles"]) == (4000, 1600)
    assert (first["speedup"], second["speedup"]) == (2.5, 1.0)
    assert first["share"] == pytest.approx(1600 / 1900, abs=1e-4)
    assert form["total"] == {
        "textbook_cycles": 4300,
        "best_cycles": 1900,
        "speedup": round(4300 / 1900, 4),
        "layers": 3,
        "best_lowest_cycles": None,
        "best_highest_cycles": None,
        "layers_of_set": 3,
    }
    text = hvxtune("show", batch.id[:9]).out
    assert "set net, 2 jobs" in text
    assert "3 of 3 calls of kernels: 1,900 cycles, textbook 4,300: 2.26x" in text
    assert hvxtune("show", "net").out == text


def test_cancel_ends_all_jobs_that_have_not_ended(hvxtune):
    with open_store() as store:
        batch = stored(store, tuned=((2000, 800),))
    assert hvxtune("job", "cancel", batch.id[:9]).out == (
        f"batch {batch.id} done; jobs: 1 done, 1 cancelled\n"
    )
    with open_store() as store:
        states = [store.job(member.job).state for member in batch.members]
        assert states == [JobState.DONE, JobState.CANCELLED]
        other = stored(store, tuned=())
    answer = hvxtune("job", "cancel", other.id, "--json")
    assert (answer.status, answer.json["state"]) == (0, "cancelled")
    assert answer.json["jobs_by_state"] == {"cancelled": 2}
    assert hvxtune("job", "cancel", other.id).status == 0


def test_the_command_that_runs_a_batch_ends_when_it_is_cancelled(tune, hvxtune, bench):
    calls = count()

    def cancel():
        if next(calls) == 3:
            with open_store() as store:
                (batch,) = {job.submission.batch for job in store.jobs()}
                store.request_of_all(batch, set_tuning.JobRequest.CANCEL)

    bench.on_measure = cancel
    answer = tune("--trials", "200", "--json")
    assert answer.status == 1
    assert f"error: batch {answer.json['batch']} cancelled" in answer.err
    assert answer.json["jobs_by_state"] == {"cancelled": 2}
    assert answer.json["finished"] < 20
    assert hvxtune("jobs", "--json").json["batches"][0]["state"] == "cancelled"


def test_resume_goes_on_with_the_budget_of_the_whole(tune, hvxtune, bench):
    calls = count()
    bench.on_measure = lambda: os.kill(os.getpid(), signal.SIGINT) if next(calls) == 5 else None
    stopped = tune("--trials", "12", "--json")
    assert stopped.status == 130
    batch = stopped.json["batch"]
    assert hvxtune("jobs", "--json").json["batches"][0]["state"] == "paused"
    assert f"hvxtune job resume {batch}" in hvxtune("show", batch).out
    answer = hvxtune("job", "resume", batch[:9], "--json")
    assert answer.status == 0
    assert (answer.json["name"], answer.json["batch"]) == ("net", batch)
    assert answer.json["finished"] == 12
    assert [row["occurrences"] for row in answer.json["jobs"]] == [2, 1]
    assert "can no longer resume" in hvxtune("job", "resume", batch).error_line


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["show", "zzz"], "no job 'zzz'"),
        (
            ["job", "cancel", "ENDED"],
            "all 2 jobs of batch ENDED have ended: it can no longer cancel",
        ),
        (["job", "resume", "RUNNING"], "is running: nothing of it waits to be resumed"),
        (["job", "pause", "PACED"], "runs in the command that began it"),
        (["show", "1"], "several jobs"),
    ],
)
def test_what_cannot_be_is_one_line_with_the_next_step(hvxtune, command, message):
    with open_store() as store:
        running = stored(store, tuned=())
        store.claim(running.members[0].job)
        ids = {
            "BATCH": stored(store).id,
            "ENDED": stored(store).id,
            "JOB": running.members[1].job,
            "RUNNING": running.id,
            "PACED": store.create_batch(NETWORK, [new_job("a")]).id,
        }
        for name, value in ids.items():
            command = [word.replace(name, value) for word in command]
            message = message.replace(name, value)
        answer = hvxtune(*command)
        unknown = command[-1] in ("zzz", "1", ids["JOB"])
        assert answer.status == (Exit.NOT_STORED if unknown else Exit.USAGE)
        assert message in answer.error_line
        assert ". " in answer.error_line.partition(message)[2]
