"""The lock on a phone: of several services that drive one, a single one works with it at a time.

It lies on the phone itself, because services may know nothing else of each other: a symbolic link
in our folder there, which is made atomically and whose target, a text that is no path, says it
all: the nonce of the call, when it expires by the phone's own clock, and whose it is. It is renewed
while a call goes on. One that expired, or whose process is seen to be gone, is taken over, by one
at a time, who looks again whether it still is the one that was read. A call whose lock was taken
over counts for nothing: its script looks at the nonce when it begins and when it ends.

Whoever holds the lock may clean up everything: what still runs then is nobody's.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import time
from functools import cache
from pathlib import Path

import psutil

from tuner.errors import DeviceError
from tuner.measure.android.adb import AdbServer
from tuner.measure.android.link import PhoneLink
from tuner.measure.android.script import LOCK_FILE, said_until_nonce

LEASE_S = 20
"""How long the phone is another's after a service died whose machine is not this one."""
RENEW_S = 5.0
WAIT_S = 60.0
"""Calls take turns: so long one waits for another's to end."""
_ANSWER_S = 10.0
_TAKE_OVER_S = 2
"""Far more than it takes; then whoever was at it has ended in the middle."""
_LOOKS = 20
"""A tenth of a second apart, in one command."""
_held: set[str] = set()
"""Nonces of this process. One of its own that is not here was left by a call that broke off."""


class PhoneLock:
    """The lock on the phone behind ``link``, in ``folder`` there."""

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
            said = said_until_nonce(await self._link.shell(server, script, _ANSWER_S), nonce)
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
            await self._link.shell(server, renew_script(self._folder, nonce), _ANSWER_S)

    async def release(self, server: AdbServer, nonce: str) -> None:
        """Lets go of it, if it still is this call's."""
        _held.discard(nonce)
        await self._link.shell(server, release_script(self._folder, nonce), _ANSWER_S)


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
