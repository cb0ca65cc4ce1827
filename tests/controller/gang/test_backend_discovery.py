"""Who places a gang is found out from what the API server serves."""

from typing import Any

import pytest

from launcher.controller.gang import native, scheduler_plugins, volcano
from launcher.controller.gang.backend_discovery import (
    AvailableBackends,
    Backend,
    BackendDiscovery,
    BuiltinBackend,
    choice,
)
from launcher.core.errors import InvalidObject, NotServed
from launcher.store.interface import Object
from tests.controller.gang.builders import wanted
from tests.core.manifests import a_pod, a_role

#: Group and version, and what is served there.
Api = dict[str, list[str]]

_CLASSES: Api = {"scheduling.k8s.io/v1": ["priorityclasses"]}
_VOLCANO: Api = {"scheduling.volcano.sh/v1beta1": ["podgroups", "podgroups/status", "queues"]}
_PLUGINS: Api = {"scheduling.x-k8s.io/v1alpha1": ["elasticquotas", "podgroups"]}
_BETA: Api = {"scheduling.k8s.io/v1beta1": ["podgroups", "workloads"]}
_SECOND: Api = {"scheduling.k8s.io/v1alpha2": ["podgroups", "workloads"]}
_FIRST: Api = {"scheduling.k8s.io/v1alpha1": ["workloads"]}
_KUEUE: Api = {
    "kueue.x-k8s.io/v1beta2": ["localqueues", "workloads"],
    "kueue.x-k8s.io/v1beta1": ["localqueues", "workloads"],
}


class Server:
    """An API server, as far as it is asked what it serves."""

    def __init__(self, api: Api) -> None:
        self.api = _CLASSES | api
        self.asked: list[str] = []

    async def answer(self, path: str) -> Object:
        self.asked.append(path)
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


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("api", "found"),
    [
        pytest.param({}, AvailableBackends(), id="a plain cluster has nobody"),
        pytest.param(_VOLCANO, AvailableBackends((volcano.SHAPE,)), id="Volcano"),
        pytest.param(_PLUGINS, AvailableBackends((scheduler_plugins.SHAPE,)), id="scheduler-plugins"),
        pytest.param(_FIRST, AvailableBackends((native.FIRST,)), id="Kubernetes 1.35"),
        pytest.param(_SECOND, AvailableBackends((native.SECOND,)), id="Kubernetes 1.36"),
        pytest.param(_BETA, AvailableBackends((native.BETA,)), id="Kubernetes 1.37"),
        pytest.param(
            {"scheduling.k8s.io/v1beta1": ["priorityclasses"]},
            AvailableBackends(),
            id="an old version of PriorityClass",
        ),
        pytest.param(
            _FIRST | _SECOND | _BETA, AvailableBackends((native.BETA,)), id="the newest of several shapes"
        ),
        pytest.param(_KUEUE, AvailableBackends((), "v1beta2"), id="Kueue, by the version that it prefers"),
        pytest.param(
            {"scheduling.volcano.sh/v1beta1": ["queues"]},
            AvailableBackends(),
            id="a group without the kind that is needed",
        ),
        pytest.param(
            _SECOND | _KUEUE | _PLUGINS | _VOLCANO,
            AvailableBackends((native.SECOND, volcano.SHAPE, scheduler_plugins.SHAPE), "v1beta2"),
            id="all of them, in the order in which they are taken",
        ),
    ],
)
async def test_what_can_place_gangs_is_found_by_its_kinds(api: Api, found: AvailableBackends) -> None:
    assert await BackendDiscovery(Server(api).answer, Clock()).served() == found


async def test_what_was_found_counts_for_some_minutes() -> None:
    server, clock = Server({}), Clock()
    finder = BackendDiscovery(server.answer, clock)
    await finder.served()
    asked = len(server.asked)
    server.api |= _VOLCANO

    clock.now += 299
    assert await finder.served() == AvailableBackends()
    assert len(server.asked) == asked

    clock.now += 2
    assert await finder.served() == AvailableBackends((volcano.SHAPE,))


async def test_what_turned_out_to_be_gone_is_looked_for_again_at_once() -> None:
    server = Server(_VOLCANO)
    finder = BackendDiscovery(server.answer, Clock())
    await finder.served()
    server.api = _PLUGINS

    finder.forget()

    assert await finder.served() == AvailableBackends((scheduler_plugins.SHAPE,))


async def test_a_group_that_goes_while_it_is_asked_about_is_not_there() -> None:
    server = Server(_VOLCANO)
    listed = await server.answer("/apis")

    async def answer(path: str) -> Object:
        if path == "/apis":
            return listed
        raise NotServed(path)

    assert await BackendDiscovery(answer, Clock()).served() == AvailableBackends()


_ALL = AvailableBackends((native.SECOND, volcano.SHAPE, scheduler_plugins.SHAPE), "v1beta2")
_NO_KUEUE = AvailableBackends(_ALL.shapes)


@pytest.mark.parametrize(
    ("served", "scheduler", "queue", "chosen"),
    [
        pytest.param(_ALL, "", "", native.SECOND, id="Kubernetes itself before the others"),
        pytest.param(
            AvailableBackends(_ALL.shapes[1:]), "", "", volcano.SHAPE, id="Volcano before scheduler-plugins"
        ),
        pytest.param(
            AvailableBackends((scheduler_plugins.SHAPE,)),
            "",
            "",
            scheduler_plugins.SHAPE,
            id="scheduler-plugins",
        ),
        pytest.param(AvailableBackends(), "", "", BuiltinBackend.GATES, id="nobody but us"),
        pytest.param(
            AvailableBackends((), "v1beta2"),
            "",
            "",
            BuiltinBackend.GATES,
            id="Kueue is nothing without a queue",
        ),
        pytest.param(_ALL, "", "q", BuiltinBackend.KUEUE, id="a queue is one of Kueue's where it is there"),
        pytest.param(_NO_KUEUE, "", "q", volcano.SHAPE, id="else one of Volcano's"),
        pytest.param(_ALL, "volcano", "q", volcano.SHAPE, id="that of pods for Volcano is Volcano's"),
        pytest.param(
            _ALL, "coscheduler", "", scheduler_plugins.SHAPE, id="an unknown scheduler has the plugin"
        ),
        pytest.param(
            AvailableBackends((volcano.SHAPE,)),
            "mine",
            "",
            BuiltinBackend.GATES,
            id="an unknown one is not Volcano",
        ),
        pytest.param(_ALL, "default-scheduler", "", native.SECOND, id="the default one is Kubernetes' own"),
        pytest.param(
            AvailableBackends((volcano.SHAPE, scheduler_plugins.SHAPE)),
            "default-scheduler",
            "",
            scheduler_plugins.SHAPE,
            id="or one with the plugin built in",
        ),
        pytest.param(
            AvailableBackends((scheduler_plugins.SHAPE,)),
            "volcano",
            "",
            scheduler_plugins.SHAPE,
            id="a name of Volcano without Volcano",
        ),
    ],
)
def test_the_pods_scheduler_and_the_queue_decide(
    served: AvailableBackends, scheduler: str, queue: str, chosen: Backend
) -> None:
    pod = a_pod(**({"schedulerName": scheduler} if scheduler else {}))
    gang = wanted(a_role(pod=pod), gang={"queue": queue} if queue else {})

    assert choice(gang, served, queue) == chosen


@pytest.mark.parametrize(
    ("served", "scheduler", "told"),
    [
        pytest.param(
            AvailableBackends((native.SECOND,)),
            "",
            "no queues (looked for localqueues.kueue.x-k8s.io and podgroups.scheduling.volcano.sh)",
            id="nothing has queues",
        ),
        pytest.param(
            AvailableBackends((volcano.SHAPE,)),
            "mine",
            "with schedulerName mine the pods do not go to",
            id="not for these pods",
        ),
    ],
)
def test_a_queue_that_nobody_has_is_refused_with_what_was_looked_for(
    served: AvailableBackends, scheduler: str, told: str
) -> None:
    pod = a_pod(**({"schedulerName": scheduler} if scheduler else {}))

    with pytest.raises(InvalidObject) as refused:
        choice(wanted(a_role(pod=pod), gang={"queue": "q"}), served, "q")

    assert refused.value.errors[0].field == "spec.gang.queue"
    assert told in str(refused.value)


def test_a_gang_goes_on_with_who_places_it_even_if_another_would_be_chosen_now() -> None:
    assert _ALL.by_name("kubernetes") is native.SECOND
    assert _ALL.by_name("gates") is BuiltinBackend.GATES
    assert _ALL.by_name("kueue") is BuiltinBackend.KUEUE
    with pytest.raises(NotServed, match="placed by volcano, which this cluster does not have any more"):
        AvailableBackends().by_name("volcano")
    with pytest.raises(NotServed):
        AvailableBackends().by_name("kueue")
