"""The container runtime of local mode, by the setting: processes of this machine, or a container engine."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.node.container_runtime import ImageService, RuntimeService
from launcher.node.logs.log_budget import LogBudgets
from launcher.node.network.namespaces import NAMESPACES_DIRECTORY
from launcher.node.runtime.process_runtime import ProcessRuntime, ShimOptions
from launcher.settings.local import DOCKER, Settings
from launcher.wiring.steady_clock import SteadyClock

if TYPE_CHECKING:
    from launcher.node.runtime.docker_engine import DockerEngine


@dataclass(frozen=True, slots=True)
class ConfiguredRuntime:
    """The container runtime, and its images; None if containers use this machine's files."""

    containers: RuntimeService
    images: ImageService | None = None


@asynccontextmanager
async def container_engine(settings: Settings) -> AsyncGenerator["DockerEngine | None"]:
    """The engine of the runtime docker; None for another runtime. Raises NoEngine."""
    if settings.runtime != DOCKER:
        yield None
        return
    # Imported here, because it takes long.
    from launcher.node.runtime.docker_engine import find_engine
    from launcher.node.runtime.docker_owner import remove_abandoned

    engine = await find_engine(settings.engine.url, settings.engine.sockets)
    try:
        await remove_abandoned(engine)
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def container_runtime(
    settings: Settings, engine: "DockerEngine | None", clock: SteadyClock, *, stop: bool
) -> AsyncGenerator[ConfiguredRuntime]:
    """The configured runtime; *stop*: its containers end with it. Raises Unavailable."""
    hidden = (settings.data, *settings.credentials, NAMESPACES_DIRECTORY)
    options = _shim_options(settings.log_budgets, ends_with_launcher=stop)
    if engine is not None:
        from launcher.node.runtime.docker_images import DockerImages
        from launcher.node.runtime.docker_runtime import DockerRuntime

        docker = await DockerRuntime.open(settings.data, engine, clock=clock, options=options, hidden=hidden)
        try:
            yield ConfiguredRuntime(docker, DockerImages(engine))
        finally:
            await docker.close(stop_containers=stop)
        return
    processes = await ProcessRuntime.open(
        settings.data, images=settings.images, clock=clock, hidden=hidden, options=options
    )
    try:
        yield ConfiguredRuntime(processes)
    finally:
        await processes.close(stop_shim=stop)


def _shim_options(budgets: LogBudgets, *, ends_with_launcher: bool) -> ShimOptions:
    return ShimOptions(
        log_budget=budgets.total,
        log_budget_framework=budgets.framework,
        log_reserve=budgets.reserve,
        ends_with_launcher=ends_with_launcher,
    )
