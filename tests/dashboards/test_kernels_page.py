"""What can be tuned, and how a person brings more in the browser."""

from __future__ import annotations

import gzip
import html
import io
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from db.access.audit import newest_entries
from db.sql_store import SqlStore
from service.auth.caller import Scope
from tests.dashboards.conftest import Browser
from tests.dashboards.test_more_pages import stored, words
from tests.rig.models import published
from tests.rig.models.quantized import Quantizing, quantized
from tests.rig.stand_ins import StandInGenerator, StandInMeasurer
from tests.rig.unseen_pipelines import unseen_pipeline
from tuner.packages.files import MOST_BYTES

pytestmark = pytest.mark.sqlite

LogIn = Callable[..., Browser]
PAGE = "/ui/kernels"
EXAMPLE = Path(__file__).parents[2] / "examples" / "packages" / "stencil3x3"


def zipped(**more: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in EXAMPLE.iterdir():
            archive.write(path, path.name)
        for name, content in more.items():
            archive.writestr(name, content)
    return made.getvalue()


def tarred() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        archive.add(EXAMPLE, EXAMPLE.name)
    return made.getvalue()


def sparse() -> bytes:
    """A small archive with a member that states a terabyte."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        member = tarfile.TarInfo("kernel.toml")
        member.pax_headers = {"GNU.sparse.size": str(1 << 40), "GNU.sparse.map": "0,0"}
        archive.addfile(member)
    return gzip.compress(made.getvalue())


def test_kernels_are_listed_with_what_is_tuned_of_them(logged_in: LogIn, store: SqlStore) -> None:
    stored(store)
    stored(store, n=128, seed=1)
    browser = logged_in(Scope.READ)
    page = browser.get(PAGE)
    assert "gemm_u8 matrix product, u8 x u8 -> u32 2 schedules" in words(page.text)
    assert "Upload a pipeline" not in page.text
    about = words(browser.get(f"{PAGE}/gemm_u8").text)
    assert "m=256 n=128 k=32 static hexagon-v66 1,000" in about
    assert "tile_m" in about
    for missing in ("nothing", "pipeline:0123456789ab", "package:none"):
        assert browser.get(f"{PAGE}/{missing}").status_code in (404, 422)


def test_a_package_comes_as_an_archive_of_its_folder(logged_in: LogIn, store: SqlStore) -> None:
    browser = logged_in(Scope.ADMIN)
    kernels = set()
    for archive in (zipped(README=b"not named"), tarred()):
        shown = browser.form(PAGE, f"{PAGE}/package", files={"file": ("a.zip", archive)})
        assert shown.status_code == 200, words(shown.text)
        kernels.add(unquote(shown.url.path.rpartition("/")[2]))
        assert "binomial3x3.c" in shown.text
    (kernel,) = kernels
    assert kernel.startswith("package:")
    assert newest_entries(store, 1)[0].action == "package.register"
    assert f"binomial3x3 {kernel.partition(':')[2]} · version 1 · c" in words(
        browser.get(PAGE).text
    )
    assert 'name="param_width"' in browser.get(f"/ui/submit?kernel={kernel}").text
    zeros = gzip.compress(bytes(2 * MOST_BYTES + 1))
    for bad in (b"", b"PK\3\4", zipped()[:500], zeros,
                gzip.compress(b"x"), sparse()):  # fmt: skip
        refused = browser.form(PAGE, f"{PAGE}/package", files={"file": ("a.zip", bad)})
        assert refused.status_code == 422
        assert "not an archive" in refused.text or "no kernel.toml" in refused.text
    assert "no file was chosen" in browser.form(PAGE, f"{PAGE}/package").text
    submitter = logged_in(Scope.READ, Scope.SUBMIT, name="eve")
    assert submitter.form(PAGE, f"{PAGE}/package", files={"file": ("a", b"")}).status_code == 403
    assert "Register a package" not in submitter.get(PAGE).text


@pytest.mark.slow
def test_a_pipeline_is_uploaded_and_tuned_from_its_page(logged_in: LogIn, store: SqlStore) -> None:
    browser = logged_in(Scope.READ, Scope.SUBMIT)
    data = unseen_pipeline("sharpen")
    sent = {"file": ("My Sharpen-2.hlpipe", data)}
    page = browser.form(PAGE, f"{PAGE}/pipeline", files=sent, private="yes")
    kernel = unquote(page.url.path.rpartition("/")[2])
    shown = words(page.text)
    assert "my_sharpen_2 Uploaded by ada just now" in shown
    assert re.search(r"blurred x y \w+ 0", shown), "a stage"
    assert f'href="/ui/submit?kernel={kernel.replace(":", "%3A")}"' in page.text
    form = browser.get(f"/ui/submit?kernel={kernel}").text
    assert f'<option value="{kernel}" selected>my_sharpen_2</option>' in form
    assert "place_blurred" in form
    assert newest_entries(store, 1)[0].action == "pipeline.upload"
    stranger = logged_in(Scope.READ, Scope.SUBMIT, name="eve")
    assert "my_sharpen" not in stranger.get(PAGE).text
    assert stranger.get(f"{PAGE}/{kernel}").status_code in (404, 422)
    for content, name in ((b"junk", "junk"), (data, "No Name")):
        sent = {"file": ("x", content)}
        refused = browser.form(PAGE, f"{PAGE}/pipeline", files=sent, name=name)
        assert refused.status_code == 422
        assert 'role="alert"' in refused.text


@pytest.mark.slow
def test_a_model_is_read_and_its_network_tuned(
    logged_in: LogIn, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.executor.executor.find_generator", lambda _: StandInGenerator)
    monkeypatch.setattr("tuner.measure.find_measurer", lambda _: StandInMeasurer)
    model = quantized(published.transformer_block(8, 16, 2), Quantizing()).SerializeToString()
    browser = logged_in(Scope.READ, Scope.SUBMIT)
    read = browser.form(PAGE, f"{PAGE}/model", files={"file": ("block.onnx", model)})
    shown = words(read.text)
    assert "qgemm_u8 m=8" in shown, "a layer with its kernel"
    assert re.search(r"host|none yet", shown), "and one without"
    assert newest_entries(store, 1)[0].action == "model.read"
    fields: dict[str, Any] = {
        name: html.unescape(value)
        for name, value in re.findall(r'name="(layers|name)" value="([^"]*)"', read.text)
    }
    asked: dict[str, Any] = {**fields, "trials": "90", "target": "hexagon-v68"}
    page = browser.form(PAGE, f"{PAGE}/network", **asked)
    assert page.url.path.startswith("/ui/networks/"), words(page.text)
    jobs = store.jobs()
    assert {job.spec.problem.target.name for job in jobs} == {"hexagon-v68"}
    assert sum(job.spec.budget.trials or 0 for job in jobs) == 90
    assert f"{fields['name']}" in browser.get(PAGE).text
    wrong = browser.form(PAGE, f"{PAGE}/network", **{**asked, "trials": "many"})
    assert wrong.status_code == 422
    assert "qgemm_u8" in wrong.text, "nothing is lost"
    few = browser.form(PAGE, f"{PAGE}/network", **{**asked, "trials": "1"})
    assert (few.status_code, "each has one at least" in few.text) == (422, True)
    for layers in ("", "[1", '[{"name": "a", "operator": "b", "kernel": "none"}]'):
        refused = browser.form(PAGE, f"{PAGE}/network", **{**asked, "layers": layers})
        assert refused.status_code == 422
    bad = browser.form(PAGE, f"{PAGE}/model", files={"file": ("a.onnx", b"junk")}, axes="batch")
    assert "NAME=VALUE" in html.unescape(bad.text)
    assert len(store.jobs()) == len(jobs)
