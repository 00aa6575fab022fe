"""Counts the round trips between a client and a PostgreSQL server, on the wire itself."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_NAME = ".s.PGSQL.5432"
_ASKED_FOR_ANSWERS = (b"Q", b"S")
"""Messages after which a client waits (PostgreSQL manual, 55.7): a simple query, and the end of one
or of several that were sent together."""


class Turns:
    """``count`` is how often the client asked for all answers: its round trips."""

    def __init__(self) -> None:
        self.count = 0


@contextmanager
def counted_turns(server: Path, folder: Path) -> Iterator[Turns]:
    """A socket in ``folder`` (a short path) that leads to the one in ``server``, and counts."""
    turns = Turns()
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as stack:
        listener.bind(str(folder / _NAME))
        listener.listen()

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return  # the end
                there = socket.socket(socket.AF_UNIX)
                there.connect(str(server / _NAME))
                stack.callback(client.close)
                stack.callback(there.close)
                threading.Thread(target=_relay, args=(client, there, turns), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield turns
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _relay(client: socket.socket, server: socket.socket, turns: Turns) -> None:
    unread = b""
    began = False
    try:
        while True:
            ready, _, _ = select.select([client, server], [], [])
            for one in ready:
                data = one.recv(1 << 16)
                if not data:
                    return
                if one is server:
                    client.sendall(data)
                    continue
                unread += data
                # A message is a byte that tells its kind, which the first lacks, and its length.
                while len(unread) >= began + 4:
                    ends = began + int.from_bytes(unread[began : began + 4], "big")
                    if len(unread) < ends:
                        break
                    turns.count += began and unread[:1] in _ASKED_FOR_ANSWERS
                    unread, began = unread[ends:], True
                server.sendall(data)  # counted before there is an answer
    except (OSError, ValueError):
        return  # closed at the end
