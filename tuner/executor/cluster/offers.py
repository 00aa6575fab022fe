"""The abilities of a worker: generators and measurers by fingerprint, targets, tags of devices.

A worker offers each as a Dask resource, and a call names the resources it needs, so that it only
goes where the very toolchain of its job is. Dask compares the names; what they are made of is here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tuner.errors import HvxtuneError
from tuner.identity import digest_of
from tuner.machine.fitness import Abilities, Examined, Lack, examine_tools, split_tags
from tuner.measure import FARM, DeviceAccess, Measurer, open_measurer
from tuner.measure.device import Member
from tuner.problem.target import TARGETS

_DIGITS = 16


@dataclass(frozen=True)
class MeasurerOffer:
    """A measurer under one state of the caches, as a worker has it. That of a farm is of devices
    that are alike; ``devices`` are the tags of each."""

    name: str
    cache: str
    fingerprint: Mapping[str, str]
    fidelity: str
    counted: tuple[str, ...]
    targets: tuple[str, ...]
    devices: tuple[tuple[str, ...], ...] = ()

    def serves(self, on: str) -> bool:
        """Whether it has a device with all the tags ``on``, if any are asked for."""
        wanted = split_tags(on)
        return not wanted or any(wanted <= set(tags) for tags in self.devices)

    @property
    def digest(self) -> str:
        """Names the fingerprint."""
        return digest_of(dict(self.fingerprint))[:_DIGITS]

    def resource(self, target: str) -> str:
        """The resource of a worker that has it, for a target."""
        return f"measure {self.name} {self.cache} {self.digest} {target}"


@dataclass(frozen=True)
class Offer:
    """All that a worker can do, and what it lacks. ``generators`` maps names to digests of their
    fingerprints."""

    generators: Mapping[str, str]
    measurers: tuple[MeasurerOffer, ...]
    devices: tuple[tuple[str, ...], ...] = ()
    lacks: tuple[Lack, ...] = ()
    without: tuple[Lack, ...] = ()

    @property
    def fit(self) -> bool:
        """Whether it is given anything at all."""
        return not self.lacks

    @property
    def resources(self) -> set[str]:
        """The names of Dask resources; none for an unfit worker."""
        if not self.fit:
            return set()
        return {
            *(compile_resource(name, digest) for name, digest in self.generators.items()),
            *(one.resource(target) for one in self.measurers for target in one.targets),
            *(tag_resource(tag) for tags in self.devices for tag in tags),
        }

    @property
    def examined(self) -> Examined:
        """As one machine's."""
        able = tuple(dict.fromkeys(one.name for one in self.measurers))
        return Examined(Abilities(able, self.devices), self.lacks, self.without)


def compile_resource(generator: str, digest: str) -> str:
    """The resource of a code generator with a fingerprint of this digest."""
    return f"compile {generator} {digest}"


def tag_resource(tag: str) -> str:
    """The resource of a device with a tag."""
    return f"device {tag}"


def tag_resources(on: str) -> list[str]:
    """Those of a job on devices with the tags ``on``."""
    return [tag_resource(tag) for tag in sorted(split_tags(on))]


def fingerprint_digest(fingerprint: Mapping[str, str]) -> str:
    """Names a code generator's fingerprint."""
    return digest_of(dict(fingerprint))[:_DIGITS]


def examine() -> Offer:
    """The offer of this machine now. Takes tenths of a second, and as long as the checks of devices
    that are due for one."""
    from tuner.executor.cluster.devices import devices

    found, farm = examine_tools(), devices()
    names = [name for name in found.abilities.measurers if name != FARM]
    return Offer(
        generators=dict(_generators()),
        measurers=(*_measurers(names), *_of_devices(farm.members)),
        devices=tuple(tuple(sorted(member.tags)) for member in farm.members),
        lacks=found.lacks,
        without=(*(lack for lack in found.without if lack.part != FARM), *farm.lacks),
    )


def _generators() -> Iterable[tuple[str, str]]:
    from tuner.codegen import find_generator, generator_names

    for name in generator_names():
        try:
            with find_generator(name)() as generator:
                yield name, fingerprint_digest(generator.fingerprint())
        except HvxtuneError:
            continue  # an optional part that is missing


def _measurers(names: Iterable[str]) -> Iterable[MeasurerOffer]:
    from tuner.records.candidate import CACHE_STATES

    for name in names:
        for cache in CACHE_STATES:
            try:
                with open_measurer(name, cache) as measurer:
                    yield _offered(measurer, name, cache)
            except HvxtuneError:
                continue  # such as cold caches on a phone


def _of_devices(members: Iterable[Member]) -> Iterable[MeasurerOffer]:
    """An offer for each group of devices that are alike: their numbers can be compared."""
    from tuner.executor.cluster.devices import ROSTER

    alike: dict[tuple[str, tuple[str, ...]], MeasurerOffer] = {}
    for member in members:
        try:
            with open_measurer(FARM, "warm", DeviceAccess(member.name, ROSTER)) as measurer:
                found = _offered(measurer, FARM, "warm")
        except HvxtuneError:
            continue  # it went away just now
        of_group = alike.setdefault((found.digest, found.targets), found)
        tags = (*of_group.devices, tuple(sorted(member.tags)))
        alike[found.digest, found.targets] = replace(of_group, devices=tags)
    return alike.values()


def _offered(measurer: Measurer, name: str, cache: str) -> MeasurerOffer:
    targets = tuple(t.name for t in TARGETS.values() if _runs(measurer, t.name))
    return MeasurerOffer(
        name,
        cache,
        dict(measurer.fingerprint()),
        measurer.fidelity,
        tuple(sorted(measurer.counted)),
        targets,
    )


def _runs(measurer: Measurer, target: str) -> bool:
    from tuner.problem.target import find_target

    try:
        measurer.require(find_target(target))
    except HvxtuneError:
        return False
    return True
