"""The farm file is read as meant, and every mistake in it is told by its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import UserError
from tuner.measure.android.call import PhoneSettings
from tuner.measure.device import Limits
from tuner.measure.farm.farm_file import FARM_FILE_VARIABLE, keys_of, read_farm
from tuner.measure.hexagon_sim.device import HexagonSimSettings

DOCS = Path(__file__).parents[4] / "docs" / "devices.md"
WHOLE = """
[limits]
max_temperature_c = 65
bundle = 8

[[simulator]]
name = "sim"
slots = 2
tags = ["ci"]

[[hexagon-sim]]
name = "sdk"
root = "/opt/sdk"
arch = "v68"

[[phone]]
name = "pixel"
serial = "R58M1"
arch = "v68"
soc = "sm8350"
tags = ["lab-2"]

[[phone]]
name = "remote"
address = "127.0.0.1:16001"
arch = "v66"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "farm.toml"
    monkeypatch.setenv(FARM_FILE_VARIABLE, str(path))
    return path


def test_a_whole_file_becomes_devices(file: Path) -> None:
    file.write_text(WHOLE)
    farm = read_farm()
    assert [member.name for member in farm.members] == ["sim-1", "sim-2", "sdk", "pixel", "remote"]
    assert farm.limits == Limits(max_temperature_c=65.0, bundle=8)
    assert farm.members[2].settings == HexagonSimSettings(name="sdk", root="/opt/sdk", arch="v68")
    assert farm.members[3].settings == PhoneSettings(
        name="pixel", arch="v68", serial="R58M1", soc="sm8350", tags=("lab-2",)
    )


@pytest.mark.parametrize(
    ("on", "names"),
    [("phone", ["pixel", "remote"]), ("sim", ["sim-1", "sim-2"]), ("phone, v66", ["remote"])],
)
def test_devices_are_chosen_by_tags(file: Path, on: str, names: list[str]) -> None:
    file.write_text(WHOLE)
    assert [member.name for member in read_farm().selected(on)] == names


@pytest.mark.parametrize("by", ["serial = 'R58M1'", "address = 'Lab-2.example:5555'"])
def test_a_phone_has_one_table_for_each_of_its_dsps(file: Path, by: str) -> None:
    table = "[[phone]]\nname = '{}'\narch = 'v68'\n{}\n"
    other_dsp = table.format("other", by) + "domain = 0\n"
    file.write_text(table.format("one", by) + other_dsp)
    assert [member.name for member in read_farm().members] == ["one", "other"]
    again = by.replace("Lab-2", "lab-2")
    file.write_text(table.format("one", by) + other_dsp + table.format("two", again))
    with pytest.raises(UserError, match="'one' and 'two' are both DSP 3 of the phone"):
        read_farm()


@pytest.mark.parametrize(
    ("text", "says", "accepted"),
    [
        ("", "names no device", "[[phone]]"),
        ("[[simulator]]\nname='a'\nslots=0", "simulator 1: slots = 0", "1 to 256"),
        ("[[simulator]]\nname='a'\n[[simulator]]\nname='a'", "'a' is given twice", "name"),
        ("[limits]\nmax_temperature_c='hot'", "limits: max_temperature_c", "a number"),
    ],
)
def test_a_mistake_names_key_value_and_what_is_accepted(
    file: Path, text: str, says: str, accepted: str
) -> None:
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_farm()
    assert str(file) in caught.value.message
    assert says in caught.value.message
    assert accepted in caught.value.accepted


def shown(default: object) -> str:
    return f"{default:g}" if isinstance(default, int | float) else str(default)


def test_every_limit_is_documented_as_it_is() -> None:
    for key in keys_of(Limits):
        assert f"| `{key.name}` | {shown(key.default)} | {key.help} |" in DOCS.read_text()
