"""Commands against the real web application; jobs run in a thread, on stand-ins."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager

import onnx
import pytest

from db import open_store
from db.jobs.batches import plan_of
from service.app import create_app
from service.cli import following, schedules
from service.cli.statuses import Exit
from service.client import Client
from service.schemas.new_network import NewLayerBody
from service.settings import Settings
from tests.rig.models import published
from tests.rig.models.quantized import Quantizing, quantized
from tests.rig.planned_networks import PHONE
from tests.service.cli.test_batches import stored
from tests.service.gates import OpenGate
from tests.service.live import live
from tuner.conformance.patience import PATIENCE_S, until
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.jobs.tuning import run
from tuner.kernels import find_kernel
from tuner.problem.default_target import DEFAULT_TARGET, TARGET_VARIABLE
from tuner.records.trial import JobRequest, JobState, Submission

pytestmark = pytest.mark.slow

TUNE = ["tune", "scale_u8", "--trials", "8", "--workers", "1"]


@pytest.fixture
def store(hvxtune):
    with open_store() as opened:
        yield opened


@pytest.fixture
def there(hvxtune, store, bench, monkeypatch):
    """The address of a service whose jobs are run as they come; ``HVXTUNE_SERVER`` names it."""
    ended = threading.Event()

    def conduct():
        while not ended.wait(0.02):
            for job in store.jobs():
                # Records made by hand, to be looked at, are not of the code that is here.
                workload = job.spec.problem.workload
                is_here = workload.source == find_kernel(workload.kernel).source
                submitted = job.submission.user != "" and is_here
                if submitted and job.state is JobState.QUEUED and not job.paused:
                    run(job.id, store)

    conductor = threading.Thread(target=conduct)
    conductor.start()
    with live(create_app(store, OpenGate(), Settings())) as url:
        monkeypatch.setenv("HVXTUNE_SERVER", url)
        yield url
        ended.set()
        conductor.join()


def test_tune_there_is_like_tune_here(hvxtune, there):
    away = hvxtune(*TUNE, "--json")
    here = hvxtune(*TUNE, "--json", "--server", "")
    assert away.status == here.status == 0
    assert away.json["stored_in"] == there
    assert "submitted to" in away.err
    missing = here.json.keys() - away.json.keys()
    assert missing == set()
    for name in ("best", "default", "textbook"):
        for field in ("config", "cycles", "packets", "outcome", "object_digest"):
            assert away.json[name][field] == here.json[name][field]
    assert away.json["outcomes"] == here.json["outcomes"]


def test_a_batch_there_is_shown_and_steered_like_one_here(hvxtune, there, store):
    batch = stored(store, kind="network", tuned=((20_000, 8000),))
    waiting = stored(store, user="", tuned=())
    for given in (batch.id, batch.id[:9]):
        away, here = hvxtune("show", given), hvxtune("show", given, "--server", "")
        assert away.status == here.status == 0
        cut = here.out.index("next:")
        assert away.out[:cut] == here.out[:cut]
        assert away.out.rstrip().endswith(f"--server {there}")
    assert hvxtune("jobs").out == hvxtune("jobs", "--server", "").out
    assert hvxtune("job", "pause", waiting.id).out == f"batch {waiting.id} paused; jobs: 2 paused\n"
    assert (
        hvxtune("job", "cancel", waiting.id).out
        == f"batch {waiting.id} cancelled; jobs: 2 cancelled\n"
    )
    assert "can no longer resume" in hvxtune("job", "resume", waiting.id).error_line
    assert "no job 'zzz'" in hvxtune("show", "zzz").error_line


def test_jobs_and_show_are_the_same_from_both_sides(hvxtune, there):
    job = hvxtune(*TUNE, "--json").json["job"]
    away, here = hvxtune("jobs", "--json").json, hvxtune("jobs", "--json", "--server", "").json
    assert [row["job"] for row in away["jobs"]] == [row["job"] for row in here["jobs"]] == [job]
    for field, value in here["jobs"][0].items():
        assert away["jobs"][0][field] == value, field
    assert hvxtune("jobs").out == hvxtune("jobs", "--server", "").out
    away = hvxtune("show", job, "--json").json
    here = hvxtune("show", job, "--json", "--server", "").json
    assert [trial["config"] for trial in away["trials"]] == [t["config"] for t in here["trials"]]
    assert away["best"]["cycles"] == here["best"]["cycles"]


def test_best_there_is_remembered(hvxtune, there, monkeypatch):
    hvxtune(*TUNE)
    first = hvxtune("best", "scale_u8", "--json").json
    monkeypatch.setattr("service.client.blocking.PATIENCE_WITH_CACHE_S", 0.1)
    monkeypatch.setattr("httpx.Client.stream", refuse)
    old = hvxtune("best", "scale_u8", "--json")
    assert old.json["object_digest"] == first["object_digest"]
    assert old.json["from_cache"] is True
    assert "warning: no service answers" in old.err


def test_the_target_is_the_services_unless_it_is_named_here(hvxtune, there, monkeypatch):
    """Not the one that this machine happens to be set up for."""
    monkeypatch.delenv(TARGET_VARIABLE)
    monkeypatch.setattr(schedules, "DEFAULT_TARGET", "hexagon-v73")
    answer = hvxtune(*TUNE, "--json")
    assert f"for {DEFAULT_TARGET} submitted to {there}" in answer.err
    assert answer.json["target"] == hvxtune("best", "scale_u8", "--json").json["target"]
    assert f", {DEFAULT_TARGET}" in hvxtune("best", "scale_u8").out
    monkeypatch.setenv(TARGET_VARIABLE, "hexagon-v68")
    assert hvxtune(*TUNE, "--json").json["target"] == "hexagon-v68"
    assert hvxtune("best", "scale_u8", "--json").json["target"] == "hexagon-v68"
    named = hvxtune("best", "scale_u8", "--target", DEFAULT_TARGET, "--json")
    assert named.json["target"] == DEFAULT_TARGET


def test_a_refused_connection_is_told_at_once(hvxtune, monkeypatch):
    monkeypatch.setattr("service.client.blocking.time.sleep", refuse)  # nothing is waited for
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}"
        answer = hvxtune(*TUNE, "--server", nowhere)
    assert answer.status == Exit.UNREACHABLE
    assert answer.error_line.startswith(f"error: no service answers at {nowhere}")


def refuse(*_args, **_options):
    import httpx

    raise httpx.ConnectError("nobody there")


def test_fetch_there_pins_and_then_needs_nobody(hvxtune, there, tmp_path):
    tuned = hvxtune(*TUNE, "--json").json
    fetched = hvxtune("fetch", "scale_u8", "--name", "scale", "-o", "out", "--json").json
    assert fetched["object_digest"] == tuned["best"]["object_digest"]
    assert not fetched["from_lock"]
    assert hvxtune("fetch", "scale_u8", "--name", "scale", "-o", "two", "--offline").status == 0
    assert (tmp_path / "two" / "scale.o").read_bytes() == (
        tmp_path / "out" / "scale.o"
    ).read_bytes()
    refused = hvxtune("fetch", "scale_u8", "--name", "scale", "--contract", "host", "-o", "two")
    assert refused.status == 2
    assert "the contract does not hold" in refused.error_line


def test_ctrl_c_leaves_the_job_running_there(hvxtune, there, monkeypatch, store):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("service.client.clients.Client.events", interrupted)
        answer = hvxtune(*TUNE)
    assert answer.status == 130
    (job,) = store.jobs()
    assert f"hvxtune job watch {job.id} --server {there}" in answer.err
    assert f"hvxtune job cancel {job.id} --server {there}" in answer.err
    watched = hvxtune("job", "watch", job.id, "--server", there, "--json")
    assert watched.json["state"] == "done"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "block.onnx"
    onnx.save(quantized(published.transformer_block(8, 16, 2), Quantizing()), path)
    return path


TUNE_NETWORK = ["network", "tune", "--trials", "16", "--workers", "1"]


def test_a_network_is_tuned_and_planned_there_from_its_shapes(
    hvxtune, there, model, store, tmp_path, monkeypatch
):
    monkeypatch.setattr(following, "_POLL_S", 0.05)
    sent = []
    submit = Client.submit_network

    def submitted(*given, **options):
        sent.append(given)
        return submit(*given, **options)

    monkeypatch.setattr(Client, "submit_network", submitted)
    quick = PHONE.replace("cycles_per_us = 500.0", "cycles_per_us = 5e7")  # they are many here
    (tmp_path / "phone.toml").write_text(quick)
    answer = hvxtune(*TUNE_NETWORK, str(model), "--topology", "phone.toml", "--json")
    assert answer.status == 0, answer.err
    form = answer.json
    assert (form["kind"], form["name"], form["state"]) == ("network", "block", "done")
    assert form["total"]["layers"] == form["total"]["layers_of_set"] == 20
    assert "kept for the page of the network" in answer.err
    kept = plan_of(store, form["batch"])
    assert len(kept.layers) == len(form["layers"])
    measured = {n for n, layer in enumerate(form["layers"]) if layer["best_cycles"]}
    on_dsp = [n for n, one in enumerate(kept.layers) if one.unit == "hexagon_cdsp"]
    assert {kept.layers[n].source for n in on_dsp if n in measured} == {"measured"}
    ((_, name, layers),) = sent
    assert name == "block"
    allowed = set(NewLayerBody.model_fields)
    assert all(layer.keys() <= allowed for layer in layers)
    assert len(json.dumps(layers)) < 300 * len(layers), "no more than names and shapes"

    for command in (["show", form["batch"]], ["show", str(model)]):
        assert "transformer" not in hvxtune(*command).err
        assert hvxtune(*command, "--json").json["batch"] == form["batch"]
    watched = hvxtune("job", "watch", form["batch"], "--json")
    assert (watched.status, watched.json) == (0, hvxtune("show", form["batch"], "--json").json)
    planned = hvxtune("network", "plan", str(model), "--topology", "phone.toml", "--json")
    assert f"kept with network {form['batch']}" in planned.err


@pytest.fixture
def watched(hvxtune, store, monkeypatch):
    """Watches a job that waits until ``told_enough`` of what is shown; all that was shown."""

    def watch(every_s, told_enough):
        told = []

        @contextmanager
        def noting(label):
            yield told.append

        monkeypatch.setattr(following, "shown", noting)
        monkeypatch.setattr(following, "WAITS_EVERY_S", every_s)
        job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann"))

        def cancel():
            try:
                until(lambda: told_enough(told))
            finally:  # or it would be watched for ever
                store.request(job.id, JobRequest.CANCEL)

        impatient = threading.Thread(target=cancel)
        impatient.start()
        with live(create_app(store, OpenGate(), Settings())) as url:
            done = hvxtune("job", "watch", job.id, "--server", url)
        impatient.join()
        assert done.status == 1
        assert "cancelled" in done.err
        return told

    return watch


def test_watch_tells_at_once_why_a_job_waits(watched):
    told = watched(10 * PATIENCE_S, bool)
    assert told[0].waits.startswith("no conductor runs")
