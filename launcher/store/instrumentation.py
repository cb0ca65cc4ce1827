"""Measurements of work queues, informers and API server sessions, for the metrics of the process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol
from weakref import WeakSet


class RuntimeObserver(Protocol):
    """Receives measurements."""

    def reconcile_completed(self, controller: str, seconds: float) -> None:
        """A reconcile of that controller took so long."""

    def reconcile_retried(self, controller: str, reason: str) -> None:
        """A reconcile of that controller failed for that *reason* and is repeated."""

    def watch_restarted(self, resource: str, reason: str) -> None:
        """The watch of an informer ended for that *reason* and is started again."""

    def request_completed(self, verb: str, seconds: float) -> None:
        """A request to the API server had a response, or failed, after so long."""


class NamedQueue(Protocol):
    """A work queue."""

    name: str

    def __len__(self) -> int: ...

    @property
    def oldest_seconds(self) -> float:
        """How long the next key has waited; 0 if the queue is empty."""


class QueueBacklog(NamedTuple):
    """The keys that wait in the queues of one name."""

    depth: int
    oldest_seconds: float


#: The reason of a retry after an error that no code raises on purpose.
UNEXPECTED = "Unexpected"

_observers: list[RuntimeObserver] = []
_queues: WeakSet[NamedQueue] = WeakSet()


@contextmanager
def observe_runtime(observer: RuntimeObserver) -> Iterator[None]:
    """Sends all measurements to *observer* inside the block."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def register_queue(queue: NamedQueue) -> None:
    """Includes *queue* in ``queue_depths`` as long as it exists."""
    _queues.add(queue)


def queue_depths() -> dict[str, int]:
    """Returns the number of queued keys by queue name."""
    depths: dict[str, int] = {}
    for queue in _queues:
        depths[queue.name] = depths.get(queue.name, 0) + len(queue)
    return depths


def queue_backlog(name: str) -> QueueBacklog:
    """Returns the keys that wait in the queues of that name."""
    queues = [queue for queue in _queues if queue.name == name]
    return QueueBacklog(sum(map(len, queues)), max((queue.oldest_seconds for queue in queues), default=0.0))


def reconcile_completed(controller: str, seconds: float) -> None:
    """Reports a completed reconcile."""
    for observer in _observers:
        observer.reconcile_completed(controller, seconds)


def reconcile_retried(controller: str, reason: str) -> None:
    """Reports a failed reconcile that is repeated."""
    for observer in _observers:
        observer.reconcile_retried(controller, reason)


def watch_restarted(resource: str, reason: str) -> None:
    """Reports a restarted watch."""
    for observer in _observers:
        observer.watch_restarted(resource, reason)


def request_completed(verb: str, seconds: float) -> None:
    """Reports a request to the API server."""
    for observer in _observers:
        observer.request_completed(verb, seconds)
