"""A cache of answers in front of the best-query, and its way past the framework.

:meth:`db.sql_store.SqlStore.best_row` decides which schedule is best. On SQLite the first row that
fits is read here, on the event loop; it answers if it is valid, and all else is left to the route.
An answer is a function of the query, of the row it is made from, and of the code of this process.
A kept one is given again at once while nothing at all was committed to the database, and after a
commit only if its row, read again, is equal: it can never be stale.

FastAPI matches a path against all routes, reads and checks a query by its schema, resolves
dependencies and serializes an answer by its model. That takes longer than finding the schedule
does. So :class:`FastRoute` answers plain queries, behind the same gate, and leaves everything else
(errors, misses, queries written in unusual ways, tokens that lack the scope) to the route, which
documents them all.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from db.schedules.serving import FirstRows, ServingRow, Values, values_of
from db.sql_store import SqlStore
from service.auth import Scope as TokenScope
from service.auth.caller import caller_of
from service.schedules.asked import read_plain
from service.schedules.forms import exact_text
from tuner.errors import HvxtuneError

_KEPT_ANSWERS = 16_384
"""At about 4 kB each: 64 MB."""


class Answer(NamedTuple):
    """A whole answer. ``etag`` changes whenever the body does."""

    body: bytes
    etag: str

    def headers(self, *, unchanged: bool = False) -> list[tuple[bytes, bytes]]:
        """To be sent with it; ``unchanged`` if not the body, but that it is the same is sent."""
        always = [
            (b"etag", self.etag.encode()),
            # Another schedule may be the best in a moment: ask each time, and get a 304.
            (b"cache-control", b"private, no-cache"),
        ]
        if unchanged:
            return always
        length = b"%d" % len(self.body)
        return [(b"content-type", b"application/json"), (b"content-length", length), *always]


_Kept = tuple[int, Values, tuple[Any, ...], bytes, str]
"""A version of the database no newer than the row, the values of the lookup, the row it gave, and
the answer.

Plain tuples of plain values, all the way down: such the garbage collector looks at once and never
again. Instances of classes it visits each time, and with tens of thousands of them, that takes as
long as a hundred requests.
"""


class Answers:
    """Keeps answers. ``app.state.answers``."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.reads = FirstRows(store)
        self._kept: OrderedDict[tuple[str, bytes], _Kept] = OrderedDict()
        self._version = -1
        """Of the database, at the last look: no row that is read from then on is older."""

    def plain(self, query: bytes, owner: str) -> Answer | None:
        """The exact answer to a plain query string, within microseconds; ``None`` where that
        takes more (an error, a miss, a fault to note, another database than SQLite, artifacts that
        have to be asked for elsewhere). ``owner`` is
        who asks, and may be given their own private schedules.

        Only from the thread of the event loop.
        """
        if not (self.reads.in_process and self._store.files.storage.at_hand):
            return None
        asked_by = (owner, query)
        kept = self._kept.get(asked_by)
        if kept is None:
            return self._found(asked_by)
        then, values, row, body, etag = kept
        # Before the row is read: a commit in between is then noticed by the next look.
        self._version = self.reads.version()
        if then == self._version:
            self._kept.move_to_end(asked_by)
            return Answer(body, etag)
        del self._kept[asked_by]
        if self.reads.first_now(values) == row:
            self._keep(asked_by, (self._version, values, row, body, etag))
            return Answer(body, etag)
        return self._found(asked_by)

    def _found(self, asked_by: tuple[str, bytes]) -> Answer | None:
        owner, query = asked_by
        asked = read_plain(query, owner)
        if asked is None:
            return None
        values = values_of(asked.lookup)
        found = self.reads.first_now(values)
        if found is None:
            return None
        row = ServingRow._make(found)
        problem = asked.lookup.stored_under(row.contract)
        if self._store.validator.fault(row, problem, kernel=asked.kernel):
            return None
        answer = answer_of(exact_text(row, asked))
        self._keep(asked_by, (self._version, values, found, *answer))
        return answer

    def _keep(self, asked_by: tuple[str, bytes], kept: _Kept) -> None:
        self._kept[asked_by] = kept
        if len(self._kept) > _KEPT_ANSWERS:
            self._kept.popitem(last=False)


def answer_of(text: str) -> Answer:
    """The answer with the JSON ``text`` as its body."""
    body = text.encode()
    return Answer(body, f'"{blake2b(body, digest_size=16).hexdigest()}"')


class FastRoute:
    """Stands before the routes and answers for one of them. Plain ASGI; within the guard."""

    path: ClassVar[str] = "/v1/schedules/best"
    """As of a route: what its requests are counted under."""

    def __init__(self, app: ASGIApp, answers: Answers) -> None:
        self._app = app
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == self.path and scope["method"] == "GET":
            answer = self._at_hand(scope)
            if answer is not None:
                scope["route"] = self
                await _send(answer, scope, send)
                return
        await self._app(scope, receive, send)

    def _at_hand(self, scope: Scope) -> Answer | None:
        caller = caller_of(scope)
        if caller is None or not caller.may(TokenScope.READ):
            return None
        try:
            return self._answers.plain(scope["query_string"], caller.owner)
        except HvxtuneError:  # the route meets it again, and says so
            return None


async def _send(answer: Answer, scope: Scope, send: Send) -> None:
    unchanged = is_known(answer.etag, scope)
    head = {
        "type": "http.response.start",
        "status": 304 if unchanged else 200,
        "headers": answer.headers(unchanged=unchanged),
    }
    await send(head)
    await send({"type": "http.response.body", "body": b"" if unchanged else answer.body})


def is_known(etag: str, scope: Scope) -> bool:
    """Whether the client said, by ``If-None-Match``, that it has the answer with ``etag``."""
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            given = [tag.strip().removeprefix("W/") for tag in value.decode("latin-1").split(",")]
            return etag in given or given == ["*"]
    return False
