"""The network of the pods of local mode, by the setting and by what this machine allows."""

import logging
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from launcher.node.network.pod_addresses import has_isolated_pods
from launcher.node.network.pod_network import PodNetwork, PodNetworkUnavailable, SharedPodNetwork
from launcher.node.network.rootless.outside import missing_for_outside
from launcher.settings.local import Settings
from launcher.settings.values import InvalidSetting, PodNetworkMode

log = logging.getLogger(__name__)


@asynccontextmanager
async def pod_network(
    settings: Settings, engine_reason: str, *, remove_pods: bool
) -> AsyncGenerator[PodNetwork]:
    """
    The network of pods; at the end it is removed if it has no pods, or with *remove_pods*.

    *engine_reason* is why a container engine cannot isolate pods, or empty: then they use the network of the machine.

    Raises InvalidSetting if pods cannot be isolated and must be.
    """
    has_pods = has_isolated_pods(settings.data / "network")
    isolates = settings.pod_network is not PodNetworkMode.SHARED
    # Isolated pods that run keep their network, whatever it reaches.
    needs_outside = settings.pod_network is PodNetworkMode.AUTO and not has_pods
    reason = ""
    if isolates:
        reason = engine_reason or (missing_for_outside() if needs_outside and os.geteuid() != 0 else "")
    async with AsyncExitStack() as stack:
        network: PodNetwork = SharedPodNetwork(reason)
        if not reason and (isolates or has_pods):
            from launcher.node.network.networks import isolated_network

            opened = isolated_network(
                settings.data,
                isolates_new_pods=isolates,
                remove_pods=remove_pods,
                needs_outside=needs_outside,
            )
            try:
                network = await stack.enter_async_context(opened)
            except PodNetworkUnavailable as error:
                if settings.pod_network is not PodNetworkMode.AUTO:
                    raise InvalidSetting(f"pod-network: {error}; use --pod-network shared") from error
                reason = str(error)
                network = SharedPodNetwork(reason)
        if reason:
            log.warning("pods share the network of this machine", extra={"reason": reason})
        yield network
