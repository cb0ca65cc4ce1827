"""``metrics.k8s.io``: the use of CPU and memory by pods and nodes, as ``kubectl top`` reads it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from aiohttp import web

from launcher.api.api_resources import METRICS_NODES, METRICS_PODS
from launcher.api.http.content_negotiation import Representation, negotiate_format
from launcher.api.http.responses import respond
from launcher.api.http.status import set_error_target
from launcher.core.errors import NotFound
from launcher.core.pods.observed_pod import node_name
from launcher.core.pods.resource_usage import ContainerUsage, UsageReport
from launcher.store.interface import NODES, PODS, Object, ResourceKind, Store
from launcher.store.selectors import Selector, parse
from launcher.store.strategy import timestamp

_BASE = f"/apis/{METRICS_PODS.api_version}"
_OBJECT = frozenset({Representation.OBJECT})

#: Measures what the running containers of this machine use. Raises Unavailable.
ReadUsage = Callable[[], Awaitable[UsageReport]]


class ResourceMetricsHandler:
    """Handles the paths of the group. A pod without a running container has no metrics."""

    def __init__(self, store: Store, read_usage: ReadUsage) -> None:
        self._store, self._read_usage = store, read_usage

    def add_to(self, app: web.Application) -> None:
        """Adds its routes to *app*."""
        get = app.router.add_get
        get(f"{_BASE}/nodes{{slash:/?}}", self.list_nodes)
        get(f"{_BASE}/nodes/{{name}}{{slash:/?}}", self.get_node)
        get(f"{_BASE}/pods{{slash:/?}}", self.list_pods)
        get(f"{_BASE}/namespaces/{{namespace}}/pods{{slash:/?}}", self.list_pods)
        get(f"{_BASE}/namespaces/{{namespace}}/pods/{{name}}{{slash:/?}}", self.get_pod)

    async def list_pods(self, request: web.Request) -> web.Response:
        """``GET …/pods``: those of a namespace, or of all; label and field selectors are those of pods."""
        namespace = request.match_info.get("namespace")
        return await _respond_list(request, METRICS_PODS, await self._pods(namespace, _selector(request)))

    async def get_pod(self, request: web.Request) -> web.Response:
        """``GET …/pods/{name}``."""
        name = request.match_info["name"]
        pods = await self._pods(request.match_info["namespace"], Selector.for_name(name))
        return await _respond_one(request, METRICS_PODS, name, pods)

    async def list_nodes(self, request: web.Request) -> web.Response:
        """``GET …/nodes``."""
        return await _respond_list(request, METRICS_NODES, await self._nodes(_selector(request)))

    async def get_node(self, request: web.Request) -> web.Response:
        """``GET …/nodes/{name}``."""
        name = request.match_info["name"]
        return await _respond_one(request, METRICS_NODES, name, await self._nodes(Selector.for_name(name)))

    async def _pods(self, namespace: str | None, selector: Selector) -> list[Object]:
        report = await self._read_usage()
        pods = (await self._store.list(PODS, namespace, selector)).items
        used = ((pod, _containers(pod, report)) for pod in pods)
        return [
            _metrics(METRICS_PODS, pod, report)
            | {"containers": [{"name": name, "usage": _usage([each])} for name, each in containers.items()]}
            for pod, containers in used
            if containers
        ]

    async def _nodes(self, selector: Selector) -> list[Object]:
        report = await self._read_usage()
        by_node: dict[str, list[ContainerUsage]] = {}
        for pod in (await self._store.list(PODS)).items:
            by_node.setdefault(node_name(pod) or "", []).extend(_containers(pod, report).values())
        return [
            _metrics(METRICS_NODES, node, report)
            | {"usage": _usage(by_node.get(node["metadata"]["name"], ()))}
            for node in (await self._store.list(NODES, None, selector)).items
        ]


def _selector(request: web.Request) -> Selector:
    return parse(request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))


def _containers(pod: Object, report: UsageReport) -> Mapping[str, ContainerUsage]:
    """The containers that are running, in the order of the spec."""
    spec, uid = pod["spec"], pod["metadata"]["uid"]
    names = [each["name"] for each in (*spec.get("initContainers", ()), *spec["containers"])]
    return {name: report.containers[uid, name] for name in names if (uid, name) in report.containers}


def _metrics(kind: ResourceKind, obj: Object, report: UsageReport) -> Object:
    """The common fields of the metrics of *obj*."""
    names = ("name", "namespace", "labels", "creationTimestamp")
    metadata = {name: obj["metadata"][name] for name in names if name in obj["metadata"]}
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": metadata,
        "timestamp": timestamp(report.at),
        "window": f"{report.window_seconds:.3f}s",
    }


def _usage(containers: Iterable[ContainerUsage]) -> Object:
    used = list(containers)
    cpu, memory = sum(each.cpu for each in used), sum(each.memory for each in used)
    return {"cpu": f"{round(cpu * 1e9)}n", "memory": f"{memory // 1024}Ki"}


async def _respond_list(request: web.Request, kind: ResourceKind, items: list[Object]) -> web.Response:
    body = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": {}, "items": items}
    return await respond(request, negotiate_format(request, _OBJECT), body)


async def _respond_one(
    request: web.Request, kind: ResourceKind, name: str, items: list[Object]
) -> web.Response:
    set_error_target(request, kind, name)
    if not items:
        raise NotFound(f'{kind.resource} "{name}" not found')
    return await respond(request, negotiate_format(request, _OBJECT), items[0])
