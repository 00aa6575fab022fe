"""Prefetches in derived spaces. Nothing is compiled here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from tests.tuner.space.test_derivation import TARGET, stage
from tuner.space import Config, Directive
from tuner.space.derivation import (
    BufferFacts,
    PipelineFacts,
    StageFacts,
    derived_schedule,
    derived_space,
)

WIDTH, HEIGHT = 1920, 1080


def pipeline(*stages: StageFacts, inputs: tuple[BufferFacts, ...] = ()) -> PipelineFacts:
    last = stages[-1]
    output = BufferFacts(last.name, "uint8", (0,) * len(last.extents), last.extents)
    image = BufferFacts("image", "uint8", (0, 0), (WIDTH, HEIGHT))
    return PipelineFacts((image, *inputs), (output,), stages)


def large(name: str, **changed: object) -> StageFacts:
    return stage(name, **{"extents": (WIDTH, HEIGHT), **changed})  # type: ignore[arg-type]


CHAIN = pipeline(
    large("first", inputs=("image",)), large("out", reads={"first": 3}, inputs=("image",))
)
APART = pipeline(large("first", inputs=("image",)), large("out", reads={"first": 3}))


def ahead(facts: PipelineFacts, **fixed: object) -> Iterator[tuple[Config, list[Directive]]]:
    """Random schedules with prefetches: their configs, and the prefetches in them."""
    space = derived_space("pipeline:test", facts, TARGET)
    random = Random(4)
    for _ in range(300):
        config = space.sample(random)
        if config.get("prefetch", 0) != 0 and fixed.items() <= config.as_dict().items():
            directives = derived_schedule(facts, TARGET, config)
            yield config, [d for d in directives if d.op == "prefetch"]


def distances(facts: PipelineFacts) -> tuple[object, ...]:
    space = derived_space("pipeline:test", facts, TARGET)
    return next((knob.choices for knob in space.knobs if knob.name == "prefetch"), ())


def test_what_fits_l2_is_not_prefetched():
    assert distances(CHAIN) == (0, 1, 2, 4)
    image, output = CHAIN.inputs[0], CHAIN.outputs[0]
    half = TARGET.l2_bytes // 2
    fits = replace(CHAIN, inputs=(replace(image, extents=(1024, half // 1024)),))
    fits = replace(fits, outputs=(replace(output, extents=(1024, half // 1024)),))
    assert distances(fits) == ()
    beyond = replace(fits, outputs=(replace(output, extents=(1024, half // 1024 + 1)),))
    assert distances(beyond) == (0, 1, 2, 4)


def test_rows_of_tiles_ask_for_what_is_read_inside_of_them():
    for place in ("inline", "rows", "tile"):
        seen = list(ahead(APART, place_first=place))
        assert seen
        for config, found in seen:
            assert found == [Directive("out", "prefetch", ("image", "y_o", config["prefetch"]))]
