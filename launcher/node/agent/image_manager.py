"""
Ensures that the images of containers exist before they are started, as the kubelet does.

A pull continues in the background while its pod waits, so that the pod can be deleted; pods that need the same image
wait for the same pull.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from launcher.core.errors import NotFound, Unavailable
from launcher.core.events import ObjectEvent
from launcher.core.planning.retry import retry_delay
from launcher.node.container_runtime import (
    ImageFailed,
    ImagePullFailed,
    ImageService,
    ImageStatus,
    RegistryCredentials,
)
from launcher.node.pods.image_reference import ImageReference, InvalidImageName, parse_image, pull_policy
from launcher.node.pods.pod_spec import uid_of
from launcher.node.pods.registry_credentials import credential_helper, matching_credentials, secret_config
from launcher.store.interface import SECRETS, Object, Store

log = logging.getLogger(__name__)

#: The back-off between pulls of the same image, as in the kubelet.
_FIRST_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 10.0, 300.0
#: The time for which ErrImagePull is shown before ImagePullBackOff.
_ERROR_SECONDS = 2.0
#: The longest time that a start waits for a pull before its pod is synced again.
_WAIT_SECONDS = 2.0
_PROGRESS_EVENT_SECONDS = 10.0
_HELPER_SECONDS = 30.0
_MEBIBYTE = 1024 * 1024

RecordEvent = Callable[[Object, ObjectEvent], None]


@dataclass(slots=True)
class _Pull:
    """A pull in the background, and the pods that wait for it."""

    image: str
    task: "asyncio.Task[None] | None" = None
    pods: dict[str, Object] = field(default_factory=dict)
    done_bytes: int = 0
    total_bytes: int = 0
    reported_at: float = 0.0

    @property
    def progress(self) -> str:
        """``Pulling image "x": 120 of 350 MiB``."""
        text = f'Pulling image "{self.image}"'
        if not self.total_bytes:
            return text
        return f"{text}: {self.done_bytes // _MEBIBYTE} of {self.total_bytes // _MEBIBYTE} MiB"


@dataclass(frozen=True, slots=True)
class _Failure:
    """The last failed pull of an image."""

    message: str
    failures: int
    at: float

    @property
    def retry_at(self) -> float:
        return self.at + retry_delay(self.failures, _FIRST_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS)


class ImageManager:
    """Pulls images by their pods' policies, with back-off."""

    def __init__(
        self,
        images: ImageService,
        store: Store,
        clock: Callable[[], float],
        record: RecordEvent,
        configs: Sequence[Path] = (),
    ) -> None:
        """*configs* are the files with the user's own credentials, in the format of Docker's config.json."""
        self._images, self._store, self._clock, self._record = images, store, clock, record
        self._configs = configs
        #: By the image, and by the credentials with which it is pulled.
        self._pulls: dict[tuple[object, ...], _Pull] = {}
        self._failures: dict[tuple[object, ...], _Failure] = {}
        #: The uids of pods, and images that were pulled for their next start.
        self._fresh: set[tuple[str, str]] = set()
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Pulls images until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            await asyncio.Event().wait()

    async def ensure_image(self, pod: Object, container: Mapping[str, Any]) -> ImageStatus:
        """The image of the container. Raises ImageFailed, and Unavailable while it is being pulled."""
        image = container.get("image") or ""
        try:
            reference, policy = parse_image(image), pull_policy(container)
        except InvalidImageName as error:
            self._record(pod, ObjectEvent("InspectFailed", str(error), warning=True))
            raise ImageFailed("InvalidImageName", str(error)) from error
        status = await self._images.image_status(image)
        if status is not None and self._is_fresh(pod, image):
            return status
        if status is not None and policy != "Always":
            message = f'Container image "{image}" already present on machine'
            self._record(pod, ObjectEvent("Pulled", message))
            return status
        if policy == "Never":
            message = f'Container image "{image}" is not present with pull policy of Never'
            self._record(pod, ObjectEvent("ErrImageNeverPull", message, warning=True))
            raise ImageFailed("ErrImageNeverPull", message)
        await self._pull(pod, image, await self._credentials(pod, reference))
        status = await self._images.image_status(image)
        if status is None:
            raise Unavailable(f'image "{image}" was removed')
        self._is_fresh(pod, image)
        return status

    def forget(self, uid: str) -> None:
        """Forgets the pulls of a pod that has terminated."""
        self._fresh = {(pod, image) for pod, image in self._fresh if pod != uid}

    def _is_fresh(self, pod: Object, image: str) -> bool:
        """Whether the image was pulled for this start of a container; the next start pulls it again."""
        key = uid_of(pod), image
        is_fresh = key in self._fresh
        self._fresh.discard(key)
        return is_fresh

    async def _pull(self, pod: Object, image: str, credentials: Sequence[RegistryCredentials]) -> None:
        """Waits for a pull of the image. Raises ImageFailed, and Unavailable if it takes longer."""
        key = (image, *credentials)
        self._check_backoff(pod, image, key)
        pull = self._pulls.get(key)
        if pull is None:
            assert self._tasks is not None
            pull = self._pulls[key] = _Pull(image)
            pull.task = self._tasks.create_task(self._run_pull(key, pull, credentials))
        assert pull.task is not None
        if uid_of(pod) not in pull.pods:
            pull.pods[uid_of(pod)] = pod
            self._record(pod, ObjectEvent("Pulling", f'Pulling image "{image}"'))
        await asyncio.wait({pull.task}, timeout=_WAIT_SECONDS)
        if not pull.task.done():
            raise Unavailable(pull.progress)
        if failure := self._failures.get(key):
            self._record(
                pod, ObjectEvent("Failed", f'Failed to pull image "{image}": {failure.message}', True)
            )
            raise ImageFailed("ErrImagePull", failure.message, _ERROR_SECONDS)

    def _check_backoff(self, pod: Object, image: str, key: tuple[object, ...]) -> None:
        failure = self._failures.get(key)
        remaining = failure.retry_at - self._clock() if failure is not None else 0.0
        if failure is not None and remaining > 0 and key not in self._pulls:
            message = f'Back-off pulling image "{image}"'
            self._record(pod, ObjectEvent("BackOff", message))
            raise ImageFailed("ImagePullBackOff", f"{message}: ErrImagePull: {failure.message}", remaining)

    async def _run_pull(
        self, key: tuple[object, ...], pull: _Pull, credentials: Sequence[RegistryCredentials]
    ) -> None:
        began = self._clock()

        def on_progress(done: int, total: int) -> None:
            pull.done_bytes, pull.total_bytes = done, total
            if self._clock() >= max(pull.reported_at, began) + _PROGRESS_EVENT_SECONDS:
                pull.reported_at = self._clock()
                self._record_all(pull, ObjectEvent("Pulling", pull.progress))

        try:
            await self._try_credentials(pull.image, credentials, on_progress)
        except (ImagePullFailed, Unavailable) as error:
            failures = self._failures[key].failures if key in self._failures else 0
            self._failures[key] = _Failure(str(error), failures + 1, self._clock())
        else:
            self._failures.pop(key, None)
            self._fresh.update((uid, pull.image) for uid in pull.pods)
            seconds = self._clock() - began
            message = f'Successfully pulled image "{pull.image}" in {seconds:.3g}s'
            self._record_all(pull, ObjectEvent("Pulled", message))
        finally:
            del self._pulls[key]

    async def _try_credentials(
        self,
        image: str,
        credentials: Sequence[RegistryCredentials],
        on_progress: Callable[[int, int], None],
    ) -> None:
        """Pulls with each of the credentials, or with none, until one is accepted. Raises the last error."""
        attempts: list[RegistryCredentials | None] = [*credentials] or [None]
        for attempt in attempts:
            try:
                await self._images.pull_image(image, attempt, on_progress)
                return
            except ImagePullFailed:
                if attempt is attempts[-1]:
                    raise

    def _record_all(self, pull: _Pull, event: ObjectEvent) -> None:
        for pod in pull.pods.values():
            self._record(pod, event)

    async def _credentials(self, pod: Object, reference: ImageReference) -> list[RegistryCredentials]:
        """Those of the pod's pull secrets, then the user's own."""
        found: list[RegistryCredentials] = []
        for name in [each.get("name", "") for each in pod["spec"].get("imagePullSecrets") or ()]:
            try:
                secret = await self._store.get(SECRETS, pod["metadata"]["namespace"], name)
                found += matching_credentials(secret_config(secret), reference)
            except (NotFound, ValueError) as error:
                message = (
                    f"Unable to retrieve some image pull secrets ({name}); attempting to pull the image may not "
                    "succeed."
                )
                log.info("pull secret not used", extra={"secret": name, "error": str(error)})
                self._record(pod, ObjectEvent("FailedToRetrieveImagePullSecret", message, warning=True))
        for config in self._own_configs():
            found += matching_credentials(config, reference)
            if helper := credential_helper(config, reference.registry):
                found += await _from_helper(*helper)
        return list(dict.fromkeys(found))

    def _own_configs(self) -> Iterator[Mapping[str, Any]]:
        for path in self._configs:
            try:
                config = orjson.loads(path.read_bytes())
            except FileNotFoundError:
                continue
            except (OSError, orjson.JSONDecodeError) as error:
                log.warning("credentials not read", extra={"file": str(path), "error": str(error)})
                continue
            if isinstance(config, dict):
                yield config


async def _from_helper(name: str, server: str) -> list[RegistryCredentials]:
    """The credentials that the program ``docker-credential-NAME`` has for the server; empty if none."""
    try:
        process = await asyncio.create_subprocess_exec(
            f"docker-credential-{os.path.basename(name)}",
            "get",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(_HELPER_SECONDS):
            output, _ = await process.communicate(server.encode())
        answer = orjson.loads(output) if process.returncode == 0 else {}
    except (OSError, TimeoutError, orjson.JSONDecodeError) as error:
        log.warning("credential helper failed", extra={"helper": name, "error": str(error)})
        return []
    username, secret = answer.get("Username"), answer.get("Secret")
    if not username or not secret:
        return []
    if username == "<token>":
        return [RegistryCredentials(identity_token=secret)]
    return [RegistryCredentials(username, secret)]
