"""A stand-in for Qualcomm's tools without an SDK: a compiler and a hexagon-sim for programs alone.

The simulator takes exactly the options that hvxtune gives the real one and runs the program under
qemu-hexagon, by the rig's loader, which stands in for the C library and its start code: so the
compiler makes a shared object. The clock counts packets. What is printed
has the form that others have published, and made-up figures. There is no timing, and nothing here
says whether the real start code, C library or caches do what the program wants of them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.rig.phones.packages import linked_loader
from tuner.codegen.toolchain import find_toolchain
from tuner.measure.qemu.simulator import find_simulator

_SIMULATOR = """#!{python} -IS
import ctypes, json, os, subprocess, sys
from pathlib import Path

TOOL = json.loads({tool!r})
trouble = Path(__file__).with_name("trouble")
trouble = trouble.read_text() if trouble.exists() else ""

def refuse(reason):
    print(f"hexagon-sim ERROR: {{reason}} (stand-in)", file=sys.stderr)
    sys.exit(1)

arguments = sys.argv[1:]
if trouble == "another program":
    print("usage: frobnicate FILE", file=sys.stderr)
    sys.exit(2)
if arguments[0] != "-m{arch}":
    refuse(f"unknown core {{arguments[0]}}")
values, at = {{}}, 1
while at < len(arguments) and arguments[at].startswith("--"):
    name = arguments[at]
    at += 1
    if name in ("--usefs", "--pmu_statsfile"):
        values[name] = arguments[at]
        at += 1
    elif name not in ("--timing", "--simulated_returnval"):
        refuse(f"unknown option {{name}}")
if len(values) != 2 or len(arguments) != at + 1:
    refuse("not one program, last")
if set(os.environ) - {{"LC_CTYPE"}}:  # which Python itself sets
    refuse("the environment is not empty")
end_with_me = lambda: ctypes.CDLL(None).prctl(1, 9)  # as the real one has no second process
done = subprocess.run([*TOOL, "3", arguments[at]], env={{}}, preexec_fn=end_with_me)
Path(values["--pmu_statsfile"]).write_text("PMU statistics of a stand-in\\nPCYCLES : 1000\\n")
print("\\nDone!\\n\\tT0: Insns=2 Packets=1\\n\\tT1: Insns=0 Packets=0")
total = {{"no cycles": "", "zero cycles": " Pcycles=0"}}.get(trouble, f" Pcycles={{10**15}}")
print(f"\\tTotal: Insns=2{{total}}", flush=True)
sys.exit(done.returncode)
"""

_COMPILER = """#!{python} -IS
import subprocess, sys, tempfile
from pathlib import Path

arguments = sys.argv[1:]
if Path(__file__).with_name("trouble").exists() and (
    Path(__file__).with_name("trouble").read_text() == "no licence"
):
    sys.exit("hexagon-clang: error: no licence (stand-in)")
target, output = arguments[0].removeprefix("-m"), arguments[arguments.index("-o") + 1]
sources = [one for one in arguments if one.endswith(".c")]
defined = [one for one in arguments if one.startswith("-D")]
flags = ["-target", "hexagon-linux-musl", f"-mcpu=hexagon{{target}}", "-ffreestanding", "-fPIC"]
flags += ["-fno-stack-protector", "-fvisibility=hidden", "-fno-builtin", "-fshort-enums", "-O2"]
flags += ["-I", str(Path(__file__).parents[1] / "include"), *defined]
with tempfile.TemporaryDirectory() as made:
    objects = []
    for source in sources:
        objects.append(f"{{made}}/{{Path(source).name}}.o")
        command = [{zig!r}, "cc", *flags, "-c", source, "-o", objects[-1]]
        caches = ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR", "TMPDIR")
        subprocess.run(command, check=True, env=dict.fromkeys(caches, made))
    link = [{zig!r}, "ld.lld", "-shared", "-Bsymbolic", "-z", "now", "--hash-style=sysv"]
    subprocess.run([*link, *objects, "-o", output], check=True, env={{}})
"""

_STANDALONE_H = """/* A stand-in: the vector unit is always there. */
#include <stddef.h>
#include <stdint.h>
#define SIM_ACQUIRE_HVX ((void)0)
#define SIM_SET_HVX_DOUBLE_MODE ((void)0)

/* Without an operating system all memory can be executed; under qemu-hexagon it is asked for. */
#define memalign executable_memory
#define free keep
void *executable_memory(size_t alignment, size_t bytes) {
    register uint32_t r0 __asm__("r0") = 0, r1 __asm__("r1") = bytes + alignment;
    register uint32_t r2 __asm__("r2") = 7, r3 __asm__("r3") = 0x22, r4 __asm__("r4") = -1u;
    register uint32_t r5 __asm__("r5") = 0, r6 __asm__("r6") = 222; /* mmap */
    __asm__ volatile("trap0(#1)"
                     : "+r"(r0) : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6) : "memory");
    return (void *)((r0 + alignment - 1) & -alignment);
}
void keep(void *pointer) { (void)pointer; }
"""

_TIMER_H = """/* A stand-in: packets, as qemu-hexagon counts them (../phones/loader/clock.c). */
static inline unsigned long long hexagon_sim_read_pcycles(void) {
    unsigned count;
    __asm__ volatile("{ r0 = r0 }\\n  .word 0x6a14c000\\n  %0 = r0" : "=r"(count) : : "r0");
    return count;
}
"""


def make_tools(root: Path, arch: str = "v66") -> Path:
    """Makes the folder of a stand-in for the tools; its path."""
    tools = root / "Tools"
    for folder in ("bin", "include", f"target/hexagon/lib/{arch}/G0"):
        (tools / folder).mkdir(parents=True)
    (tools / "include/hexagon_standalone.h").write_text(_STANDALONE_H)
    (tools / "include/hexagon_sim_timer.h").write_text(_TIMER_H)
    command = json.dumps([*find_simulator().command, str(linked_loader())])
    programs = {
        "hexagon-sim": _SIMULATOR.format(python=sys.executable, tool=command, arch=arch),
        "hexagon-clang": _COMPILER.format(python=sys.executable, zig=str(find_toolchain().zig)),
    }
    for name, text in programs.items():
        program = tools / "bin" / name
        program.write_text(text)
        program.chmod(0o755)
        os.utime(program, (0, 0))  # always the same tools: their program is built once
    return root


def trouble(root: Path, kind: str) -> None:
    """From now on the stand-in of ``root`` has this trouble: ``another program``, ``no cycles``,
    ``zero cycles`` or ``no licence``; none if empty."""
    (root / "Tools/bin/trouble").write_text(kind)
