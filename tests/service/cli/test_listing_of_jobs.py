"""``hvxtune jobs`` where several people submit."""

from __future__ import annotations

from db import open_store
from db.pipelines import keep
from tests.service.stored import unfit_conductor
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.errors import CandidateError
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.outcome import Outcome
from tuner.records.trial import JobRequest, Submission
from tuner.space import Config


def test_user_and_priority_are_shown_where_there_are_any(hvxtune) -> None:
    with open_store() as store:
        store.create_job(spec(), SPACE, TOOLCHAIN)
        assert "priority" not in hvxtune("jobs").out
        job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann", 7))
        store.request(job.id, JobRequest.PAUSE)
    lines = hvxtune("jobs").out.splitlines()
    assert lines[0].split()[:4] == ["job", "state", "user", "priority"]
    assert lines[2].split()[:4] == [job.id, "paused", "ann", "7"]


def test_uploads_are_shown_by_the_names_people_gave(hvxtune) -> None:
    read: dict[str, object] = {"stages": [], "inputs": [], "outputs": []}
    with open_store() as store:
        job = store.create_job(
            spec(), SPACE, TOOLCHAIN, Submission("ann", owner="vision", kernel_label="crisp")
        )
        kept, _ = keep(store, b"bytes", "crisp", "ann", read, owner="vision", private=True)
    assert f" crisp {' '.join(f'{k}={v}' for k, v in spec().problem.workload.params.items())}" in (
        hvxtune("jobs").out
    )
    assert hvxtune("show", job.id).out.startswith("crisp ")
    (row,) = hvxtune("jobs", "--json").json["jobs"]
    assert (row["display_name"], row["owner"]) == ("crisp", "vision")
    assert row["kernel"] == spec().problem.workload.kernel
    (upload,) = hvxtune("kernel", "pipelines", "--json").json["pipelines"]
    assert (upload["name"], upload["owner"], upload["visibility"]) == ("crisp", "vision", "private")
    line = hvxtune("kernel", "pipelines").out.splitlines()[2]
    assert line.split()[:3] == ["crisp", "vision", "private"]
    assert line.split()[-1] == kept.kernel


def test_show_says_how_it_was_searched(hvxtune) -> None:
    with open_store() as store:
        job = store.create_job(spec(generator="portfolio"), SPACE, TOOLCHAIN)
    line = next(line for line in hvxtune("show", job.id).out.splitlines() if "searched" in line)
    assert "Trials 12; Seconds 1.5" in line
    assert "Generator portfolio" in line
    assert "Objectives" not in line


def test_a_label_is_shown_wherever_the_job_is(hvxtune, bench) -> None:
    tune = ["tune", "scale_u8", "--trials", "2", "--workers", "1", "--json"]
    plain, labelled = (hvxtune(*tune, *more).json for more in ([], ["--label", "two rows"]))
    assert (plain["label"], labelled["label"]) == ("", "two rows")
    heads, *_, first, second = hvxtune("jobs").out.splitlines()
    assert "label" in heads
    assert ("two rows" in first, "two rows" in second) in ((True, False), (False, True))
    assert "Label two rows" in hvxtune("show", labelled["job"]).out
    assert "Label" not in hvxtune("show", plain["job"]).out
    assert "--label" in hvxtune(*tune, "--label", "a\x1b[31m").error_line


def test_no_speed_up_is_told_where_the_textbook_failed(hvxtune, bench) -> None:
    def fault(config: Config) -> CandidateError | None:
        refused = config == textbook
        return CandidateError(Outcome.TIMEOUT, "over 20 s") if refused else None

    kernel = find_kernel("scale_u8")
    problem = kernel.problem({}, Contract.STATIC, find_target("hexagon-v66"))
    textbook = kernel.textbook_config(problem)
    assert textbook != kernel.default_config(problem)
    bench.fault = fault
    tune = ["tune", "scale_u8", "--trials", "4", "--workers", "1", "--generator", "halide"]
    job = hvxtune(*tune, "--json").json
    assert (job["textbook"]["outcome"], job["told_against"]) == ("timeout", None)
    assert job["best"] is not None
    shown = hvxtune("show", job["job"]).out
    assert "no speed-up is told" in shown
    assert "speed-up against" not in shown


def test_waiting_jobs_and_unfit_conductors_say_why(hvxtune) -> None:
    with open_store() as store:
        assert "no conductor runs" in hvxtune("cluster", "list").out
        job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann"))
        unfit_conductor(store)
    why = "no conductor is fit: process 4711 on lab7: artifacts: not where the service has them"
    assert "no conductor is fit: process 4711" in " ".join(hvxtune("jobs").out.split())
    assert hvxtune("jobs", "--json").json["jobs"][0]["waits"] == why
    assert f"waits: {why}" in " ".join(hvxtune("show", job.id).out.split())
    assert hvxtune("show", job.id, "--json").json["waits"] == why
    shown = " ".join(hvxtune("cluster", "list").out.split())
    assert "conductor lab7, process 4711 unfit 2 qemu folder:/its/own artifacts:" in shown
    assert "worker of dask://lab7:8786 lab8-4712 unfit 3 qemu: is missing" in shown
    (found,) = hvxtune("cluster", "list", "--json").json["conductors"]
    assert found["lacks"][0]["part"] == "artifacts"


def test_a_job_is_annotated_and_found_again(hvxtune) -> None:
    with open_store() as store:
        job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission(kernel_label="crisp")).id
        store.create_job(spec(), SPACE, TOOLCHAIN)
    assert "tags" not in hvxtune("jobs").out
    told = hvxtune(
        "job", "annotate", job[:8], "--tag", "v2", "--tag", "camera", "--comment", "a\nb"
    )
    assert told.out.splitlines() == [f"job {job}", "tags: camera v2", "  a", "  b"]
    assert "tags: camera v2" in hvxtune("show", job).out
    form = hvxtune("job", "annotate", job, "--untag", "v2", "--json").json
    assert (form["comment"], form["tags"]) == ("a\nb", ["camera"])
    assert hvxtune("show", job, "--json").json["tags"] == ["camera"]
    for more in ([], ["--members"]):
        for asked, found in (
            (["--tag", "camera"], [job]),
            (["--kernel", "crisp"], [job]),
        ):
            rows = hvxtune("jobs", *asked, *more, "--json").json["jobs"]
            assert [row["job"] for row in rows] == found, asked
    assert "camera" in hvxtune("jobs").out
    assert hvxtune("jobs", "--tag", "none").out == "no such job\n"
    assert "tag 'No'" in hvxtune("job", "annotate", job, "--tag", "No").error_line
