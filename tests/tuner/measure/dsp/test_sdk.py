"""Parts of a Hexagon SDK and the simulator's command line, on empty files in the right places."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import ToolchainError
from tuner.measure.dsp.sdk import SDK_VARIABLES, find_parts, sdk_root
from tuner.measure.hexagon_sim.qurt import command_line, configuration


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    for version in ("8.7.06", "19.0.02", "8.7.3"):
        for part in ("bin/hexagon-sim", "lib/iss/qtimer.so", "lib/iss/l2vic.so"):
            _touch(tmp_path / "tools/HEXAGON_Tools" / version / "Tools" / part)
    for arch in ("v66", "v68"):
        _touch(tmp_path / f"rtos/qurt/compute{arch}/sdksim_bin/runelf.pbn")
        _touch(tmp_path / f"rtos/qurt/compute{arch}/debugger/lnx64/qurt_model.so")
        for tools in ("v87", "v19"):
            ship = tmp_path / f"libs/run_main_on_hexagon/ship/hexagon_tool{tools}_{arch}"
            _touch(ship / "run_main_on_hexagon_sim")
    return tmp_path


def _touch(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()


@pytest.mark.parametrize(
    "part",
    [
        "rtos/qurt/computev66/sdksim_bin/runelf.pbn",
        "rtos/qurt/computev66/debugger/lnx64/qurt_model.so",
        "tools/HEXAGON_Tools/19.0.02/Tools/lib/iss/qtimer.so",
    ],
)
def test_what_is_missing_is_named_with_its_place(sdk: Path, part: str) -> None:
    (sdk / part).unlink()
    with pytest.raises(ToolchainError, match=part):
        find_parts(sdk, "v66")


def test_our_variable_goes_before_the_sdks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SDK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert sdk_root() is None
    monkeypatch.setenv("HEXAGON_SDK_ROOT", "/opt/sdk")
    assert sdk_root() == Path("/opt/sdk")
    monkeypatch.setenv("HVXTUNE_HEXAGON_SDK", "/opt/other")
    assert sdk_root() == Path("/opt/other")


def test_the_command_line_is_the_documented_one(sdk: Path) -> None:
    parts = find_parts(sdk, "v66")
    line = command_line(parts, "v66", Path("/run"), "x.so", ["a", "b"], stack_bytes=0x100000)
    assert line[0] == str(parts.simulator)
    assert line[1:16] == [
        *("-mv66", "--timing", "--quiet", "--simulated_returnval", "--usefs", "/run"),
        *("--pmu_statsfile", "/run/pmu_stats.txt", "--cosim_file", "/run/q6ss.cfg"),
        *("--l2tcm_base", "0xd800", "--rtos", "/run/osam.cfg", str(parts.boot)),
    ]
    assert line[16:] == ["--", str(parts.loader), "stack_size=0x100000", "--", "x.so", "a", "b"]


def test_the_files_it_reads_name_the_devices_and_the_system(sdk: Path) -> None:
    parts = find_parts(sdk, "v66")
    files = {name: content.decode() for name, content in configuration(parts).items()}
    assert files["osam.cfg"] == f"{parts.os_model}\n"
    timer, interrupts = files["q6ss.cfg"].splitlines()
    assert timer.split()[0] == str(parts.timer)
    assert interrupts.split() == [str(parts.interrupts), "32", "0xFC910000"]
