"""Pulls that take long, fail, or are shared by pods, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from launcher.core.errors import Unavailable
from launcher.core.events import ObjectEvent
from launcher.node.agent import image_manager
from launcher.node.agent.image_manager import ImageManager
from launcher.node.container_runtime import (
    ImageFailed,
    ImagePullFailed,
    ImageStatus,
    PullProgress,
    RegistryCredentials,
)
from launcher.store.interface import Object
from tests.controller.simulation import virtual_time
from tests.node.harness import FaultyMemoryStore, a_container, a_pod

MIB = 1024 * 1024
HELPER = '#!/bin/sh\nread server\necho "{\\"Username\\": \\"$server\\", \\"Secret\\": \\"s\\"}"\n'


class FakeImages:
    """A registry with one image, whose pulls take *seconds*."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.error = ""
        self.pulls: list[RegistryCredentials | None] = []
        self.is_present = False

    async def image_status(self, image: str) -> ImageStatus | None:
        return ImageStatus(f"id of {image}", f"{image}@digest") if self.is_present else None

    async def pull_image(
        self, image: str, credentials: RegistryCredentials | None, on_progress: PullProgress
    ) -> None:
        self.pulls.append(credentials)
        for second in range(int(self.seconds)):
            on_progress(second * MIB, int(self.seconds) * MIB)
            await asyncio.sleep(1.0)
        if self.error:
            raise ImagePullFailed(self.error)
        self.is_present = True


class ImageScenario:
    """An image manager, and the events that it has recorded."""

    def __init__(self, images: FakeImages) -> None:
        self.images = images
        self.events: list[str] = []
        self._clock = asyncio.get_running_loop().time
        store = FaultyMemoryStore(self._clock)
        self.manager = ImageManager(images, store, self._clock, self._record)

    def _record(self, pod: Object, event: ObjectEvent) -> None:
        self.events.append(f"{event.reason}: {event.message}")

    async def ensure(self, name: str = "p", image: str = "r.test/x:1") -> ImageStatus:
        pod = a_pod(name)
        pod["metadata"]["uid"] = name
        return await self.manager.ensure_image(pod, a_container(image=image))

    async def retried(self, name: str = "p") -> ImageStatus:
        """As a pod worker does, which tries again after a second."""
        while True:
            try:
                return await self.ensure(name)
            except Unavailable:
                await asyncio.sleep(1.0)


def in_scenario(images: FakeImages, act: Callable[[ImageScenario], Awaitable[None]]) -> None:
    async def run() -> None:
        scenario = ImageScenario(images)
        task = asyncio.create_task(scenario.manager.run())
        await asyncio.sleep(0)
        try:
            await act(scenario)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    virtual_time.run(run())


def test_a_long_pull_reports_its_progress_and_does_not_block_the_pod() -> None:
    async def act(scenario: ImageScenario) -> None:
        with pytest.raises(Unavailable, match=r'Pulling image "r.test/x:1": [12] of 30 MiB'):
            await scenario.ensure()
        await scenario.retried()

        assert 'Pulling: Pulling image "r.test/x:1": 10 of 30 MiB' in scenario.events
        assert scenario.events[-1].startswith('Pulled: Successfully pulled image "r.test/x:1" in 30')

    in_scenario(FakeImages(seconds=30), act)


def test_pods_with_the_same_image_share_a_pull() -> None:
    async def act(scenario: ImageScenario) -> None:
        await asyncio.gather(scenario.retried("p"), scenario.retried("q"))

        assert scenario.images.pulls == [None]

    in_scenario(FakeImages(seconds=5), act)


def test_the_back_off_doubles_up_to_five_minutes() -> None:
    async def act(scenario: ImageScenario) -> None:
        scenario.images.error = "no such image"
        delays = []
        for _ in range(7):
            with pytest.raises(ImageFailed) as failed:
                await scenario.ensure()
            assert failed.value.reason == "ErrImagePull"
            with pytest.raises(ImageFailed) as waiting:
                await scenario.ensure()
            assert waiting.value.reason == "ImagePullBackOff"
            delays.append(round(waiting.value.retry_seconds))
            await asyncio.sleep(waiting.value.retry_seconds)
        scenario.images.error = ""
        await scenario.ensure()

        assert delays == [10, 20, 40, 80, 160, 300, 300]

    in_scenario(FakeImages(), act)


async def test_a_credential_helper_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "docker-credential-test"
    program.write_text(HELPER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert await image_manager._from_helper("test", "r.test") == [RegistryCredentials("r.test", "s")]
    assert await image_manager._from_helper("missing", "r.test") == []
