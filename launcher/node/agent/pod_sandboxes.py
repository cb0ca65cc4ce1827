"""The sandboxes of isolated pods: the network of each, and the process of the container runtime that is in it."""

import asyncio
import logging

from launcher.core.errors import Unavailable
from launcher.node.container_runtime import PodSandboxConfig, RuntimeService
from launcher.node.network.pod_network import PodNetwork, PodSandbox
from launcher.node.pods.pod_spec import uid_of
from launcher.store.backoff import ExponentialBackoff
from launcher.store.interface import Object

log = logging.getLogger(__name__)


class PodSandboxManager:
    """Creates and removes the sandboxes of pods; a pod on the network of the machine has none."""

    def __init__(self, network: PodNetwork, runtime: RuntimeService) -> None:
        self._network, self._runtime = network, runtime

    async def run(self, pod: Object, hostname: str) -> PodSandbox | None:
        """The sandbox of the pod, created if needed; None for the network of the machine. Raises Unavailable."""
        uid = uid_of(pod)
        if not self._network.is_isolated(uid):
            return None
        process = await self._runtime.run_pod_sandbox(PodSandboxConfig(uid, hostname))
        return await self._network.attach(pod, process)

    async def remove(self, uid: str) -> None:
        """Removes the sandbox of the pod, whose containers have ended, and releases its address."""
        backoff = ExponentialBackoff(initial=0.1, maximum=10.0)
        while self._network.is_isolated(uid):
            try:
                # The address is released last: it is what another launcher finds the sandbox by.
                await self._runtime.remove_pod_sandbox(uid)
                await self._network.detach(uid)
            except Unavailable as error:
                log.info("sandbox of a pod not removed", extra={"uid": uid, "error": str(error)})
                await asyncio.sleep(backoff.next_delay())
