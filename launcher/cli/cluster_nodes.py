"""The nodes of the cluster of a kubeconfig."""

import asyncio
import time
from typing import Any

from launcher.cli.errors import command_errors
from launcher.store import interface
from launcher.store.kubernetes.kube_store import KubeStore
from launcher.store.kubernetes.kubeconfig import from_kubeconfig


def cluster_nodes(paths: str, context: str | None) -> list[dict[str, Any]]:
    """All nodes of the cluster that *context* names, None for the current one. Raises CommandError."""

    async def read_nodes() -> list[dict[str, Any]]:
        store = await KubeStore.open(await from_kubeconfig(paths, context, time.time), connections=1)
        try:
            return list((await store.list(interface.NODES)).items)
        finally:
            await store.close()

    with command_errors():
        return asyncio.run(read_nodes())
