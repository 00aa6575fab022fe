"""A conductor as a process: its start, its end by signals, and its end with its service."""

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

from service.conductor.conductor import Conductor
from service.conductor.fitness import Fitness
from service.settled_memory import settle_memory
from tuner.errors import UserError

if TYPE_CHECKING:
    from db.sql_store import SqlStore

_PARENT_CHECK_S = 0.05
KILLED = 137
"""Exit status of a conductor whose service was killed: that of a killed process."""
_log = logging.getLogger("hvxtune.conductor")


def conduct(
    *,
    slots: int = 1,
    workers: int | None = None,
    until_eof: bool = False,
) -> None:
    """Runs jobs until SIGTERM, SIGINT or, with ``until_eof``, the end of standard input.

    Then the candidates in flight are finished and their jobs go back to the queue; SIGINT once
    more ends the process at once. With ``until_eof`` the process that started this one holds
    the other end of standard input; when it closes it, this one finishes and ends, and when it ends
    itself, this one does at once, with all that it runs. Another conductor takes up the jobs.
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
        fitness = Fitness(store, slots=slots)
        fitness.check()
        threading.Thread(target=fitness.run, args=(leave,), name="fitness", daemon=True).start()
        _look_after_devices(store, leave)
        settle_memory()
        Conductor(store, slots=slots, most_workers=workers, fitness=fitness).run(leave)
        fitness.leave()
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
