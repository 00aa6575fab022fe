"""A network by CMake: tuned at a service, fetched, pinned, built without it, and run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from service.cli import main
from tests.examples.building import ROOT, Project, build_environment, simulate
from tests.rig.models.builder import Builder
from tests.rig.models.quantized import Quantizing, quantized
from tests.service.served import Served, served
from tests.tuner.network.running.test_steps import expected
from tuner.network.reading import model_file
from tuner.network.shipping.edges import within_edges

pytestmark = pytest.mark.slow

_LISTS = """\
cmake_minimum_required(VERSION 3.20)
project(network_example C)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../cmake")
include(HvxTune)
include(HvxTuneSimulator)
hvxtune_add_network(TARGET model MODEL two.onnx LOCK "${CMAKE_BINARY_DIR}/hvxtune.lock" ${MORE})
hvxtune_simulated_program(network_example main.c)
target_link_libraries(network_example PRIVATE hvxtune::model)
"""


def save_model(place: Path, seed: int = 2) -> Path:
    """Two convolutions; their weights differ by seed, and nothing else does."""
    b = Builder(seed, 17)
    x = b.relu6(b.conv(b.input("image", (1, 3, 8, 8)), 3, 16, size=3))
    onnx.save(quantized(b.model(b.conv(x, 16, 16)), Quantizing()), place)
    return place


def right_output(model: Path) -> str:
    """What examples/network must print, by the references of the kernels."""
    graph, _ = within_edges(model_file.read(model))
    (name,), (output,) = graph.inputs, graph.outputs
    elements = (7 * np.arange(graph.tensors[name].elements)).astype(np.uint8)
    made = expected(graph, {name: elements.reshape(graph.tensors[name].shape)})[output]
    return f"status 0, output {' '.join(map(str, made.reshape(-1)))}\n"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """A service where the network was tuned, and the archive that was made there."""
    folder = tmp_path_factory.mktemp("service")
    state = folder / "state"
    model = save_model(folder / "two.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HVXTUNE_STATE_DIR", str(state))
        how = ("--generator", "halide", "--trials", "4", "--workers", "1")
        assert main(["network", "tune", str(model), *how]) == 0
        archive = folder / "model.tar.gz"
        assert main(["network", "bundle", str(model), "--name", "model", "-o", str(archive)]) == 0
    with served(state, "--conductors", "0") as running:
        yield running, archive


@pytest.fixture
def service(tuned: tuple[Served, Path]) -> Served:
    return tuned[0]


@pytest.fixture
def project(service: Served, tmp_path: Path) -> Project:
    """The example beside what it needs of the repository, with a state of its own."""
    for folder in ("cmake", "examples", "tuner/measure/harness"):
        shutil.copytree(ROOT / folder, tmp_path / "repository" / folder)
    source = tmp_path / "repository/examples/network"
    (source / "CMakeLists.txt").write_text(_LISTS)
    save_model(source / "two.onnx")
    environment = build_environment(
        tmp_path / "state",
        HVXTUNE_CACHE_DIR=str(tmp_path / "cache"),  # where fetched files are kept
        HVXTUNE_SERVER=service.url,
        HVXTUNE_TOKEN=service.token,
    )
    return Project(source, tmp_path / "build", environment)


def good(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0
    return " ".join(done.stderr.split())


def bundle_in(project: Project) -> dict[str, bytes]:
    folder = project.build / "hvxtune" / "model"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def service_down(project: Project) -> Callable[[], None]:
    """From then on nobody listens at the service's address, as far as the build can tell."""
    return lambda: project.environment.update(HVXTUNE_SERVER="http://127.0.0.1:9")


@pytest.mark.path("a network")
def test_it_computes_what_the_references_do(project: Project) -> None:
    assert "hvxtune: model is bundle" in good(project.configure())
    good(project.make())
    ran = simulate(project.build / "network_example")
    assert (ran.stdout, ran.returncode) == (right_output(project.source / "two.onnx"), 0)


def test_it_builds_the_same_from_the_lock(
    project: Project, service_down: Callable[[], None]
) -> None:
    good(project.configure())
    good(project.make())
    ran = simulate(project.build / "network_example")
    first, lock = bundle_in(project), (project.build / "hvxtune.lock").read_bytes()
    service_down()
    shutil.rmtree(project.build)
    project.build.mkdir()
    (project.build / "hvxtune.lock").write_bytes(lock)
    good(project.configure("-DHVXTUNE_OFFLINE=ON"))
    good(project.make())
    assert bundle_in(project) == first
    assert (project.build / "hvxtune.lock").read_bytes() == lock
    assert simulate(project.build / "network_example").stdout == ran.stdout


def test_other_weights_do_not_configure_until_an_update(project: Project) -> None:
    good(project.configure())
    first = bundle_in(project)
    save_model(project.source / "two.onnx", seed=3)
    assert "'model' is pinned for the network" in said(project.make())  # configures again
    assert bundle_in(project) == first
    good(project.configure("-DHVXTUNE_UPDATE=ON"))
    good(project.make())
    changed = {path for path, content in bundle_in(project).items() if first[path] != content}
    objects = [path for path in changed if path.startswith("objects/")]
    assert objects == ["objects/model__constants.o"]
    ran = simulate(project.build / "network_example")
    assert ran.stdout == right_output(project.source / "two.onnx")


def test_a_file_takes_the_schedules_to_a_machine_without_a_network(
    project: Project, service: Served, service_down: Callable[[], None]
) -> None:
    with service.client() as client:
        client.network_bundle("two", project.source / "two.zip")
    good(project.configure())
    first = bundle_in(project)
    shutil.rmtree(project.build)
    shutil.rmtree(project.environment["HVXTUNE_CACHE_DIR"])
    service_down()
    good(project.configure("-DMORE=FROM;two.zip"))
    assert bundle_in(project) == first
