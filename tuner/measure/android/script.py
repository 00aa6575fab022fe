"""The shell script around one call of the phone's tool, and what it prints.

A script's output counts only if adb's exit packet came and, as its last line, the nonce: adbd that
dies in the middle of a command looks to adb's own client like a command that ended well.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.errors import DeviceError
from tuner.measure.android.adb import ShellOutput
from tuner.measure.android.adb.frames import printable
from tuner.measure.farm.settings import PhoneSettings

LOCK_FILE = "lock"
"""In our folder: see :mod:`tuner.measure.android.lock`."""
PID_FILE, SAID_FILE, RESULTS_FILE, QUEUE_FILE, DRIVER_FILE = (
    "pid",
    "said",
    "results",
    "queue",
    "driver.so",
)
_SAID_BYTES = 1500
_SUM = re.compile(r"([0-9a-f]{64})  (\S+)")
_COLDEST_C, _HOTTEST_C = -30.0, 150.0
"""Sensors that say otherwise are off: phones have some that always say -40 or -273."""
READ_SENSORS = "cat /sys/class/thermal/thermal_zone*/temp 2>/dev/null"
_SENSORS_FOLLOW = "@@SENSORS"
SYSTEM_LIBRARIES = ("/vendor/dsp/cdsp", "/vendor/lib/rfsa/adsp", "/system/lib/rfsa/adsp", "/dsp")
"""Where a phone's own DSP libraries lie; naming a search path replaces the system's."""


@dataclass(frozen=True)
class Ended:
    """What the script came to. ``said`` is the end of what the tool printed where it failed;
    ``sums`` are the SHA-256 of what each candidate made of memory, by file name.
    ``temperature_c`` is the hottest sensor at the end, in degrees Celsius; ``None`` without
    sensors."""

    status: int
    said: str
    sums: Mapping[str, str]
    temperature_c: float | None


def run_script(
    settings: PhoneSettings,
    folder: str,
    nonce: str,
    files: Mapping[str, str],
    outputs: Sequence[str],
    timeout_s: int,
) -> str:
    """Checks ``files`` (paths to SHA-256), runs the driver in ``folder``, sums up ``outputs``.

    Nothing counts if the phone's lock is not that of the call with ``nonce``, before and after.
    """
    lock = shlex.quote(f"{settings.folder}/{LOCK_FILE}")
    listing = "".join(f"{digest}  {path}\n" for path, digest in files.items())
    names = " ".join(shlex.quote(path) for path in files)
    own = [folder, settings.skel.rpartition("/")[0]] if settings.skel else [folder]
    libraries = shlex.quote(";".join([*own, *SYSTEM_LIBRARIES]))
    programs = f"{folder}:{settings.tool.rpartition('/')[0]}:/vendor/lib64"
    tool = shlex.join(
        [
            *(settings.tool, str(settings.domain), f"{folder}/{DRIVER_FILE}"),
            *(f"stack_size={settings.stack_bytes:#x}", folder),
        ]
    )
    inner = shlex.quote(f"echo $$ >{PID_FILE}; exec {tool}")
    return "\n".join(
        [
            f"cd {shlex.quote(folder)} || exit 1",
            f'mine() {{ case "$(readlink {lock})" in "{nonce} "*) return;; esac',
            f"echo '@@LOST {nonce}'; exit 1; }}",
            "mine",
            f"sha256sum {names} >sums 2>&1",
            'case "$(sha256sum sums)" in',
            f"{hashlib.sha256(listing.encode()).hexdigest()}*) ;;",
            f"*) echo '@@DAMAGED {nonce}'; exit 1;;",
            "esac",
            f"export DSP_LIBRARY_PATH={libraries} ADSP_LIBRARY_PATH={libraries}",
            f"export LD_LIBRARY_PATH={shlex.quote(programs)}",
            f"timeout -s KILL {timeout_s} sh -c {inner} </dev/null >{SAID_FILE} 2>&1",
            "rc=$?",
            f"[ $rc = 0 ] || tail -c {_SAID_BYTES} {SAID_FILE}",
            f"echo; echo {_SENSORS_FOLLOW}",
            READ_SENSORS,
            *([f"sha256sum {' '.join(outputs)} 2>/dev/null"] if outputs else []),
            "mine",
            f'echo "@@END {nonce} rc=$rc"',
        ]
    )


def ended(output: ShellOutput, nonce: str) -> Ended:
    """Reads what :func:`run_script` printed.

    Raises :class:`DamagedError` if files on the phone are not what was sent, ``DeviceError`` if
    the script did not come to its end.
    """
    text = output.stdout.decode(errors="replace")
    lines = text.rstrip("\n").split("\n")
    if lines[-1] == f"@@DAMAGED {nonce}":
        raise DamagedError("files on the phone are not what was sent: nothing was run")
    if lines[-1] == f"@@LOST {nonce}":
        raise DeviceError("another service took the phone over in the middle of a call", attempts=0)
    found = re.fullmatch(rf"@@END {nonce} rc=(\d{{1,3}})", lines[-1])
    if found is None or output.status != 0:
        raise DeviceError(
            f"the phone broke off in a command (status {output.status}): "
            f"{printable(text[-200:] + output.stderr.decode(errors='replace')[-200:])}"
        )
    said, mark, figures = text.rpartition(f"\n{_SENSORS_FOLLOW}\n")
    if not mark:
        raise DeviceError("the phone's output is not whole")
    rest = figures.split("\n")
    return Ended(int(found[1]), printable(said[-400:]), _sums(rest), hottest(rest))


class DamagedError(DeviceError):
    """Files on the phone are not what was sent; nothing was run."""


def hottest(lines: Sequence[str]) -> float | None:
    """The highest sound reading in degrees Celsius; phones give thousandths, some sensors ones."""
    readings = [int(line) for line in lines if re.fullmatch(r"-?\d{1,7}", line)]
    degrees = [reading / (1000 if abs(reading) >= 1000 else 1) for reading in readings]
    return max((d for d in degrees if _COLDEST_C < d < _HOTTEST_C), default=None)


def _sums(lines: Sequence[str]) -> dict[str, str]:
    return {found[2]: found[1] for line in lines if (found := _SUM.fullmatch(line))}


def probe_script(settings: PhoneSettings, nonce: str) -> str:
    """Prints temperatures, properties and free space, and last the nonce."""
    properties = " ".join(PROPERTIES)
    return "\n".join(
        [
            READ_SENSORS,
            "echo @@",
            f"for p in {properties}; do getprop $p; done",
            f"df -k {shlex.quote(parent_of(settings.folder))} | tail -n 1",
            f"echo @@END {nonce}",
        ]
    )


PROPERTIES = ("ro.soc.model", "ro.board.platform", "ro.product.model", "ro.build.fingerprint")
"""The first is there from Android 12 on."""


def parts_script(settings: PhoneSettings, nonce: str) -> str:
    """Prints the SHA-256 of the tool, and of the skeleton library where its path is known."""
    paths = [settings.tool, *([settings.skel] if settings.skel else [])]
    return f"sha256sum {shlex.join(paths)} 2>/dev/null; echo @@END {nonce}"


def clean_script(settings: PhoneSettings, nonce: str) -> str:
    """Kills what still runs in a folder of ours, removes all folders; prints who would not end.

    It reads ``/proc`` and not a list of ``ps``, whose options differ. The pattern is no text that
    it matches itself, or the script would find itself.
    """
    pattern = f"{re.sub('[.+]', _bracketed, settings.folder)}/ru[n]-"
    return "\n".join(
        [
            f"found() {{ grep -lse {shlex.quote(pattern)} /proc/[0-9]*/cmdline | cut -d/ -f3; }}",
            "for p in $(found); do kill -KILL $p; done 2>/dev/null",
            'n=0; while [ -n "$(found)" ] && [ $n -lt 20 ]; do sleep 0.05; n=$((n+1)); done',
            "found",
            f"cd {shlex.quote(settings.folder)} 2>/dev/null && rm -rf run-* problems",
            f"echo @@END {nonce}",
        ]
    )


def _bracketed(found: re.Match[str]) -> str:
    return f"[{found[0]}]"


def said_until_nonce(output: ShellOutput, nonce: str) -> list[str]:
    """The lines before the nonce. ``DeviceError`` if the phone did not give it back."""
    lines = output.stdout.decode(errors="replace").rstrip("\n").split("\n")
    if output.status != 0 or lines[-1] != f"@@END {nonce}":
        raise DeviceError("the phone did not give back what it was sent")
    return lines[:-1]


def parent_of(folder: str) -> str:
    """The folder above."""
    return folder.rpartition("/")[0]
