"""One emulated phone, driven from the test: start, fault switch, what is left on it, end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.rig.phones.faults import Fault, Setting
from tests.rig.phones.packages import HOME, Programs
from tuner.conformance.patience import PATIENCE_S

SHELL_UID = 2000
"""As on Android."""
TOOL = "/vendor/bin/run_main_on_hexagon"
_APPLETS = """
[ awk base64 basename cat chmod cp cut date dd df dirname du echo env expr false find grep head
id kill killall ln ls md5sum mkdir mktemp mv nohup od pidof printf ps pwd readlink rm rmdir sed
seq setsid sh sha256sum sleep sort stat sync tail tar tee test timeout touch tr true uname uniq
uptime usleep wc which xargs xxd yes
"""
_QEMU = "/apex/qemu/ld-linux-x86-64.so.2 --library-path /apex/qemu /apex/qemu/qemu-hexagon"
_TOOL_TEXT = f'#!/bin/sh\nexec {_QEMU} /apex/loader "$@"\n'
_GETPROP_TEXT = """#!/system/bin/sh
if [ $# = 0 ]; then sed 's/^\\([^=]*\\)=\\(.*\\)$/[\\1]: [\\2]/' /system/build.prop; exit; fi
while IFS='=' read -r key value; do
    if [ "$key" = "$1" ]; then echo "$value"; exit; fi
done < /system/build.prop
echo "$2"
"""
_CUT_SHELL_TEXT = """#!/system/bin/sh
/system/bin/sh "$@" | head -c "$(cat /vendor/rig/cut)"
exit 0
"""
_SENSORS = (
    ("cpu-0-0-usr", 38_000),
    ("battery", 30_000),
    ("skin-therm", 31_000),
    ("pm8150-gpio", -273_000),  # one that is dead, as phones have them
)
_DSP_SENSOR = "cdsp-usr"
"""The first process of the phone writes what it feels."""


class RigUnavailableError(Exception):
    """This machine cannot run emulated phones, and why."""


@dataclass(frozen=True)
class Model:
    """What a phone says of itself."""

    serial: str
    product: str = "hvxtune_phone"
    soc: str = "SM8150"
    platform: str = "msmnile"
    data_bytes: int = 64 << 20

    def properties(self) -> dict[str, str]:
        build = f"Hvxtune/{self.product}/{self.product}:11/RQ3A.1/1:user/release-keys"
        return {
            "ro.serialno": self.serial,
            "ro.product.manufacturer": "Hvxtune",
            "ro.product.model": "Emulated phone",
            "ro.product.device": self.product,
            "ro.product.name": self.product,
            "ro.board.platform": self.platform,
            "ro.soc.manufacturer": "QTI",
            "ro.soc.model": self.soc,
            "ro.build.fingerprint": build,
            "ro.build.version.release": "11",
            "ro.build.version.sdk": "30",
            "sys.boot_completed": "1",
        }


class Phone:
    """A running phone. ``address`` is what an adb server connects to.

    Its parts end with :meth:`close`, and also if this process ends in any way. One thread at a
    time gives orders; others wait.
    """

    def __init__(self, model: Model, programs: Programs) -> None:
        self.model = model
        self.setting = Setting()
        self._lock = threading.Lock()
        # Bound and never listening: the port stays this phone's while its adbd is dead.
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind(("127.0.0.1", 0))
        self.port: int = self._place.getsockname()[1]
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._control, theirs = socket.socketpair()
        with theirs:
            boot = Path(__file__).with_name("boot.py")
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", boot, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={},
            )
        self._control.settimeout(PATIENCE_S)
        try:
            self._tell(_settings(model, programs, self.port))
        except BaseException:
            self.close()
            raise

    @property
    def serial(self) -> str:
        return self.model.serial

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def set(self, setting: Setting | Fault, **adjusted: Any) -> None:
        """Turns the fault switch; whatever was wrong before is right again."""
        if isinstance(setting, Fault):
            setting = Setting(setting, **adjusted)
        elif adjusted:
            setting = replace(setting, **adjusted)
        self.setting = setting
        fault = setting.fault
        loader = "".join(f"{k}={v}\n" for k, v in setting.loader_faults().items())
        files = {"faults": loader}
        if fault is Fault.SLOW_PUSH:
            files["held"] = ""
        if fault is Fault.DISCONNECT:
            files["unplugged"] = ""
        if fault is Fault.TRUNCATED_SHELL:
            files["cut"] = str(setting.shell_bytes)
        hot = fault is Fault.THROTTLING
        self._order(
            "set",
            files=files,
            shell="/vendor/bin/cut_shell" if "cut" in files else "/system/bin/sh",
            hot_after=setting.hot_after if hot else 0,
            rest_ms=setting.rest_ms if hot else 0,
        )
        if fault is Fault.FULL_DISK:
            self._order("fill", leave_bytes=setting.leave_bytes)
        elif fault is Fault.DISCONNECT:
            self._order("disconnect")
        elif fault is Fault.FROZEN:
            self._order("freeze")
        elif fault is Fault.ADBD_KILLED:
            self._order(
                "kill-adbd", restart_after_s=setting.restart_after_s, orphans=setting.orphans
            )

    def ok(self) -> None:
        """Repairs whatever was wrong; what is on the disk stays."""
        self.set(Setting())

    def processes(self) -> list[str]:
        """Command lines of all that runs on the phone beside adbd."""
        found: list[str] = self._order("processes")
        return found

    def end_processes(self) -> None:
        """Kills all that runs on the phone beside adbd."""
        self._order("end-processes")

    def files(self) -> list[str]:
        """Paths of all that lies under ``/data`` and was not there at the start."""
        found: list[str] = self._order("files")
        return [path for path in found if path not in ("/data/local", "/data/local/tmp")]

    def read(self, path: str) -> str:
        """A text file of the phone."""
        text: str = self._order("read", path=path)
        return text

    def close(self) -> None:
        """Ends the phone with all its processes; its files are gone. Safe to call twice."""
        self._control.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._place.close()
        self._complaints.close()

    def __enter__(self) -> Phone:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _order(self, name: str, **values: Any) -> Any:
        return self._tell({"do": name, **values})

    def _tell(self, message: dict[str, Any]) -> Any:
        """Sends one line and gives back what answers it."""
        with self._lock:
            self._control.sendall(json.dumps(message).encode() + b"\n")
            line = b""
            while not line.endswith(b"\n"):
                piece = self._control.recv(1 << 16)
                if not piece:
                    raise RuntimeError(f"the phone {self.serial} ended: {self._said()}")
                line += piece
        answer = json.loads(line)
        if "unavailable" in answer:
            raise RigUnavailableError(answer["unavailable"])
        if "error" in answer:
            raise RuntimeError(f"the phone {self.serial}: {answer['error']}")
        return answer.get("answer")

    def _said(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")[-2000:]


def _settings(model: Model, programs: Programs, port: int) -> dict[str, Any]:
    adbd = (
        "/apex/adbd/ld-linux-x86-64.so.2",
        *("--preload", "/apex/shim.so", "--library-path", "/apex/adbd", "/apex/adbd/adbd"),
    )
    sensors = {}
    for number, (kind, millidegrees) in enumerate(_SENSORS):
        zone = f"/sys/class/thermal/thermal_zone{number}"
        sensors |= {f"{zone}/type": f"{kind}\n", f"{zone}/temp": f"{millidegrees}\n"}
    hot = "/sys/class/thermal/thermal_zone4"
    properties = "".join(f"{k}={v}\n" for k, v in model.properties().items())
    return {
        "owner": os.getpid(),
        "root": str(_mount_point()),
        "uid": SHELL_UID,
        "name": model.serial[:60],
        "data_bytes": model.data_bytes,
        "binds": [
            (str(programs.adbd), "/apex/adbd"),
            (str(programs.qemu), "/apex/qemu"),
            (str(programs.busybox), "/apex/busybox"),
            (str(programs.loader), "/apex/loader"),
            (str(programs.shim), "/apex/shim.so"),
        ],
        "files": {
            **sensors,
            f"{hot}/type": f"{_DSP_SENSOR}\n",
            "/system/build.prop": properties,
            "/sys/class/power_supply/battery/temp": "310\n",
            "/sys/class/power_supply/battery/status": "Charging\n",
            "/etc/passwd": f"shell:x:{SHELL_UID}:{SHELL_UID}::/data/local/tmp:/bin/sh\n",
        },
        "programs": {
            TOOL: _TOOL_TEXT,
            "/system/bin/getprop": _GETPROP_TEXT,
            "/vendor/bin/cut_shell": _CUT_SHELL_TEXT,
        },
        "links": {
            **{f"/system/bin/{name}": "/apex/busybox" for name in _APPLETS.split()},
            "/bin/sh": "/vendor/rig/sh",  # which the fault switch replaces
            "/vendor/rig/sh": "/system/bin/sh",
            f"{hot}/temp": "/vendor/rig/temp",
        },
        "adbd": adbd,
        "environment": {
            "ADBD_PORT": str(port),
            "PATH": "/system/bin:/vendor/bin",
            "HOME": "/data/local/tmp",
            "TMPDIR": "/data/local/tmp",
            "ANDROID_DATA": "/data",
            "ANDROID_ROOT": "/system",
        },
    }


def _mount_point() -> Path:
    place = HOME / "root"
    place.mkdir(exist_ok=True)
    return place
