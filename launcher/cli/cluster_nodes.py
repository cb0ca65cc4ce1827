"""The nodes of the cluster that is meant: of a kubeconfig, as kubectl reads it, or of the launcher itself."""

import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.cli.errors import CommandError

if TYPE_CHECKING:
    from launcher.cli.client.api_client import ApiClient

Json = dict[str, Any]


def add_cluster(parser: ArgumentParser) -> None:
    """The options that say whose nodes are meant."""
    cluster = parser.add_argument_group("machines")
    cluster.add_argument(
        "--nodes",
        metavar="HOSTS",
        help="these machines, joined by commas and in this order; no cluster is asked",
    )
    cluster.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="those of its cluster ($KUBECONFIG, or ~/.kube/config if there is one)",
    )
    cluster.add_argument("--context", metavar="CONTEXT", help="of the kubeconfig (default: its current one)")


def nodes_of(given: Namespace, environment: Mapping[str, str] = os.environ) -> list[Json]:
    """
    Every node, by name. Raises CommandError.

    A server that is named, or that the answer is sent to, is asked; otherwise the kubeconfig, if there is one.
    """
    usual = Path.home() / ".kube" / "config"
    paths = given.kubeconfig or environment.get("KUBECONFIG") or str(usual)
    if given.kubeconfig or given.context:
        nodes = _of_cluster(paths, given.context)
    elif given.submit or given.server or environment.get("LAUNCHER_SERVER"):
        nodes = _of_server(given)
    elif environment.get("KUBECONFIG") or usual.exists():
        nodes = _of_cluster(paths, None)
    else:
        nodes = _of_server(given)
    return sorted(nodes, key=lambda node: str(node["metadata"]["name"]))


def _of_server(given: Namespace) -> list[Json]:
    from launcher.cli.client.api_client import NODES, run_with_client

    nodes: list[Json] = []

    async def work(api: "ApiClient") -> int:
        nodes.extend((await api.list(NODES, everywhere=True))[0])
        return 0

    try:
        run_with_client(given, work)
    except CommandError as complaint:
        raise type(complaint)(
            *complaint.lines, "the machines may also be those of a --kubeconfig, or be named with --nodes"
        ) from complaint
    return nodes


def _of_cluster(paths: str, context: str | None) -> list[Json]:
    import asyncio

    from launcher.cli.client.api_client import complaints
    from launcher.store.interface import NODES
    from launcher.store.kubernetes.cluster_config import from_kubeconfig
    from launcher.store.kubernetes.kube_store import KubeStore

    async def asked() -> list[Json]:
        store = await KubeStore.open(await from_kubeconfig(paths, context, time.time), connections=1)
        try:
            return list((await store.list(NODES)).items)
        finally:
            await store.close()

    with complaints():
        return asyncio.run(asked())
