"""Overlays of pods on their template."""

from typing import Any

from launcher.core.pods.overlay import EMPTY_OVERLAY, PodOverlay, merge_overlays
from launcher.core.pods.pod_template import PodTemplate, index_plus
from launcher.core.spec import FrameworkName, RoleName, TaskRole

Json = dict[str, Any]
WORKER = RoleName("worker")


def a_rendered_pod(overlay: PodOverlay, index: int = 2, **spec: Any) -> Json:
    """The pod of one worker whose template has one container and these fields."""
    containers = [{"name": "main", "env": [{"name": "MINE", "value": "own"}]}]
    pod = {"metadata": {"labels": {"team": "a"}}, "spec": {"containers": containers, **spec}}
    role = TaskRole(WORKER, 4, pod)
    return PodTemplate.compile(FrameworkName("mnist"), "lab", "uid", 0, role, {WORKER: 4}, overlay).pod(
        index, 0, 0
    )


def values(pod: Json) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


def test_labels_and_annotations_are_added_to_those_of_the_user_and_the_launcher() -> None:
    metadata = a_rendered_pod(PodOverlay(labels={"group": "g"}, annotations={"note": "n"}))["metadata"]

    assert (metadata["labels"]["team"], metadata["labels"]["group"]) == ("a", "g")
    assert metadata["labels"]["FC_FRAMEWORK_NAME"] == "mnist"
    assert metadata["annotations"]["note"] == "n"


def test_a_field_of_an_overlay_overrides_the_template_and_a_default_does_not() -> None:
    overlay = PodOverlay(spec={"schedulerName": "gangs"}, defaults={"hostname": "ours", "subdomain": "ours"})

    spec = a_rendered_pod(overlay, schedulerName="theirs", hostname="theirs")["spec"]

    assert (spec["schedulerName"], spec["hostname"], spec["subdomain"]) == ("gangs", "theirs", "ours")


def test_lists_are_concatenated_with_those_of_the_user_last() -> None:
    overlay = PodOverlay(spec={"initContainers": [{"name": "ours"}], "volumes": [{"name": "peers"}]})

    spec = a_rendered_pod(overlay, initContainers=[{"name": "theirs"}])["spec"]

    assert [container["name"] for container in spec["initContainers"]] == ["ours", "theirs"]
    assert spec["volumes"] == [{"name": "peers"}]


def test_variables_and_mounts_are_added_to_containers_of_the_user_only() -> None:
    mount = {"name": "peers", "mountPath": "/peers"}
    overlay = PodOverlay(
        spec={"initContainers": [{"name": "ours"}]},
        variables=[{"name": "MINE", "value": "given"}, {"name": "PEERS", "value": "4"}],
        mounts=[mount],
    )

    pod = a_rendered_pod(overlay, initContainers=[{"name": "theirs"}])
    ours, theirs = pod["spec"]["initContainers"]

    assert (values(pod)["PEERS"], values(pod)["MINE"]) == ("4", "own")
    assert pod["spec"]["containers"][0]["volumeMounts"] == theirs["volumeMounts"] == [mount]
    assert ours == {"name": "ours"}


def test_placeholders_are_replaced_for_each_task_and_ranks_continue_over_roles() -> None:
    overlay = PodOverlay(
        variables=[
            {"name": "ME", "value": "{{FC_TASKROLE_NAME}}-{{FC_TASK_INDEX}}"},
            {"name": "RANK", "value": index_plus(3)},
        ]
    )

    variables = [values(a_rendered_pod(overlay, index)) for index in (0, 10)]

    assert [(each["ME"], each["RANK"]) for each in variables] == [("worker-0", "3"), ("worker-10", "13")]


def test_of_two_overlays_the_later_overrides_and_lists_are_concatenated() -> None:
    first = PodOverlay(labels={"a": "1", "b": "1"}, spec={"volumes": [{"name": "x"}], "schedulerName": "one"})
    second = PodOverlay(labels={"b": "2"}, spec={"volumes": [{"name": "y"}], "schedulerName": "two"})

    both = merge_overlays([first, second])

    assert both.labels == {"a": "1", "b": "2"}
    assert both.spec == {"volumes": [{"name": "x"}, {"name": "y"}], "schedulerName": "two"}
    assert merge_overlays([]) == EMPTY_OVERLAY
