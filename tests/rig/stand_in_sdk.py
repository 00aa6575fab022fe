"""A stand-in for a Hexagon SDK: the same places, and a stand-in for hexagon-sim in its own.

The stand-in takes exactly the options that hvxtune gives the real one, wants the files they name,
and runs ``main`` of the shared object as the emulated phones do: under qemu-hexagon, by the rig's
loader. Its clock counts packets. What it prints at the end has the form of the real one's and
made-up figures. It has no QuRT, no timing and no TCM, and says nothing of how the real one times.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.rig.phones.packages import linked_loader
from tuner.measure.qemu.simulator import find_simulator

VERSION = "8.7.06"
_PROGRAM = """#!{python} -IS
import ctypes, json, os, subprocess, sys
from pathlib import Path

TOOL = json.loads({tool!r})

def refuse(reason):
    print(f"hexagon-sim ERROR: {{reason}} (stand-in)", file=sys.stderr)
    sys.exit(1)

arguments = sys.argv[1:]
if not arguments or not arguments[0].startswith("-mv"):
    refuse("no arch")
flags, values = {{"--timing", "--quiet", "--simulated_returnval"}}, {{}}
at = 1
while at < len(arguments) and arguments[at].startswith("--"):
    name = arguments[at]
    if name in flags:
        at += 1
        continue
    if name not in ("--usefs", "--pmu_statsfile", "--cosim_file", "--l2tcm_base", "--rtos"):
        refuse(f"unknown option {{name}}")
    values[name] = arguments[at + 1]
    at += 2
boot, dashes, loader, stack, more, *program = arguments[at:]
if dashes != "--" or more != "--" or not stack.startswith("stack_size="):
    refuse("not the order of runelf.pbn -- run_main_on_hexagon_sim stack_size=N -- x.so")
described = [Path(values[name]).read_text() for name in ("--cosim_file", "--rtos")]
lines = [line for text in described for line in text.splitlines()]
for path in (boot, loader, *(line.split()[0] for line in lines)):
    if not Path(path).exists():
        refuse(f"no {{path}}")
if set(os.environ) - {{"LC_CTYPE"}}:  # which Python itself sets
    refuse("the environment is not empty")
trouble = Path(__file__).with_name("trouble")
trouble = trouble.read_text() if trouble.exists() else ""
if trouble == "licence":
    refuse("no licence")
command = [*TOOL, "3", program[0], stack, *program[1:]]
given = {{"DSP_LIBRARY_PATH": values["--usefs"]}}
end_with_me = lambda: ctypes.CDLL(None).prctl(1, 9)  # as the real one has no second process
done = subprocess.run(command, env=given, preexec_fn=end_with_me)
pcycles = 1 if trouble == "small total" else 10**15
Path(values["--pmu_statsfile"]).write_text("PMU statistics of a stand-in\\nPCYCLES : 1000\\n")
print("\\nDone!\\n\\tT0: Insns=2 Packets=1\\n\\tT1: Insns=0 Packets=0")
print(f"\\tTotal: Insns=2 Pcycles={{pcycles}}", flush=True)
if trouble == "lost results":
    Path("results").unlink()
sys.exit(0 if trouble == "lost results" else done.returncode)
"""


def make_sdk(root: Path, arch: str = "v66") -> Path:
    """Makes the folder of a stand-in for an SDK; its path."""
    tools = root / "tools/HEXAGON_Tools" / VERSION / "Tools"
    qurt = root / f"rtos/qurt/compute{arch}"
    loader = root / f"libs/run_main_on_hexagon/ship/hexagon_toolv87_{arch}/run_main_on_hexagon_sim"
    for part in (
        tools / "lib/iss/qtimer.so",
        tools / "lib/iss/l2vic.so",
        qurt / "sdksim_bin/runelf.pbn",
        qurt / "debugger/lnx64/qurt_model.so",
        loader,
    ):
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_text("stand-in")
    simulator = tools / "bin/hexagon-sim"
    simulator.parent.mkdir()
    command = [*find_simulator().command, str(linked_loader())]
    simulator.write_text(_PROGRAM.format(python=sys.executable, tool=json.dumps(command)))
    simulator.chmod(0o755)
    return root


def trouble(root: Path, kind: str) -> None:
    """From now on the stand-in of ``root`` has this trouble: ``licence``, ``small total`` or
    ``lost results``; none if empty."""
    bin_folder = root / "tools/HEXAGON_Tools" / VERSION / "Tools/bin"
    (bin_folder / "trouble").write_text(kind)
