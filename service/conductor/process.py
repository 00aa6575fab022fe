"""A conductor as a process: when it starts, when it leaves, and that it outlives no service."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING

from service.admission.request_ids import NamesRequests
from service.conductor.conductor import Conductor
from tuner.errors import UserError

if TYPE_CHECKING:
    from db.sql_store import SqlStore

_PARENT_CHECK_S = 0.05
KILLED = 137
"""Exit status of a conductor whose service was killed, as if it had been killed itself."""
_log = logging.getLogger("hvxtune.conductor")


def conduct(
    *,
    slots: int = 1,
    workers: int | None = None,
    until_eof: bool = False,
) -> None:
    """Runs jobs until SIGTERM, SIGINT or, with ``until_eof``, the end of standard input.

    Then the candidates in flight are finished and their jobs go back to the queue; SIGINT once
    more ends the process at once. With ``until_eof`` the process that started this one
    holds the other end of standard input: it may close it, and if it ends itself, this one does
    at once. What it ran dies with it, and the jobs are taken up again by who comes next.
    """
    from db import open_store

    leave = threading.Event()
    _leave_on_signals(leave)
    if until_eof:
        watch = threading.Thread(
            target=_leave_with_parent, args=(leave, os.getppid()), name="until-eof", daemon=True
        )
        watch.start()
    with open_store() as store:
        _log.info("running jobs of %s, %d at once", store.place.name, slots)
        _look_after_devices(store, leave)
        Conductor(store, slots=slots, most_workers=workers).run(leave)
    _log.info("left")


def _look_after_devices(store: SqlStore, leave: threading.Event) -> None:
    """Checks this machine's devices while no job does, if it has a farm file."""
    from tuner.measure.farm.farm_file import NoFarmError, farm_file, read_farm
    from tuner.measure.farm.health import Caretaker

    try:
        farm = read_farm()
    except NoFarmError:
        return
    except UserError as error:
        _log.error("%s", error)
        return
    _log.info("looking after %d devices of %s", len(farm.members), farm_file())
    caretaker = Caretaker(farm, store.roster(), f"conductor on {socket.gethostname()}")
    threading.Thread(target=caretaker.run, args=(leave,), name="caretaker", daemon=True).start()


def _leave_on_signals(leave: threading.Event) -> None:
    interrupts: list[int] = []

    def ask(number: int, _frame: FrameType | None) -> None:
        # Ctrl-C reaches this process by itself, and its service sends SIGTERM, maybe repeatedly.
        if number == signal.SIGINT:
            interrupts.append(number)
        if len(interrupts) > 1:
            os._exit(KILLED)  # threads wait for compilers; their processes end with this one
        leave.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)


def _leave_with_parent(leave: threading.Event, parent: int) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    leave.set()
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_S)
    os._exit(KILLED)


def log_to_stderr() -> None:
    """Says on standard error what is taken up, given back and done."""
    handler = logging.StreamHandler()
    handler.addFilter(NamesRequests())
    logging.basicConfig(
        level=logging.INFO,
        handlers=[handler],
        format="%(asctime)s %(process)d %(name)s %(levelname)s [%(request_id)s] %(message)s",
    )
