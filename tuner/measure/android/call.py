"""One call of the phone's tool: a bundle goes there, results come back, nothing stays."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections.abc import Mapping, Sequence

from tuner.errors import DeviceError
from tuner.measure.android.adb import AdbServer, Push, RefusedError, ShellOutput
from tuner.measure.android.link import PhoneLink
from tuner.measure.android.lock import PhoneLock
from tuner.measure.android.script import (
    DRIVER_FILE,
    PID_FILE,
    QUEUE_FILE,
    RESULTS_FILE,
    DamagedError,
    Ended,
    clean_script,
    ended,
    run_script,
    said_until_nonce,
)
from tuner.measure.dsp.bundle_files import bundle_files, images_of, output_name
from tuner.measure.dsp.problem_image import ProblemImage
from tuner.measure.dsp.results import DspState, Results, read_records, results_of
from tuner.measure.dsp.turn import Called, Turn
from tuner.measure.farm.settings import PhoneSettings

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

    async def call(self, server: AdbServer, turns: Sequence[Turn], task_s: float) -> Called:
        """Runs ``turns`` in one call; each may take ``task_s``.

        Raises ``DeviceError`` if the phone or the way to it failed: then no turn counts. It is
        tried once more if files were damaged on the way, for then nothing was run.
        """
        try:
            return await self._attempt(server, turns, task_s)
        except DamagedError:
            self.forget()
            await self._link.shell(server, f"rm -rf {self._settings.folder}/problems", _ANSWER_S)
            return await self._attempt(server, turns, task_s)

    async def _attempt(self, server: AdbServer, turns: Sequence[Turn], task_s: float) -> Called:
        nonce = secrets.token_bytes(16)
        took_over = await self._lock.take(server, nonce.hex())
        try:
            if took_over:
                await self._clean(server, nonce.hex())
            return await self._locked(server, turns, nonce, task_s)
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
        self, server: AdbServer, turns: Sequence[Turn], nonce: bytes, task_s: float
    ) -> Called:
        # New for each attempt: what a push that timed out still writes goes nowhere.
        folder = f"{self._settings.folder}/run-{nonce.hex()[:12]}"
        try:
            images = images_of(turns)
            for image in images:
                await self._place(server, image, folder, nonce.hex())
            bundle = bundle_files(turns, self._problem_path, nonce, self._settings.heap_bytes)
            files = {QUEUE_FILE: bundle.queue, DRIVER_FILE: self._driver, **bundle.objects}
            pushes = [Push(f"{folder}/{name}", content) for name, content in files.items()]
            await self._link.push(server, pushes)
            sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
            sums |= {self._problem_path(image): image.digest for image in images}
            return await self._run(server, turns, folder, nonce, sums, task_s)
        finally:
            # After a fault it may fail as well: cleaning up is what comes next then.
            with contextlib.suppress(DeviceError):
                await self._link.shell(server, f"rm -rf {folder}", _ANSWER_S)

    def _problem_path(self, image: ProblemImage) -> str:
        # Half of the digest names it: the driver has room for 127 bytes. All of it is checked.
        return f"{self._settings.folder}/problems/{image.digest[:32]}"

    async def _place(self, server: AdbServer, image: ProblemImage, folder: str, nonce: str) -> None:
        """Makes sure that the problem's image lies on the phone, once."""
        if image.digest in self._there:
            return
        path = self._problem_path(image)
        there = await self._link.stat(server, path, _ANSWER_S)
        if there is None or there.size != len(image.content):
            await self._link.push(server, [Push(f"{folder}/image", image.content)])
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
        turns: Sequence[Turn],
        folder: str,
        nonce: bytes,
        sums: Mapping[str, str],
        task_s: float,
    ) -> Called:
        whole_s = int(_START_S + task_s * len(turns)) + 1
        outputs = [output_name(number) for number, turn in enumerate(turns) if turn.verified]
        script = run_script(self._settings, folder, nonce.hex(), sums, outputs, whole_s)
        begin = time.monotonic()
        running = asyncio.ensure_future(self._link.shell(server, script, whole_s + 10.0))
        try:
            stopped = await self._watch(server, running, f"{folder}/", nonce.hex(), task_s)
            done = ended(await _end_of(running, _END_S if stopped else None), nonce.hex())
        finally:
            running.cancel()
        run_s = time.monotonic() - begin
        results = await self._results(server, folder, nonce, len(turns))
        if done.status == 0 and not results.complete and results.gave_up is None:
            raise DeviceError(
                "the phone's tool says that all went well, but results are missing "
                f"({len(results.ended)} of {len(turns)})"
            )
        found = {
            n: done.sums[o]
            for n, o in enumerate(map(output_name, range(len(turns))))
            if o in done.sums
        }
        return Called(
            results=results,
            sums=found,
            wrong=await self._wrong(server, turns, folder, results, found),
            status=done.status,
            said=done.said,
            timed_out=stopped or _ran_out(done, run_s, whole_s),
            temperature_c=done.temperature_c,
            run_s=run_s,
        )

    async def _results(self, server: AdbServer, folder: str, nonce: bytes, count: int) -> Results:
        try:
            data = await self._link.pull(server, f"{folder}/{RESULTS_FILE}", _RESULT_BYTES)
        except RefusedError:  # there is none
            return Results()
        return results_of(read_records(data, nonce), count)

    async def _wrong(
        self,
        server: AdbServer,
        turns: Sequence[Turn],
        folder: str,
        results: Results,
        sums: Mapping[int, str],
    ) -> dict[int, bytes]:
        """What the candidates left that differs; to say where, and to be sure that it does."""
        wrong = {}
        for record in results.ended:
            image = turns[record.entry].image
            got = sums.get(record.entry)
            if record.state in _TOLD_BY_MEMORY and got is not None and got != image.expected:
                path = f"{folder}/{output_name(record.entry)}"
                content = await self._link.pull(server, path, image.kept_bytes)
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
