"""``kernels`` and ``space``."""

from __future__ import annotations

from tuner.kernels import find_kernel, kernel_names
from tuner.space import Space


def test_kernels_lists_every_kernel_with_its_parameters(hvxtune):
    listed = {
        kernel["name"]: kernel for kernel in hvxtune("kernel", "list", "--json").json["kernels"]
    }
    assert list(listed) == kernel_names()
    for name, kernel in listed.items():
        assert kernel["summary"] == find_kernel(name).summary
        assert {p["name"]: p["default"] for p in kernel["params"]} == {
            p.name: p.default for p in find_kernel(name).params
        }


def test_kernels_reads_as_a_table(hvxtune):
    text = hvxtune("kernel", "list").out
    assert all(name in text for name in kernel_names())
    assert "h=4 n=512" in text


def test_a_printed_space_can_be_read_back(hvxtune):
    printed = hvxtune("kernel", "space", "scale_u8", "--json").json
    space = Space.from_dict(printed)
    assert space.digest == printed["digest"]
    assert dict(space.config(printed["default"])) == printed["default"]
    assert dict(space.config(printed["textbook"])) == printed["textbook"]


def test_a_space_reads_as_a_table(hvxtune):
    text = hvxtune("kernel", "space", "scale_u8", "-p", "n=256", "--generator", "halide").out
    assert "scale_u8 h=4 n=256, contract static, hexagon-v66: 64 configs" in text
    assert "1 2 3 4 5 6 7 8" in text
    assert "vectors a step" in text


def test_the_space_is_that_of_a_job_by_default(hvxtune):
    text = hvxtune("kernel", "space", "scale_u8").out
    knob, *choices = next(line for line in text.splitlines() if "halide-clang" in line).split()[:3]
    assert (knob, choices) == ("generator", ["halide", "halide-clang"])


def test_targets_are_listed_with_their_sources(hvxtune) -> None:
    listed = hvxtune("targets", "--json").json
    rows = {row["name"]: row for row in listed["targets"]}
    assert listed["default"] in rows
    assert rows["hexagon-v81"]["hvx_contexts"] == 8
    assert all(f["source"] for row in rows.values() for f in row["figures"].values())
    text = hvxtune("targets").out
    assert "Snapdragon 8 Gen 2" in text
    assert "1.435 GHz" in text
