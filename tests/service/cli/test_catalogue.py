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


def test_a_printed_space_can_be_read_back(hvxtune):
    printed = hvxtune("kernel", "space", "scale_u8", "--json").json
    space = Space.from_dict(printed)
    assert space.digest == printed["digest"]
    assert dict(space.config(printed["default"])) == printed["default"]
    assert dict(space.config(printed["textbook"])) == printed["textbook"]


def test_targets_are_listed_with_their_sources(hvxtune) -> None:
    listed = hvxtune("targets", "--json").json
    rows = {row["name"]: row for row in listed["targets"]}
    assert listed["default"] in rows
    assert rows["hexagon-v81"]["hvx_contexts"] == 8
    assert all(f["source"] for row in rows.values() for f in row["figures"].values())
    text = hvxtune("targets").out
    assert "Snapdragon 8 Gen 2" in text
    assert "1.435 GHz" in text
