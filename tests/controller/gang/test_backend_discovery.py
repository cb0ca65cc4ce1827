"""The gang backend is discovered from the API groups of the cluster."""

from typing import Any

import pytest

from launcher.controller.gang import native, scheduler_plugins, volcano
from launcher.controller.gang.backend_discovery import (
    AvailableBackends,
    Backend,
    BackendDiscovery,
    BuiltinBackend,
    choose_backend,
)
from launcher.core.errors import InvalidObject, NotServed
from launcher.store.interface import Object
from tests.builders import a_pod_template, a_role
from tests.controller.gang.builders import a_gang_request

#: The resources of each group and version.
Api = dict[str, list[str]]

_CLASSES: Api = {"scheduling.k8s.io/v1": ["priorityclasses"]}
_VOLCANO: Api = {"scheduling.volcano.sh/v1beta1": ["podgroups", "podgroups/status", "queues"]}
_SCHEDULER_PLUGINS: Api = {"scheduling.x-k8s.io/v1alpha1": ["elasticquotas", "podgroups"]}
_NATIVE_V1BETA1: Api = {"scheduling.k8s.io/v1beta1": ["podgroups", "workloads"]}
_NATIVE_V1ALPHA2: Api = {"scheduling.k8s.io/v1alpha2": ["podgroups", "workloads"]}
_NATIVE_V1ALPHA1: Api = {"scheduling.k8s.io/v1alpha1": ["workloads"]}
_KUEUE: Api = {
    "kueue.x-k8s.io/v1beta2": ["localqueues", "workloads"],
    "kueue.x-k8s.io/v1beta1": ["localqueues", "workloads"],
}


class DiscoveryServer:
    """The discovery endpoints of an API server."""

    def __init__(self, api: Api) -> None:
        self.api = _CLASSES | api
        self.paths: list[str] = []

    async def discover(self, path: str) -> Object:
        self.paths.append(path)
        if path == "/apis":
            groups: dict[str, list[Any]] = {}
            for name in self.api:
                group, version = name.split("/")
                groups.setdefault(group, []).append({"groupVersion": name, "version": version})
            return {"groups": [{"name": name, "versions": versions} for name, versions in groups.items()]}
        name = path.removeprefix("/apis/")
        if name not in self.api:
            raise NotServed(path)
        return {"resources": [{"name": plural} for plural in self.api[name]]}


class DiscoveryClock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        pytest.param({}, AvailableBackends(), id="a plain cluster has none"),
        pytest.param(_VOLCANO, AvailableBackends((volcano.BACKEND,)), id="Volcano"),
        pytest.param(
            _SCHEDULER_PLUGINS, AvailableBackends((scheduler_plugins.BACKEND,)), id="scheduler-plugins"
        ),
        pytest.param(_NATIVE_V1ALPHA1, AvailableBackends((native.V1ALPHA1,)), id="Kubernetes 1.35"),
        pytest.param(_NATIVE_V1ALPHA2, AvailableBackends((native.V1ALPHA2,)), id="Kubernetes 1.36"),
        pytest.param(_NATIVE_V1BETA1, AvailableBackends((native.V1BETA1,)), id="Kubernetes 1.37"),
        pytest.param(
            {"scheduling.k8s.io/v1beta1": ["priorityclasses"]},
            AvailableBackends(),
            id="an old version of PriorityClass",
        ),
        pytest.param(
            _NATIVE_V1ALPHA1 | _NATIVE_V1ALPHA2 | _NATIVE_V1BETA1,
            AvailableBackends((native.V1BETA1,)),
            id="the newest of several native versions",
        ),
        pytest.param(_KUEUE, AvailableBackends((), "v1beta2"), id="Kueue, with its preferred version"),
        pytest.param(
            {"scheduling.volcano.sh/v1beta1": ["queues"]},
            AvailableBackends(),
            id="a group without the required resource",
        ),
        pytest.param(
            _NATIVE_V1ALPHA2 | _KUEUE | _SCHEDULER_PLUGINS | _VOLCANO,
            AvailableBackends((native.V1ALPHA2, volcano.BACKEND, scheduler_plugins.BACKEND), "v1beta2"),
            id="all backends, in the order of preference",
        ),
    ],
)
async def test_backends_are_discovered_by_their_resources(api: Api, expected: AvailableBackends) -> None:
    discovery = BackendDiscovery(DiscoveryServer(api).discover, DiscoveryClock())

    assert await discovery.available_backends() == expected


async def test_a_discovery_is_cached_for_five_minutes() -> None:
    server, clock = DiscoveryServer({}), DiscoveryClock()
    discovery = BackendDiscovery(server.discover, clock)
    await discovery.available_backends()
    requests = len(server.paths)
    server.api |= _VOLCANO

    clock.now += 299
    assert await discovery.available_backends() == AvailableBackends()
    assert len(server.paths) == requests

    clock.now += 2
    assert await discovery.available_backends() == AvailableBackends((volcano.BACKEND,))


async def test_backends_are_discovered_again_after_an_invalidation() -> None:
    server = DiscoveryServer(_VOLCANO)
    discovery = BackendDiscovery(server.discover, DiscoveryClock())
    await discovery.available_backends()
    server.api = _SCHEDULER_PLUGINS

    discovery.invalidate()

    assert await discovery.available_backends() == AvailableBackends((scheduler_plugins.BACKEND,))


async def test_a_group_that_is_removed_during_the_discovery_is_not_available() -> None:
    server = DiscoveryServer(_VOLCANO)
    groups = await server.discover("/apis")

    async def discover(path: str) -> Object:
        if path == "/apis":
            return groups
        raise NotServed(path)

    assert await BackendDiscovery(discover, DiscoveryClock()).available_backends() == AvailableBackends()


_ALL = AvailableBackends((native.V1ALPHA2, volcano.BACKEND, scheduler_plugins.BACKEND), "v1beta2")
_NO_KUEUE = AvailableBackends(_ALL.pod_groups)


@pytest.mark.parametrize(
    ("available", "scheduler", "queue", "expected"),
    [
        pytest.param(_ALL, "", "", native.V1ALPHA2, id="Kubernetes itself is preferred"),
        pytest.param(
            AvailableBackends(_ALL.pod_groups[1:]),
            "",
            "",
            volcano.BACKEND,
            id="Volcano is preferred to scheduler-plugins",
        ),
        pytest.param(
            AvailableBackends((scheduler_plugins.BACKEND,)),
            "",
            "",
            scheduler_plugins.BACKEND,
            id="scheduler-plugins",
        ),
        pytest.param(
            AvailableBackends(), "", "", BuiltinBackend.GATES, id="scheduling gates without another backend"
        ),
        pytest.param(
            AvailableBackends((), "v1beta2"),
            "",
            "",
            BuiltinBackend.GATES,
            id="Kueue is not used without a queue",
        ),
        pytest.param(_ALL, "", "q", BuiltinBackend.KUEUE, id="a queue is one of Kueue if it is installed"),
        pytest.param(_NO_KUEUE, "", "q", volcano.BACKEND, id="otherwise one of Volcano"),
        pytest.param(
            _ALL,
            "volcano",
            "q",
            volcano.BACKEND,
            id="the queue of pods with Volcano's scheduler is one of Volcano",
        ),
        pytest.param(
            _ALL,
            "coscheduler",
            "",
            scheduler_plugins.BACKEND,
            id="an unknown scheduler is assumed to have the plugin",
        ),
        pytest.param(
            AvailableBackends((volcano.BACKEND,)),
            "mine",
            "",
            BuiltinBackend.GATES,
            id="an unknown scheduler is not Volcano",
        ),
        pytest.param(
            _ALL, "default-scheduler", "", native.V1ALPHA2, id="the default scheduler is Kubernetes' own"
        ),
        pytest.param(
            AvailableBackends((volcano.BACKEND, scheduler_plugins.BACKEND)),
            "default-scheduler",
            "",
            scheduler_plugins.BACKEND,
            id="the default scheduler may have the plugin",
        ),
        pytest.param(
            AvailableBackends((scheduler_plugins.BACKEND,)),
            "volcano",
            "",
            scheduler_plugins.BACKEND,
            id="Volcano's scheduler name without Volcano",
        ),
    ],
)
def test_the_backend_is_chosen_by_scheduler_name_and_queue(
    available: AvailableBackends, scheduler: str, queue: str, expected: Backend
) -> None:
    pod = a_pod_template(**({"schedulerName": scheduler} if scheduler else {}))
    gang = a_gang_request(a_role(pod=pod), gang={"queue": queue} if queue else {})

    assert choose_backend(gang, available, queue) == expected


@pytest.mark.parametrize(
    ("available", "scheduler", "message"),
    [
        pytest.param(
            AvailableBackends((native.V1ALPHA2,)),
            "",
            "neither localqueues.kueue.x-k8s.io nor podgroups.scheduling.volcano.sh",
            id="no backend has queues",
        ),
        pytest.param(
            AvailableBackends((volcano.BACKEND,)),
            "mine",
            "pods with schedulerName mine do not use",
            id="Volcano has queues but not for this scheduler",
        ),
    ],
)
def test_a_queue_is_rejected_if_no_backend_has_queues(
    available: AvailableBackends, scheduler: str, message: str
) -> None:
    pod = a_pod_template(**({"schedulerName": scheduler} if scheduler else {}))

    with pytest.raises(InvalidObject) as raised:
        choose_backend(a_gang_request(a_role(pod=pod), gang={"queue": "q"}), available, "q")

    assert raised.value.errors[0].field == "spec.gang.queue"
    assert message in str(raised.value)


def test_the_backend_of_an_existing_gang_is_found_by_its_name() -> None:
    assert _ALL.by_name("kubernetes") is native.V1ALPHA2
    assert _ALL.by_name("gates") is BuiltinBackend.GATES
    assert _ALL.by_name("kueue") is BuiltinBackend.KUEUE
    with pytest.raises(NotServed, match="scheduled by volcano, which is no longer installed"):
        AvailableBackends().by_name("volcano")
    with pytest.raises(NotServed):
        AvailableBackends().by_name("kueue")
