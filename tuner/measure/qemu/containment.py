"""What keeps candidates of the embedded simulator in their place on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.codegen.toolchain import built
from tuner.identity import digest_of_bytes
from tuner.measure.cases import Case, CaseSet
from tuner.measure.harness import idle_candidate
from tuner.measure.image import image_of
from tuner.measure.qemu.model import find_model
from tuner.measure.qemu.session import Orders
from tuner.measure.qemu.simulation import simulate
from tuner.problem.target import DEFAULT_TARGET, find_target
from tuner.records.candidate import Artifact

LAYERS = {
    1 << 0: "resource limits",
    1 << 1: "no network",
    1 << 2: "no privileges",
    1 << 3: "an empty root directory",
    1 << 4: "landlock",
    1 << 5: "seccomp",
}
"""``enum sandbox_layer`` of plugin/sandbox.h, for people. They stand behind a first wall that is
always there: the plugin ends a run at the candidate's first system call."""

_RUN_SECONDS = 20.0


@dataclass(frozen=True)
class Containment:
    """Layers around the simulating process that are in place, and those this machine refuses.

    Measurements depend on none of them.
    """

    active: tuple[str, ...]
    refused: tuple[str, ...]


def containment_of(layers: int) -> Containment:
    """From ``Results.sandbox_layers`` of a run."""
    return Containment(
        active=tuple(name for bit, name in LAYERS.items() if layers & bit),
        refused=tuple(name for bit, name in LAYERS.items() if not layers & bit),
    )


def examine_containment() -> Containment:
    """Runs a candidate that does nothing, and sees which layers come into place.

    Raises ``ToolchainError`` without a simulator, ``DeviceError`` if the simulator fails.
    """
    target = find_target(DEFAULT_TARGET)
    part = idle_candidate(target.arch)
    data = built(part).read_bytes()
    artifact = Artifact(digest_of_bytes(data), "hvxtune_nothing", {"object": data})
    orders = Orders(find_model(target.arch), target)
    image = image_of(
        CaseSet((Case("no buffers", ()),)), target, practice_calls=orders.timed_call - 1
    )
    simulation = simulate(artifact, image, orders, _RUN_SECONDS)
    return containment_of(simulation.results.sandbox_layers)
