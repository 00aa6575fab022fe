"""A service, for code that waits for its answers: over HTTP (:class:`service.client.Client`), or in
this process (:class:`service.here.Here`)."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from service.client.answers import Failure, Json, Pause, Reply, Request, Steps
from service.client.operations import Operations
from service.client.persistence import Event, EventStream

if TYPE_CHECKING:
    from service.client.persistence import Received

P = ParamSpec("P")
T = TypeVar("T")
Operation = Callable[Concatenate[Operations, P], Steps[T]]


def blocking(operation: Operation[P, T]) -> Callable[Concatenate[BlockingClient, P], T]:
    """``operation`` as a method of :class:`BlockingClient`."""

    @wraps(operation)
    def method(self: BlockingClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(operation(self.operations, *args, **kwargs))

    return method


class BlockingClient(ABC):
    """All that a service can be asked. Use from one thread at a time."""

    operations: Operations
    server: str
    """Its address, or the name of the database that is asked in its place."""

    ready = blocking(Operations.ready)
    kernels = blocking(Operations.kernels)
    targets = blocking(Operations.targets)
    conductors = blocking(Operations.conductors)
    devices = blocking(Operations.devices)
    submit = blocking(Operations.submit)
    submit_network = blocking(Operations.submit_network)
    job = blocking(Operations.job)
    cancel = blocking(Operations.cancel)
    pause = blocking(Operations.pause)
    resume = blocking(Operations.resume)
    annotate = blocking(Operations.annotate)
    network = blocking(Operations.network)
    network_plan = blocking(Operations.network_plan)
    give_network_plan = blocking(Operations.give_network_plan)
    network_bundle = blocking(Operations.network_bundle)
    cancel_network = blocking(Operations.cancel_network)
    pause_network = blocking(Operations.pause_network)
    resume_network = blocking(Operations.resume_network)
    best = blocking(Operations.best)
    best_batch = blocking(Operations.best_batch)
    schedule = blocking(Operations.schedule)
    doubt = blocking(Operations.doubt)
    file = blocking(Operations.file)
    export = blocking(Operations.export)
    import_ = blocking(Operations.import_)
    upload_pipeline = blocking(Operations.upload_pipeline)
    register_package = blocking(Operations.register_package)
    remove_package = blocking(Operations.remove_package)

    @abstractmethod
    def close(self) -> None:
        """Frees what it holds."""

    @abstractmethod
    def _send(self, request: Request) -> Reply | Failure:
        """The reply to ``request``."""

    @abstractmethod
    def _received(self, request: Request) -> Iterator[Received | Reply | Failure]:
        """The events of the stream that ``request`` opens, and last what it came to."""

    @abstractmethod
    def _tell(self, pause: Pause) -> None:
        """What is waited for."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def jobs(self, **filters: Any) -> Iterator[Json]:
        """All jobs that ``filters`` (``state``, ``kernel``, ``user``, ...) let through, newest
        first; pages are asked for as they are needed."""
        return self._items(lambda cursor: self.operations.jobs_page(cursor, filters))

    def trials(self, job: str, outcome: str | None = None) -> Iterator[Json]:
        """The trials of a job, by number."""
        return self._items(lambda cursor: self.operations.trials_page(job, cursor, outcome))

    def schedules(self, **filters: Any) -> Iterator[Json]:
        """All stored schedules that ``filters`` (``kernel``, ``target``, ...) let through."""
        return self._items(lambda cursor: self.operations.schedules_page(cursor, filters))

    def pipelines(self) -> Iterator[Json]:
        """All uploaded pipelines that the token lets see, newest first."""
        return self._items(self.operations.pipelines_page)

    def packages(self) -> Iterator[Json]:
        """All packages, the one registered last first."""
        return self._items(self.operations.packages_page)

    def events(self, job: str, after: int = 0) -> Iterator[Event]:
        """The events of a job after event ``after`` to its end, each of them once.

        Lives through broken connections and restarts of the service.
        """
        stream = EventStream(job, after, self.server, self.operations.patience_s)
        while not stream.ended:
            came_to: Reply | Failure = Failure("")
            for received in self._received(stream.request()):
                if isinstance(received, Reply | Failure):
                    came_to = received
                elif (event := stream.read(received)) is not None:
                    yield event
            if not stream.ended:
                self._sleep(stream.pause(came_to))

    def wait(self, job: str, on_event: Callable[[Event], None] | None = None) -> Json:
        """Waits until a job has ended and returns it; ``on_event`` sees what happens to it."""
        for event in self.events(job):
            if on_event is not None:
                on_event(event)
        return self.job(job)

    def _items(self, page: Callable[[str | None], Steps[Json]]) -> Iterator[Json]:
        cursor: str | None = None
        while True:
            found = self._run(page(cursor))
            yield from found["items"]
            cursor = found.get("next_cursor")
            if cursor is None:
                return

    def _sleep(self, pause: Pause) -> None:
        self._tell(pause)
        time.sleep(pause.seconds)

    def _run(self, steps: Steps[T]) -> T:
        answer: Reply | Failure | None = None
        while True:
            try:
                wish = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = None
            if isinstance(wish, Pause):
                self._sleep(wish)
            else:
                answer = self._send(wish)
