"""One call of the phone's tool: a bundle goes there, results come back, nothing stays.

A shell script surrounds the call. Its output counts only if adb's exit packet came and, as its last
line, the nonce: adbd that dies in the middle of a command looks to adb's own client like a command
that ended well.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import platform
import re
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from tuner.errors import DeviceError
from tuner.measure.android.adb import AdbServer, Push, RefusedError, ShellOutput, printable
from tuner.measure.android.link import PhoneLink
from tuner.measure.device import DeviceSettings, key
from tuner.measure.dsp.queue import (
    CallResult,
    DspState,
    QueuedRun,
    Results,
    bundle_files,
    images_of,
    output_name,
    read_records,
    results_of,
)
from tuner.measure.image import Image

_ANSWER_S = 3.0
"""For small requests; a phone that takes longer is not fit to measure."""
_START_S = 20.0
"""Until the driver's first record: files are summed up, the DSP's process is made."""
_END_S = 10.0
"""From the kill of a run to its end: the DSP's system clears up."""
_WATCH_S = 1.0
"""Most runs end before they are looked at for the first time."""
_CLEAN_S = 20.0
_RESULT_BYTES = 1 << 24
_TOLD_BY_MEMORY = (DspState.FINISHED, DspState.UNSTEADY)


@dataclass(frozen=True, kw_only=True)
class PhoneSettings(DeviceSettings):
    """A phone by its serial number (USB) or its address ``host:port`` (network)."""

    serial: str = key("", "its serial number on USB; else `address`")
    address: str = key("", "`host:port` on the network; else `serial`")
    soc: str = key("", "its SoC, such as sm8350: also a tag")
    tool: str = key("/vendor/bin/run_main_on_hexagon", "the path of the SDK's tool on the phone")
    skel: str = key("", "its DSP library there; empty where the phone finds it by itself")
    folder: str = key(
        "/data/local/tmp/hvxtune",
        "whatever is put onto the phone lies in here, and nothing else may",
    )
    domain: int = key(3, "which DSP: 3 is the CDSP, the one with HVX", 0, 3)
    stack_bytes: int = key(
        1 << 21, "the stack of the thread that runs candidates", 1 << 18, 1 << 26
    )
    heap_bytes: int = key(
        1 << 23,
        "scratch memory a candidate may take; what it used is cleared after it",
        1 << 16,
        1 << 28,
    )
    output_bytes: int = key(
        1 << 24,
        "the most that a call leaves on the phone's disk, half of what must be free",
        1 << 16,
        1 << 32,
    )

    @property
    def disk_bytes(self) -> int:
        """The space that must be free on the phone's disk before a call: for what candidates
        leave, and as much again for what is pushed, most of it the problems' memory images."""
        return 2 * self.output_bytes

    @property
    def implied_tags(self) -> set[str]:
        return {self.name, self.arch, self.soc} - {""}

    @property
    def hardware(self) -> str:
        return f"DSP {self.domain} of the phone {self.serial or self.address.lower()}"

    def conflict(self) -> tuple[str, str] | None:
        if bool(self.serial) != bool(self.address):
            return None
        return (
            f"serial '{self.serial}', address '{self.address}'",
            "one of them: serial for USB, address for the network",
        )


class Caller:
    """Makes calls on one phone; knows which problems lie there already."""

    def __init__(self, settings: PhoneSettings, link: PhoneLink, driver: bytes) -> None:
        self._settings = settings
        self._link = link
        self._driver = driver
        self._there: set[str] = set()
        self._lock = PhoneLock(link, settings.folder)

    def forget(self) -> None:
        """The phone's folders were removed."""
        self._there.clear()

    async def call(self, server: AdbServer, runs: Sequence[QueuedRun], task_s: float) -> CallResult:
        """Runs ``runs`` in one call; each may take ``task_s``.

        Raises ``DeviceError`` if the phone or the way to it failed: then no turn counts. It is
        tried once more if files were damaged on the way, for then nothing was run.
        """
        try:
            return await self._attempt(server, runs, task_s)
        except DamagedError:
            self.forget()
            await self._link.shell(server, f"rm -rf {self._settings.folder}/problems", _ANSWER_S)
            return await self._attempt(server, runs, task_s)

    async def _attempt(
        self, server: AdbServer, runs: Sequence[QueuedRun], task_s: float
    ) -> CallResult:
        nonce = secrets.token_bytes(16)
        took_over = await self._lock.take(server, nonce.hex())
        try:
            if took_over:
                await self._clean(server, nonce.hex())
            return await self._locked(server, runs, nonce, task_s)
        finally:
            with contextlib.suppress(DeviceError):
                await self._lock.release(server, nonce.hex())

    async def clean(self, server: AdbServer, wait_s: float) -> None:
        """Ends what still runs on the phone in our folders, and removes them. ``DeviceError`` if
        another service works there for longer than ``wait_s``."""
        nonce = secrets.token_hex(16)
        await self._lock.take(server, nonce, wait_s)
        try:
            await self._clean(server, nonce)
        finally:
            with contextlib.suppress(DeviceError):
                await self._lock.release(server, nonce)

    async def _clean(self, server: AdbServer, nonce: str) -> None:
        script = clean_script(self._settings, nonce)
        left = said_until_nonce(await self._link.shell(server, script, _CLEAN_S), nonce)
        self.forget()
        if left:
            raise DeviceError(
                f"processes {', '.join(left)[:80]} on the phone do not end",
                next_step="restart the phone",
            )

    async def _locked(
        self, server: AdbServer, runs: Sequence[QueuedRun], nonce: bytes, task_s: float
    ) -> CallResult:
        # New for each attempt: what a push that timed out still writes goes nowhere.
        folder = f"{self._settings.folder}/run-{nonce.hex()[:12]}"
        try:
            images = images_of(runs)
            for image in images:
                await self._place(server, image, folder, nonce.hex())
            bundle = bundle_files(runs, self._problem_path, nonce, self._settings.heap_bytes)
            files = {QUEUE_FILE: bundle.queue, DRIVER_FILE: self._driver, **bundle.objects}
            pushes = [Push(f"{folder}/{name}", content) for name, content in files.items()]
            await self._link.push(server, pushes)
            sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
            sums |= {self._problem_path(image): image.digest for image in images}
            return await self._run(server, runs, folder, nonce, sums, task_s)
        finally:
            # After a fault it may fail as well: cleaning up is what comes next then.
            with contextlib.suppress(DeviceError):
                await self._link.shell(server, f"rm -rf {folder}", _ANSWER_S)

    def _problem_path(self, image: Image) -> str:
        # Half of the digest names it: the driver has room for 127 bytes. All of it is checked.
        return f"{self._settings.folder}/problems/{image.digest[:32]}"

    async def _place(self, server: AdbServer, image: Image, folder: str, nonce: str) -> None:
        """Makes sure that the problem's image lies on the phone, once."""
        if image.digest in self._there:
            return
        path = self._problem_path(image)
        there = await self._link.stat(server, path, _ANSWER_S)
        if there is None or there.size != image.before.nbytes:
            await self._link.push(server, [Push(f"{folder}/image", image.before.tobytes())])
            said = await self._link.shell(
                server,
                f"mkdir -p {self._settings.folder}/problems && mv {folder}/image {path} && "
                f"echo {nonce}",
                _ANSWER_S,
            )
            if said.stdout.strip() != nonce.encode():
                raise DeviceError("the phone did not take a problem's memory image")
        self._there.add(image.digest)

    async def _run(
        self,
        server: AdbServer,
        runs: Sequence[QueuedRun],
        folder: str,
        nonce: bytes,
        sums: Mapping[str, str],
        task_s: float,
    ) -> CallResult:
        whole_s = int(_START_S + task_s * len(runs)) + 1
        outputs = [output_name(number) for number, run in enumerate(runs) if run.verified]
        script = run_script(self._settings, folder, nonce.hex(), sums, outputs, whole_s)
        begin = time.monotonic()
        running = asyncio.ensure_future(self._link.shell(server, script, whole_s + 10.0))
        try:
            stopped = await self._watch(server, running, f"{folder}/", nonce.hex(), task_s)
            done = ended(await _end_of(running, _END_S if stopped else None), nonce.hex())
        finally:
            running.cancel()
        run_s = time.monotonic() - begin
        results = await self._results(server, folder, nonce, len(runs))
        results.require_complete(done.status, len(runs), "the phone's tool")
        found = {
            n: done.sums[o]
            for n, o in enumerate(map(output_name, range(len(runs))))
            if o in done.sums
        }
        return CallResult(
            results=results,
            sums=found,
            wrong=await self._wrong(server, runs, folder, results, found),
            status=done.status,
            said=done.said,
            timed_out=stopped or _ran_out(done, run_s, whole_s),
            temperature_c=done.temperature_c,
            run_s=run_s,
        )

    async def _results(self, server: AdbServer, folder: str, nonce: bytes, count: int) -> Results:
        try:
            data = await self._link.pull(server, f"{folder}/{RESULTS_FILE}", _RESULT_BYTES)
        except RefusedError:  # no such file
            return Results()
        return results_of(read_records(data, nonce), count)

    async def _wrong(
        self,
        server: AdbServer,
        runs: Sequence[QueuedRun],
        folder: str,
        results: Results,
        sums: Mapping[int, str],
    ) -> dict[int, bytes]:
        """Memory of candidates that differs, to say where, and to be sure that it does."""
        wrong = {}
        for record in results.ended:
            image = runs[record.entry].image
            got = sums.get(record.entry)
            if record.state in _TOLD_BY_MEMORY and got is not None and got != image.expected_digest:
                path = f"{folder}/{output_name(record.entry)}"
                content = await self._link.pull(server, path, image.case_bytes)
                if hashlib.sha256(content).hexdigest() != got:
                    raise DeviceError("a file changed on its way from the phone")
                wrong[record.entry] = content
        return wrong

    async def _watch(
        self,
        server: AdbServer,
        running: asyncio.Task[ShellOutput],
        folder: str,
        nonce: str,
        task_s: float,
    ) -> bool:
        """Waits for the run; ends it on the phone if no record comes for too long. True then."""
        size, since, allowed = 0, time.monotonic(), _START_S + task_s
        while not (await asyncio.wait([running], timeout=_WATCH_S))[0]:
            await self._lock.renew(server, nonce)
            there = await self._link.stat(server, folder + RESULTS_FILE, _ANSWER_S)
            if there is not None and there.size != size:
                size, since, allowed = there.size, time.monotonic(), task_s
            elif time.monotonic() - since > allowed:
                await self._link.shell(server, f"kill -KILL $(cat {folder}{PID_FILE})", _ANSWER_S)
                return True
        return False


async def _end_of(running: asyncio.Task[ShellOutput], within_s: float | None) -> ShellOutput:
    try:
        return await asyncio.wait_for(running, within_s)
    except TimeoutError:
        raise DeviceError(
            "what was killed on the phone does not end", next_step="restart the phone"
        ) from None


def _ran_out(done: Ended, run_s: float, whole_s: float) -> bool:
    """The script's own time-out struck: it kills (status 137), as others may."""
    return done.status == 137 and run_s >= whole_s - 1


LOCK_FILE = "lock"
"""In our folder: see :mod:`tuner.measure.android.call`."""
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
    """The end of the script. ``said`` is the end of the tool's output where it failed;
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
    the script did not reach its end.
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

    It reads ``/proc`` and not a list of ``ps``, whose options differ. The pattern does not match
    its own text, or the script would find itself.
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


LEASE_S = 20
"""How long the phone is another's after a service died whose machine is not this one."""
RENEW_S = 5.0
WAIT_S = 60.0
"""Calls take turns: how long one waits for another's to end."""
_LOCK_ANSWER_S = 10.0
_TAKE_OVER_S = 2
"""Far more than it takes: after this, a process that was taking it over has died."""
_LOOKS = 20
"""A tenth of a second apart, in one command."""
_held: set[str] = set()
"""Nonces of this process. One of its own that is not here was left by a call that broke off."""


class PhoneLock:
    """The lock on the phone behind ``link``, in ``folder`` there: of several services that drive a
    phone, one at a time works with it.

    It lies on the phone itself, because services may know nothing else of each other: a symbolic
    link, which is made atomically and whose target, a text and not a path, holds the nonce of the
    call, when it expires by the phone's own clock, and its holder. It is renewed while a call goes
    on. One that expired, or whose process is seen to have ended, is taken over, by one service at a
    time, which checks again that it still is the one that was read. A call whose lock was taken
    over counts for nothing: its script looks at the nonce when it begins and when it ends.

    The holder of the lock may clean up everything: what still runs then is nobody's.
    """

    def __init__(self, link: PhoneLink, folder: str) -> None:
        self._link = link
        self._folder = folder
        self._renewed = 0.0

    async def take(self, server: AdbServer, nonce: str, wait_s: float = WAIT_S) -> bool:
        """Takes the lock for the call with ``nonce``; whether another's was taken over with it.

        Raises ``DeviceError``, which names the holder, if it is held for longer than ``wait_s``.
        """
        deadline, gone = time.monotonic() + wait_s, ""
        while True:
            script = take_script(self._folder, nonce, gone)
            said = said_until_nonce(await self._link.shell(server, script, _LOCK_ANSWER_S), nonce)
            word, _, holder = said[-1].partition(" ") if said else ("", "", "")
            if word in ("held", "took"):
                _held.add(nonce)
                self._renewed = time.monotonic()
                return word == "took"
            if word != "busy":
                raise DeviceError(f"the phone takes no lock in {self._folder}: {said[-1:]}")
            gone = holder.partition(" ")[0] if _is_gone(holder) else ""
            if not gone and time.monotonic() >= deadline:
                raise DeviceError(
                    f"the phone is in use by {_for_people(holder)}",
                    next_step="wait until it is done, or take the phone out of one of the farms",
                    attempts=0,
                )

    async def renew(self, server: AdbServer, nonce: str) -> None:
        """Holds it for longer, if it is time to."""
        if time.monotonic() - self._renewed > RENEW_S:
            self._renewed = time.monotonic()
            await self._link.shell(server, renew_script(self._folder, nonce), _LOCK_ANSWER_S)

    async def release(self, server: AdbServer, nonce: str) -> None:
        """Lets go of it, if it still is this call's."""
        _held.discard(nonce)
        await self._link.shell(server, release_script(self._folder, nonce), _LOCK_ANSWER_S)


def take_script(folder: str, nonce: str, gone: str) -> str:
    """Prints ``held``, ``took`` or ``busy`` and what the lock says. The lock with nonce ``gone`` is
    taken over, whatever its time."""
    return f"""\
l={shlex.quote(f"{folder}/{LOCK_FILE}")}; n=0; word=held
mkdir -p {shlex.quote(folder)}
while [ $n -lt {_LOOKS} ]; do
now=$(date +%s)
if ln -s "{_text(nonce)}" $l 2>/dev/null; then echo $word; echo @@END {nonce}; exit 0; fi
was=$(readlink $l); set -- $was
if [ -n "$1" ] && {{ [ "$1" = "{gone}" ] || [ "$2" -lt $now ]; }}; then
if ln -s $((now+{_TAKE_OVER_S})) $l-over 2>/dev/null; then
if [ "$(readlink $l)" = "$was" ]; then rm -f $l; word=took; fi
rm -f $l-over; continue
elif [ "$(readlink $l-over || echo $now)" -lt $now ]; then rm -f $l-over; fi
fi
n=$((n+1)); sleep 0.1
done
echo "busy $was"; echo @@END {nonce}"""


def renew_script(folder: str, nonce: str) -> str:
    """Puts a later time in its place."""
    lock = shlex.quote(f"{folder}/{LOCK_FILE}")
    return (
        f'l={lock}; now=$(date +%s); case "$(readlink $l)" in "{nonce} "*) '
        f'ln -s "{_text(nonce)}" $l-{nonce} && mv -f $l-{nonce} $l;; esac'
    )


def release_script(folder: str, nonce: str) -> str:
    lock = shlex.quote(f"{folder}/{LOCK_FILE}")
    return f'l={lock}; case "$(readlink $l)" in "{nonce} "*) rm -f $l;; esac'


def _text(nonce: str) -> str:
    return f"{nonce} $((now+{LEASE_S})) {_owner()}"


@cache
def _machine() -> str:
    """This machine and, of it, the processes that are seen from here."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    return boot + re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))


def _owner() -> str:
    host = re.sub(r"[^A-Za-z0-9.-]", "-", platform.node())[:60]
    return f"{host}:{os.getpid()}:{int(psutil.Process().create_time())}:{_machine()}"


def _is_gone(holder: str) -> bool:
    """Whether a lock was left by a process of this machine that has ended, or by a call of this
    process that has."""
    nonce, _, owner = holder.partition(" ")
    found = re.fullmatch(r"\d+ [^:]*:(\d{1,9}):(\d{1,12}):(\w+)", owner)
    if found is None or found[3] != _machine():
        return False
    if owner.partition(" ")[2] == _owner():
        return nonce not in _held
    try:
        return int(psutil.Process(int(found[1])).create_time()) != int(found[2])
    except psutil.NoSuchProcess:
        return True


def _for_people(holder: str) -> str:
    found = re.fullmatch(r"\w+ \d+ ([^:]*):(\d+):.*", holder)
    return f"process {found[2]} on {found[1]}" if found else "another service"
