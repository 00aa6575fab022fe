"""Parts of a Hexagon SDK and the simulator's command line, on empty files in the right places."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import ToolchainError
from tuner.measure.dsp.sdk import find_parts


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
