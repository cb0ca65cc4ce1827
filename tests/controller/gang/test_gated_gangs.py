"""Pods behind a gate: what they carry, and whose turn it is."""

from typing import Any

from launcher.controller.gang.gang_request import BACKEND_LABEL, GangRequest
from launcher.controller.gang.gated_gangs import GANG, GATE, LEAST, GatedGangs, extras, is_gated, without_gate
from launcher.store.interface import Object, key_of
from tests.controller.gang.builders import a_gang, pods_of, read, wanted
from tests.core.manifests import a_pod, a_role

_FIRST = "2026-01-01T00:00:00Z"
_THEN = "2026-01-01T00:00:10Z"


def _pods(name: str = "mnist", tasks: int = 2, *, created: str = _FIRST, attempt: int = 0) -> list[Object]:
    """The pods of a gang as the API server shows them."""
    framework = read(a_gang(a_role(tasks=tasks), name=name, uid=f"uid-of-{name}"))
    made = pods_of(framework, extras(GangRequest(framework, attempt)), attempt)
    for number, pod in enumerate(made):
        meta = {"uid": f"{name}-{attempt}-{number}", "creationTimestamp": created, "resourceVersion": "1"}
        pod["metadata"] |= meta
    return made


def _line(*pods: Object) -> GatedGangs:
    line = GatedGangs()
    for pod in pods:
        line.see(key_of(pod), pod)
    return line


def _open(pod: Object, **more: Any) -> Object:
    spec = {name: value for name, value in pod["spec"].items() if name != "schedulingGates"}
    return {**pod, "spec": {**spec, **more}}


def _frameworks(parties: list[Any]) -> list[str]:
    return [party.framework for party in parties]


def test_every_pod_has_the_gate_and_says_which_gang_it_is_of() -> None:
    first, again = _pods()[0], _pods(attempt=1)[0]

    assert first["spec"]["schedulingGates"] == [{"name": GATE}]
    assert first["metadata"]["labels"][BACKEND_LABEL] == "gates"
    assert first["metadata"]["annotations"][LEAST] == "2"
    assert first["metadata"]["annotations"][GANG] != again["metadata"]["annotations"][GANG]


def test_a_pod_that_names_its_node_has_no_gate_since_no_scheduler_looks_at_it() -> None:
    gang = wanted(a_role("ps", 1, pod=a_pod(nodeName="n")), a_role("worker", 2))

    given = extras(gang)

    assert set(given) == {"worker"}
    assert given[gang.roles[1].name].annotations[LEAST] == "2"


def test_only_our_gate_goes() -> None:
    pod = _pods()[0]
    pod["spec"]["schedulingGates"].append({"name": "of.somebody/else"})

    change = without_gate(pod)

    assert is_gated(pod)
    assert change["spec"] == {"schedulingGates": [{"name": "of.somebody/else"}]}
    assert change["metadata"] == {"uid": "mnist-0-0", "resourceVersion": "1"}
    assert without_gate(_pods()[1])["spec"] == {"schedulingGates": None}


def test_a_gang_waits_for_room_when_all_of_it_is_there() -> None:
    one, other = _pods()
    line = _line(one)
    assert line.waiting() == []
    assert _frameworks(line.incomplete()) == ["mnist"]

    line.see(key_of(other), other)

    assert _frameworks(line.waiting()) == ["mnist"]
    assert line.incomplete() == []


def test_the_oldest_is_first_and_of_equals_the_one_that_was_seen_first() -> None:
    line = _line(*_pods("b", created=_THEN), *_pods("c", created=_FIRST), *_pods("a", created=_THEN))

    assert _frameworks(line.waiting()) == ["c", "b", "a"]


def test_whose_gang_was_let_through_follows_it() -> None:
    one, other = _pods()
    for through in (_open(one), _open(one, nodeName="n"), {**_open(one), "status": {"phase": "Succeeded"}}):
        line = _line(through, other)

        assert _frameworks(line.followers()) == ["mnist"]
        assert line.waiting() == []


def test_who_was_let_through_and_has_no_node_takes_room() -> None:
    one, other = _pods()

    line = _line(_open(one), _open(other, nodeName="n"))

    assert [pod["metadata"]["name"] for pod in line.going()] == ["mnist-worker-0"]


def test_an_earlier_attempt_says_nothing_of_this_one() -> None:
    old = [{**_open(pod), "status": {"phase": "Failed"}} for pod in _pods(tasks=1)]

    line = _line(*old, *_pods(tasks=1, attempt=1))

    assert line.followers() == []
    assert [party.attempt for party in line.waiting()] == [1]


def test_a_pod_that_is_being_deleted_behind_its_gate_is_not_waited_for() -> None:
    one, other = _pods()
    line = _line(one, other)
    going = {**other, "metadata": {**other["metadata"], "deletionTimestamp": _THEN}}

    line.see(key_of(other), going)

    assert line.waiting() == []
    assert [party.has_lost for party in line.incomplete()] == [True]


def test_a_gang_that_is_gone_is_forgotten() -> None:
    one, other = _pods()
    line = _line(one, other)

    line.lose(key_of(one))
    line.lose(key_of(other))
    line.lose(key_of(other))

    assert (line.waiting(), line.incomplete(), line.followers()) == ([], [], [])


def test_a_pod_in_the_place_of_one_of_an_earlier_attempt_is_not_the_other() -> None:
    line = _line(*_pods(tasks=1))

    (later,) = _pods(tasks=1, attempt=1)
    line.see(key_of(later), later)

    assert [party.attempt for party in line.waiting()] == [1]


def test_what_was_told_is_remembered_while_the_gang_is_there() -> None:
    (pod,) = _pods(tasks=1)
    line = _line(pod)
    line.waiting()[0].told = "no room"

    line.see(key_of(pod), {**pod, "metadata": {**pod["metadata"], "resourceVersion": "2"}})

    assert line.waiting()[0].told == "no room"


def test_the_framework_is_whom_events_are_about() -> None:
    (party,) = _line(*_pods()).waiting()

    assert party.owner() == {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"namespace": "default", "name": "mnist", "uid": "uid-of-mnist"},
    }
