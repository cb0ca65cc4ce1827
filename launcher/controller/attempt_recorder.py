"""Stores completed attempts of Frameworks as FrameworkAttempt objects, and deletes the oldest ones."""

import logging
from contextlib import suppress

from launcher.core.errors import AlreadyExists, Conflict, NotFound, RequestError, Unavailable
from launcher.core.framework import Framework
from launcher.core.names import KIND, attempt_record_name
from launcher.core.owner_references import controller_of
from launcher.store.interface import FRAMEWORK_ATTEMPTS, DeleteOptions, Object, Store

log = logging.getLogger(__name__)


class AttemptRecorder:
    """
    Stores each attempt once: the name of its record follows from the Framework and the number of the attempt.

    A Framework that is never retried causes no calls.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def record(self, framework: Framework, record: Object) -> None:
        """Stores *record* and deletes those beyond ``attemptHistoryLimit``. Raises LauncherError."""
        try:
            await self._store.create(FRAMEWORK_ATTEMPTS, record)
        except AlreadyExists:
            await self._check_existing(framework, record["metadata"]["name"])
        await self._prune(framework, record["attempt"])

    async def _check_existing(self, framework: Framework, name: str) -> None:
        """Returns if the record of that name is this Framework's. Raises LauncherError otherwise."""
        try:
            existing = await self._store.get(FRAMEWORK_ATTEMPTS, framework.namespace, name)
        except NotFound as error:
            raise Unavailable(f"FrameworkAttempt {name} was deleted; it is created again") from error
        owner = controller_of(existing["metadata"])
        if owner.get("uid") == framework.uid:
            return
        if (owner.get("kind"), owner.get("name")) != (KIND, framework.name):
            raise Conflict(f"FrameworkAttempt {name} already exists and is not owned by this Framework")
        # It belongs to a deleted Framework of the same name.
        await self._delete(framework.namespace, name, existing["metadata"]["uid"])
        raise Unavailable(f"FrameworkAttempt {name} of a deleted Framework is being replaced")

    async def _prune(self, framework: Framework, newest: int) -> None:
        """Deletes the records before the newest ``attemptHistoryLimit``, until one does not exist."""
        for number in range(newest - framework.spec.attempt_history_limit, 0, -1):
            name = attempt_record_name(framework.name, number)
            try:
                await self._store.delete(FRAMEWORK_ATTEMPTS, framework.namespace, name, DeleteOptions())
            except NotFound:
                return
            except Conflict as error:
                raise Unavailable(f"FrameworkAttempt {name} is changing: {error}") from error
            except RequestError as error:  # it is kept for longer than requested
                log.warning("attempt not deleted", extra={"attempt": name, "error": str(error)})
                return

    async def _delete(self, namespace: str, name: str, uid: str) -> None:
        with suppress(NotFound, Conflict):
            await self._store.delete(FRAMEWORK_ATTEMPTS, namespace, name, DeleteOptions(uid=uid))
