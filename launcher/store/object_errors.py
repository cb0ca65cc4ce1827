"""
Errors in handling single objects: the object is skipped, and everything else goes on.

An error is logged once, with its traceback, however often handling the object is retried. It is listed by
``/readyz?verbose`` and counted by the metric ``launcher_object_errors`` until the object is handled without an error
or is gone. One registry serves the process, as the root logger does.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from launcher.store.interface import Key

log = logging.getLogger(__name__)

#: Objects that are remembered; with more, the errors of further ones are only logged.
_MAX_OBJECTS = 1000


@dataclass(frozen=True, slots=True)
class ObjectError:
    """The last error of one component with one object."""

    component: str
    #: The plural name of the kind.
    kind: str
    key: Key
    #: The name of the exception's class.
    reason: str

    @property
    def called(self) -> str:
        """``scheduler: pods default/mnist-worker-0``."""
        namespace, name = self.key
        return f"{self.component}: {self.kind} {namespace and f'{namespace}/'}{name}"


class ObjectErrors:
    """The objects that cannot be handled at present."""

    def __init__(self) -> None:
        self._errors: dict[tuple[str, str, Key], ObjectError] = {}

    @contextmanager
    def handling(self, component: str, kind: str, key: Key) -> Iterator[None]:
        """Inside, *component* handles the object. An exception ends the block, is recorded, and goes no further."""
        try:
            yield
        except Exception as error:
            self.record(component, kind, key, error)
        else:
            self.resolve(component, kind, key)

    def record(self, component: str, kind: str, key: Key, error: Exception) -> bool:
        """Remember the error of an object; True when it was not known already, and so was logged."""
        known, reason = self._errors.get((component, kind, key)), type(error).__name__
        if known is not None and known.reason == reason:
            return False
        if known is not None or len(self._errors) < _MAX_OBJECTS:
            self._errors[component, kind, key] = ObjectError(component, kind, key, reason)
        log.error(
            "object cannot be handled and is skipped",
            extra={"component": component, "kind": kind, "object": key},
            exc_info=error,
        )
        return True

    def resolve(self, component: str, kind: str, key: Key) -> None:
        """The object was handled without an error, or is gone."""
        self._errors.pop((component, kind, key), None)

    def current(self) -> list[ObjectError]:
        """The errors that last, the oldest first."""
        return list(self._errors.values())

    def counts(self) -> Counter[tuple[str, str]]:
        """The number of objects with an error, by component and kind."""
        return Counter((each.component, each.kind) for each in self._errors.values())


#: The registry of this process.
object_errors = ObjectErrors()
