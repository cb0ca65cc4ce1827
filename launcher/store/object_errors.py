"""
Errors in handling single objects: the object is skipped, others are handled.

An error is logged once, with its traceback, however often handling the object is retried. It is listed by
``/readyz?verbose`` and counted by the metric ``launcher_object_errors`` until the object is handled without an error
or is deleted. There is one registry per process, as for the root logger.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from launcher.store.interface import Key

log = logging.getLogger(__name__)

#: Limit of recorded objects. Errors of further objects are only logged.
_MAX_OBJECTS = 1000


@dataclass(frozen=True, slots=True)
class ObjectError:
    """The last error of a component with an object."""

    component: str
    #: Plural name of the kind.
    kind: str
    key: Key
    #: Class name of the exception.
    reason: str

    @property
    def description(self) -> str:
        """``scheduler: pods default/mnist-worker-0``."""
        namespace, name = self.key
        return f"{self.component}: {self.kind} {namespace and f'{namespace}/'}{name}"


class ObjectErrors:
    """The objects that currently cannot be handled."""

    def __init__(self) -> None:
        self._errors: dict[tuple[str, str, Key], ObjectError] = {}

    @contextmanager
    def handling(self, component: str, kind: str, key: Key) -> Iterator[None]:
        """Context manager: records an exception of the block and suppresses it."""
        try:
            yield
        except Exception as error:
            self.record(component, kind, key, error)
        else:
            self.resolve(component, kind, key)

    def record(self, component: str, kind: str, key: Key, error: Exception) -> bool:
        """Records the error of an object. Returns whether it was new and therefore logged."""
        current, reason = self._errors.get((component, kind, key)), type(error).__name__
        if current is not None and current.reason == reason:
            return False
        if current is not None or len(self._errors) < _MAX_OBJECTS:
            self._errors[component, kind, key] = ObjectError(component, kind, key, reason)
        log.error(
            "object cannot be handled and is skipped",
            extra={"component": component, "kind": kind, "object": key},
            exc_info=error,
        )
        return True

    def resolve(self, component: str, kind: str, key: Key) -> None:
        """Removes the error after the object was handled or deleted."""
        self._errors.pop((component, kind, key), None)

    def current(self) -> list[ObjectError]:
        """Returns the current errors, the oldest first."""
        return list(self._errors.values())

    def counts(self) -> Counter[tuple[str, str]]:
        """Returns the number of objects with an error, by component and kind."""
        return Counter((entry.component, entry.kind) for entry in self._errors.values())


#: The registry of this process.
object_errors = ObjectErrors()
