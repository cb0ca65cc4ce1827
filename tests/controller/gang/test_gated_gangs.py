"""Pods with the scheduling gate: their labels and annotations, and the order of admission."""

from typing import Any

from launcher.controller.gang.gang_request import GangRequest
from launcher.controller.gang.gated_gangs import (
    GATE,
    GatedGangs,
    gate_removal,
    is_gated,
    pod_overlays,
)
from launcher.core.names import BACKEND_LABEL, GANG_ANNOTATION, GANG_MIN_ANNOTATION
from launcher.store.interface import Object, key_of
from tests.builders import a_pod_template, a_role
from tests.controller.gang.builders import a_gang, a_gang_request, parse_framework, pods_of

_EARLIER = "2026-01-01T00:00:00Z"
_LATER = "2026-01-01T00:00:10Z"


def _pods(name: str = "mnist", tasks: int = 2, *, created: str = _EARLIER, attempt: int = 0) -> list[Object]:
    """The stored pods of a gang."""
    framework = parse_framework(a_gang(a_role(tasks=tasks), name=name, uid=f"uid-of-{name}"))
    pods = pods_of(framework, pod_overlays(GangRequest(framework, attempt)), attempt)
    for number, pod in enumerate(pods):
        meta = {"uid": f"{name}-{attempt}-{number}", "creationTimestamp": created, "resourceVersion": "1"}
        pod["metadata"] |= meta
    return pods


def _observe(*pods: Object) -> GatedGangs:
    gangs = GatedGangs()
    for pod in pods:
        gangs.upsert(key_of(pod), pod)
    return gangs


def _admitted(pod: Object, **fields: Any) -> Object:
    """The pod without gates, and with these fields of its spec."""
    spec = {name: value for name, value in pod["spec"].items() if name != "schedulingGates"}
    return {**pod, "spec": {**spec, **fields}}


def _frameworks(gangs: list[Any]) -> list[str]:
    return [gang.framework for gang in gangs]


def test_every_pod_has_the_gate_and_the_annotations_of_its_gang() -> None:
    first, retried = _pods()[0], _pods(attempt=1)[0]

    assert first["spec"]["schedulingGates"] == [{"name": GATE}]
    assert first["metadata"]["labels"][BACKEND_LABEL] == "gates"
    assert first["metadata"]["annotations"][GANG_MIN_ANNOTATION] == "2"
    gang_ids = {pod["metadata"]["annotations"][GANG_ANNOTATION] for pod in (first, retried)}
    assert len(gang_ids) == 2


def test_a_pod_with_a_node_name_gets_no_gate() -> None:
    request = a_gang_request(a_role("ps", 1, pod=a_pod_template(nodeName="n")), a_role("worker", 2))

    overlays = pod_overlays(request)

    assert set(overlays) == {"worker"}
    assert overlays[request.roles[1].name].annotations[GANG_MIN_ANNOTATION] == "2"


def test_gates_of_other_controllers_are_not_removed() -> None:
    pod = _pods()[0]
    pod["spec"]["schedulingGates"].append({"name": "example.com/quota"})

    patch = gate_removal(pod)

    assert is_gated(pod)
    assert patch["spec"] == {"schedulingGates": [{"name": "example.com/quota"}]}
    assert patch["metadata"] == {"uid": "mnist-0-0", "resourceVersion": "1"}
    assert gate_removal(_pods()[1])["spec"] == {"schedulingGates": None}


def test_a_gang_waits_for_capacity_once_all_its_pods_exist() -> None:
    first, second = _pods()
    gangs = _observe(first)
    assert gangs.waiting() == []
    assert _frameworks(gangs.incomplete()) == ["mnist"]

    gangs.upsert(key_of(second), second)

    assert _frameworks(gangs.waiting()) == ["mnist"]
    assert gangs.incomplete() == []


def test_the_oldest_gang_is_first_and_ties_are_resolved_by_the_order_of_observation() -> None:
    gangs = _observe(*_pods("b", created=_LATER), *_pods("c", created=_EARLIER), *_pods("a", created=_LATER))

    assert _frameworks(gangs.waiting()) == ["c", "b", "a"]


def test_a_gated_pod_of_an_admitted_gang_is_admitted_first() -> None:
    first, second = _pods()
    for pod in (
        _admitted(first),
        _admitted(first, nodeName="n"),
        {**_admitted(first), "status": {"phase": "Succeeded"}},
    ):
        gangs = _observe(pod, second)

        assert _frameworks(gangs.partially_admitted()) == ["mnist"]
        assert gangs.waiting() == []


def test_admitted_pods_without_a_node_reserve_capacity() -> None:
    first, second = _pods()

    gangs = _observe(_admitted(first), _admitted(second, nodeName="n"))

    assert [pod["metadata"]["name"] for pod in gangs.released_pods()] == ["mnist-worker-0"]


def test_pods_of_an_earlier_attempt_do_not_admit_a_gang() -> None:
    old = [{**_admitted(pod), "status": {"phase": "Failed"}} for pod in _pods(tasks=1)]

    gangs = _observe(*old, *_pods(tasks=1, attempt=1))

    assert gangs.partially_admitted() == []
    assert [gang.attempt for gang in gangs.waiting()] == [1]


def test_a_gated_pod_that_is_being_deleted_is_removed_from_its_gang() -> None:
    first, second = _pods()
    gangs = _observe(first, second)
    deleted = {**second, "metadata": {**second["metadata"], "deletionTimestamp": _LATER}}

    gangs.upsert(key_of(second), deleted)

    assert gangs.waiting() == []
    assert [gang.has_lost_pod for gang in gangs.incomplete()] == [True]


def test_a_gang_without_pods_is_removed() -> None:
    first, second = _pods()
    gangs = _observe(first, second)

    gangs.remove(key_of(first))
    gangs.remove(key_of(second))
    gangs.remove(key_of(second))

    assert (gangs.waiting(), gangs.incomplete(), gangs.partially_admitted()) == ([], [], [])


def test_a_pod_that_replaces_one_of_an_earlier_attempt_belongs_to_the_new_gang() -> None:
    gangs = _observe(*_pods(tasks=1))

    (replacement,) = _pods(tasks=1, attempt=1)
    gangs.upsert(key_of(replacement), replacement)

    assert [gang.attempt for gang in gangs.waiting()] == [1]


def test_the_last_event_message_of_a_gang_is_stored_while_the_gang_exists() -> None:
    (pod,) = _pods(tasks=1)
    gangs = _observe(pod)
    gangs.waiting()[0].last_message = "no capacity"

    gangs.upsert(key_of(pod), {**pod, "metadata": {**pod["metadata"], "resourceVersion": "2"}})

    assert gangs.waiting()[0].last_message == "no capacity"


def test_events_refer_to_the_framework() -> None:
    (gang,) = _observe(*_pods()).waiting()

    assert gang.framework_reference() == {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"namespace": "default", "name": "mnist", "uid": "uid-of-mnist"},
    }
