"""The first process of an emulated phone: makes its namespaces and root, keeps adbd, takes orders.

Run as ``python -I -S boot.py CONTROL`` with the standard library only. ``CONTROL`` is the
descriptor of a stream socket, over which come JSON lines with one answer each. The first holds
the settings: ``owner`` (process id whose end ends the phone), ``root`` (an existing folder to
mount on, unseen from outside), ``uid`` (of the shell), ``data_bytes``, ``name``, ``binds``
(``[from, to]`` pairs, read-only), ``files``, ``programs`` (path to text), ``links`` (path to
target), ``adbd`` (command) and ``environment``. Those after it are orders, ``{"do": NAME, ...}``.

When the socket closes or the owner ends, this process ends, and with it everything in its pid
namespace; the mounts go with the mount namespace. No file is left, however the owner died.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_NEW_NAMESPACES = 0x00020000 | 0x20000000 | 0x08000000 | 0x04000000  # mount, pid, IPC, host name
_NEW_USER = 0x10000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _REMOUNT, _BIND, _ALL_BELOW = 1, 2, 4, 32, 4096, 16384
_PRIVATE, _DETACH = 1 << 18, 2
_SET_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES = 1, 38
_SYS_PIVOT_ROOT, _SYS_PIDFD_GETFD = 155, 438
_ROOT_BYTES = _RIG_BYTES = 4 << 20
_READY_S = 300.0
_COOL_C, _HOT_C = 36, 92
_RIG = Path("/vendor/rig")
_SENSOR = _RIG / "temp"
_LIBC = ctypes.CDLL(None, use_errno=True)


def _checked(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    arguments = [text.encode() for text in (source, target, kind)]
    _checked(f"mount {target}", _LIBC.mount(*arguments, flags, options.encode()))


def _receive(control: socket.socket) -> Any:
    """The next line, ``None`` if there will be none."""
    line = b""
    while not line.endswith(b"\n"):
        piece = control.recv(1 << 16)
        if not piece:
            return None
        line += piece
    return json.loads(line)


class PhoneRoot:
    """The file system of a phone, made in a mount namespace of its own."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._root = Path(settings["root"])

    def make(self) -> None:
        """Mounts and fills everything, then makes it the root."""
        _mount("none", "/", "none", _ALL_BELOW | _PRIVATE)
        sizes = f"size={_ROOT_BYTES},mode=755"
        _mount("phone", str(self._root), "tmpfs", _NO_SUID | _NO_DEVICES, sizes)
        for name in ("proc", "dev", "data", "old"):
            (self._root / name).mkdir()
        _mount("proc", str(self._root / "proc"), "proc", 0)
        for place, size in (("/data", self._settings["data_bytes"]), (str(_RIG), _RIG_BYTES)):
            options = f"size={size},mode=755"
            flags = _NO_SUID | _NO_DEVICES
            _mount("tmpfs", str(self._inside(f"{place}/x").parent), "tmpfs", flags, options)
        for name in ("null", "zero", "urandom", "random"):
            self._bind(f"/dev/{name}", f"/dev/{name}")
        for source, target in self._settings["binds"]:
            self._bind(source, target, _READ_ONLY)
        self._fill()
        os.chdir(self._root)
        _checked("pivot_root", _LIBC.syscall(_SYS_PIVOT_ROOT, b".", b"old"))
        os.chdir("/")
        _checked("umount", _LIBC.umount2(b"/old", _DETACH))
        os.rmdir("/old")
        _mount("none", "/", "none", _REMOUNT | _READ_ONLY | _NO_SUID | _NO_DEVICES, sizes)

    def _bind(self, source: str, target: str, more: int = 0) -> None:
        place = self._inside(target)
        if Path(source).is_dir():
            place.mkdir(exist_ok=True)
        else:
            place.touch()
        _mount(source, str(place), "none", _BIND)
        if more:  # what the source's mount forbids stays forbidden, or the kernel refuses
            kept = os.statvfs(source).f_flag & 0xF
            _mount("none", str(place), "none", _BIND | _REMOUNT | kept | more)

    def _fill(self) -> None:
        for path in ("/data/local/tmp", "/vendor/bin", "/system/bin"):
            self._inside(path).mkdir(parents=True, exist_ok=True)
        for path, text in self._settings["files"].items():
            self._inside(path).write_text(text)
        for path, text in self._settings["programs"].items():
            self._inside(path).write_text(text)
            self._inside(path).chmod(0o755)
        for path, target in self._settings["links"].items():
            self._inside(path).symlink_to(target)
        uid = self._settings["uid"]
        for path in ("/data/local/tmp", "/data/local", "/vendor/rig"):
            os.chown(self._inside(path), uid, uid)

    def _inside(self, path: str) -> Path:
        place = self._root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        return place


class Phone:
    """What runs in the namespaces, as their process 1: adbd, and the switches of the test."""

    def __init__(self, settings: dict[str, Any], control: socket.socket) -> None:
        self._settings = settings
        self._control = control
        self._adbd = 0
        self._restart_at: float | None = None
        self._restart_after_s: float | None = None
        self._rest_ms = self._hot_after = 0
        self._orders: dict[str, Callable[[dict[str, Any]], Any]] = {
            "set": self._set,
            "start-adbd": lambda order: self._start_adbd(),
            "kill-adbd": self._kill_adbd,
            "freeze": lambda order: self._signal_all(signal.SIGSTOP),
            "thaw": lambda order: self._signal_all(signal.SIGCONT),
            "disconnect": lambda order: self._disconnect(),
            "fill": self._fill_disk,
            "processes": lambda order: [line for _, line in self._processes()],
            "end-processes": lambda order: self._end_processes(),
            "files": lambda order: sorted(
                os.path.join(folder, name)
                for folder, folders, files in os.walk("/data")  # whatever vanishes meanwhile
                for name in (*folders, *files)
            ),
            "read": lambda order: Path(order["path"]).read_text(),
        }

    def serve(self, owner: int) -> None:
        """Starts adbd, says so, and follows orders until the owner lets go."""
        awakened, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        _SENSOR.write_text(f"{_COOL_C * 1000}\n")
        self._start_adbd()
        self._answer({"ready": True})
        waiting = select.poll()
        for descriptor in (self._control.fileno(), owner, awakened):
            waiting.register(descriptor, select.POLLIN)
        while True:
            events = dict(waiting.poll(self._patience_ms()))
            if awakened in events:
                os.read(awakened, 4096)
                self._reap()
            if owner in events:
                return
            if self._control.fileno() in events and not self._follow():
                return
            if self._restart_at is not None and time.monotonic() >= self._restart_at:
                self._start_adbd()  # what fails here ends the phone, with its reason
            self._feel()

    def _patience_ms(self) -> int | None:
        if self._restart_at is None and not self._hot_after:
            return None
        return 20

    def _follow(self) -> bool:
        order = _receive(self._control)
        if order is None:
            return False
        try:
            self._answer({"answer": self._orders[order["do"]](order)})
        except OSError as error:
            self._answer({"error": str(error)})
        return True

    def _answer(self, answer: dict[str, Any]) -> None:
        self._control.sendall(json.dumps(answer).encode() + b"\n")

    def _start_adbd(self) -> None:
        self._restart_at = None
        if self._adbd:
            return
        ready, told = os.pipe()
        os.set_inheritable(told, True)
        environment = {**self._settings["environment"], "RIG_READY": str(told)}
        command = self._settings["adbd"]
        self._adbd = os.fork()
        if self._adbd == 0:
            self._become_adbd(command, environment)
        os.close(told)
        if not select.select([ready], [], [], _READY_S)[0] or os.read(ready, 1) != b"1":
            said = (_RIG / "adbd.log").read_text(errors="replace")[-500:]
            os.close(ready)
            raise OSError(f"adbd does not listen: {said}")
        os.close(ready)

    def _become_adbd(self, command: list[str], environment: dict[str, str]) -> None:
        try:
            os.setsid()
            log = os.open(_RIG / "adbd.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            nothing = os.open("/dev/null", os.O_RDONLY)
            for descriptor, place in ((nothing, 0), (log, 1), (log, 2)):
                os.dup2(descriptor, place)
            uid = self._settings["uid"]
            if os.getuid() != uid:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            _LIBC.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.execve(command[0], command, environment)  # noqa: S606 - no shell is wanted
        finally:
            os._exit(127)  # only if there was no exec

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._adbd:
                self._adbd = 0
                if self._restart_after_s is not None:
                    self._restart_at = time.monotonic() + self._restart_after_s

    # Switches

    def _set(self, order: dict[str, Any]) -> None:
        """Replaces every switch: what the order does not name is as on a good phone."""
        self._signal_all(signal.SIGCONT)
        for name in ("unplugged", "held", "cut", "history"):
            (_RIG / name).unlink(missing_ok=True)
        Path("/data/ballast").unlink(missing_ok=True)
        os.truncate(_RIG / "adbd.log", 0)
        (_RIG / "next").symlink_to(order["shell"])
        os.replace(_RIG / "next", _RIG / "sh")
        uid = self._settings["uid"]
        for name, text in order.get("files", {}).items():
            aside = _RIG / f".{name}"
            aside.write_text(text)
            os.chown(aside, uid, uid)
            os.replace(aside, _RIG / name)
        _SENSOR.write_text(f"{_COOL_C * 1000}\n")
        self._rest_ms = order.get("rest_ms", 0)
        self._hot_after = order.get("hot_after", 0)
        self._restart_after_s = None
        if not self._adbd:
            self._start_adbd()

    def _kill_adbd(self, order: dict[str, Any]) -> None:
        """As Android's init: what adbd had started dies with it, unless ``orphans`` are wanted."""
        self._restart_after_s = order.get("restart_after_s")
        if not order.get("orphans"):
            self._signal_all(signal.SIGKILL)
        elif self._adbd:
            os.kill(self._adbd, signal.SIGKILL)
        while self._adbd:
            time.sleep(0.001)
            self._reap()
        if not order.get("orphans"):
            self._end_processes()  # those that are still dying

    def _signal_all(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, number)  # all of the namespace but this process

    def _disconnect(self) -> None:
        """Breaks every connection adbd has; it lives on, as does what it started."""
        handle = os.pidfd_open(self._adbd)
        port = int(self._settings["environment"]["ADBD_PORT"])
        for name in os.listdir(f"/proc/{self._adbd}/fd"):
            copied = _LIBC.syscall(_SYS_PIDFD_GETFD, handle, int(name), 0)
            if copied < 0:
                continue
            if not stat.S_ISSOCK(os.fstat(copied).st_mode):
                os.close(copied)
                continue
            with socket.socket(fileno=copied) as connection:
                if connection.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                with contextlib.suppress(OSError):  # one that listens has no peer
                    if connection.getsockname()[1] == port and connection.getpeername():
                        connection.shutdown(socket.SHUT_RDWR)
        os.close(handle)

    def _fill_disk(self, order: dict[str, Any]) -> None:
        with open("/data/ballast", "wb") as ballast:
            while True:
                state = os.statvfs("/data")
                room = state.f_bavail * state.f_frsize - order["leave_bytes"]
                try:
                    if room > 0:
                        os.posix_fallocate(ballast.fileno(), 0, room)
                    return
                except OSError as error:  # a job wrote meanwhile
                    if error.errno != errno.ENOSPC:
                        raise
                    ballast.truncate(0)

    def _feel(self) -> None:
        """The sensor shows what the clock does: hot until there was a rest."""
        if not self._hot_after:
            return
        history = _RIG / "history"
        lines = history.read_text().split() if history.exists() else []
        pairs = (line.partition("=") for line in lines)
        kept = {name: int(value) for name, _, value in pairs if value.isdigit()}
        ended_ms = kept.get("ended_s", 0) * 1000 + kept.get("ended_ms", 0)
        rested = time.monotonic() * 1000 - ended_ms >= self._rest_ms
        hot = kept.get("packets", 0) > self._hot_after and not rested
        _SENSOR.write_text(f"{(_HOT_C if hot else _COOL_C) * 1000}\n")

    def _end_processes(self) -> None:
        while running := self._processes():
            for pid, _ in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)
            self._reap()

    def _processes(self) -> list[tuple[int, str]]:
        """What runs beside this process and adbd: process ids and command lines."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) in (1, self._adbd):
                continue
            try:
                line = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
            if line:  # a zombie has none
                shown = line.replace(b"\0", b" ").decode(errors="replace").strip()
                found.append((int(entry), shown))
        return sorted(found)


def _enter_namespaces(uid: int) -> None:
    """As root without a user namespace: there ``/proc`` can always be mounted."""
    mine, group = os.geteuid(), os.getegid()
    flags = _NEW_NAMESPACES | (_NEW_USER if mine else 0)
    _checked("no namespaces", _LIBC.unshare(flags))
    if mine:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/gid_map").write_text(f"{uid} {group} 1")
        Path("/proc/self/uid_map").write_text(f"{uid} {mine} 1")


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    settings = _receive(control)
    try:
        owner = os.pidfd_open(settings["owner"])
        _enter_namespaces(settings["uid"])
        child = os.fork()
        if child:
            control.close()
            os.waitpid(child, 0)
            return
        _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        socket.sethostname(settings["name"])
        PhoneRoot(settings).make()
    except OSError as error:
        control.sendall(json.dumps({"unavailable": str(error)}).encode() + b"\n")
        return
    Phone(settings, control).serve(owner)


if __name__ == "__main__":
    main()
