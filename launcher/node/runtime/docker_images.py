"""The images of a container engine."""

import time
from typing import Any

from launcher.core.errors import Unavailable
from launcher.node.container_runtime import ImagePullFailed, ImageStatus, PullProgress, RegistryCredentials
from launcher.node.pods.image_reference import ImageReference, parse_image
from launcher.node.runtime.docker_engine import DockerEngine, EngineError

#: The longest pull.
_PULL_SECONDS = 6 * 3600.0
#: The shortest time between two reports of progress.
_PROGRESS_SECONDS = 1.0


class DockerImages:
    """Inspects and pulls images by the engine."""

    def __init__(self, engine: DockerEngine) -> None:
        self._engine = engine

    async def image_status(self, image: str) -> ImageStatus | None:
        try:
            async with self._engine.call() as client:
                shown = await client.images.inspect(image)
        except EngineError as error:
            if error.status == 404:
                return None
            raise Unavailable(str(error)) from error
        config: dict[str, Any] = shown.get("Config") or {}
        return ImageStatus(
            shown["Id"], _ref(shown, parse_image(image)), config.get("User") or "", shown.get("Size") or 0
        )

    async def pull_image(
        self, image: str, credentials: RegistryCredentials | None, on_progress: PullProgress
    ) -> None:
        reference = parse_image(image)
        name = f"{reference.registry}/{reference.repository}"
        try:
            async with self._engine.call(_PULL_SECONDS) as client:
                messages = client.images.pull(
                    f"{name}@{reference.digest}" if reference.digest else name,
                    tag="" if reference.digest else reference.tag,
                    auth=_auth(reference, credentials),
                    stream=True,
                )
                layers: dict[str, tuple[int, int]] = {}
                reported_at = 0.0
                async for message in messages:
                    if error := message.get("error") or (message.get("errorDetail") or {}).get("message"):
                        raise ImagePullFailed(str(error))
                    _add_progress(layers, message)
                    if layers and time.monotonic() >= reported_at + _PROGRESS_SECONDS:
                        reported_at = time.monotonic()
                        on_progress(*map(sum, zip(*layers.values(), strict=True)))
        except EngineError as error:
            raise ImagePullFailed(str(error)) from error


def _ref(shown: dict[str, Any], reference: ImageReference) -> str:
    """The image with its digest in the registry of *reference*, or in another one; its id if it was never in one."""
    digests: list[str] = shown.get("RepoDigests") or []
    same = [digest for digest in digests if digest.partition("@")[0].endswith(reference.repository)]
    return next(iter([*same, *digests]), shown["Id"])


def _add_progress(layers: dict[str, tuple[int, int]], message: dict[str, Any]) -> None:
    detail = message.get("progressDetail") or {}
    if message.get("status") == "Downloading" and detail.get("total"):
        layers[str(message.get("id"))] = (int(detail.get("current") or 0), int(detail["total"]))


def _auth(reference: ImageReference, credentials: RegistryCredentials | None) -> dict[str, str] | None:
    if credentials is None:
        return None
    auth = {"serveraddress": reference.registry}
    if credentials.identity_token:
        return auth | {"identitytoken": credentials.identity_token}
    return auth | {"username": credentials.username, "password": credentials.password}
