"""Pods created from the template of a role."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.names import (
    LABELS,
    PLACEHOLDERS,
    PodIdentityKey,
    TaskIdentity,
    attempt_uid,
    role_uid,
    task_identity,
    task_uid,
)
from launcher.core.pods.pod_template import PodTemplate
from launcher.core.spec import FrameworkName, RoleName, TaskRole

Json = dict[str, Any]

MNIST, WORKER, PS = FrameworkName("mnist"), RoleName("worker"), RoleName("ps")
UID = "0b8e7a6a-5e2e-4b6e-9a53-3a1f3c0f7d11"
CONTAINER = {"name": "main", "image": "busybox"}

#: The variables of every container, in this order.
VARIABLES = [
    *[mark.value for mark in PodIdentityKey],
    "FC_POD_UID",
    "FC_TASK_ATTEMPT_INSTANCE_UID",
    "taskindex",
    "framework_name",
    "taskrole",
    "worker_tasknum",
    "ps_tasknum",
]


def a_template(
    pod: Mapping[str, Any], attempt: int = 0, counts: Mapping[RoleName, int] | None = None
) -> PodTemplate:
    role = TaskRole(WORKER, 4, pod)
    return PodTemplate.compile(
        MNIST, "lab", UID, attempt, role, {WORKER: 4, PS: 1} if counts is None else counts
    )


def a_rendered_pod(pod: Mapping[str, Any] | None = None, index: int = 3) -> Json:
    """Task 3 of the role worker, from the template *pod*."""
    return a_template({"spec": {"containers": [CONTAINER]}} if pod is None else pod).pod(index, 0, 0)


def values(container: Json) -> dict[str, str]:
    """The effective variables: of two with the same name the later counts."""
    return {variable["name"]: variable.get("value", "") for variable in container["env"]}


def test_h1_the_framework_owns_its_pods_and_config_map_variables_keep_a_value() -> None:
    metadata = a_rendered_pod()["metadata"]

    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "launcher.microsoft.com/v1",
            "kind": "Framework",
            "name": "mnist",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert metadata["annotations"]["FC_CONFIGMAP_NAME"] == "mnist-attempt"
    assert metadata["annotations"]["FC_CONFIGMAP_UID"] == attempt_uid(UID, 0)


def test_h2_a_pod_has_the_name_labels_and_annotations_of_the_launcher_and_of_the_user() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "1"}
    metadata = {
        "name": "theirs",
        "namespace": "elsewhere",
        "generateName": "theirs-",
        "uid": "2",
        "resourceVersion": "7",
        "creationTimestamp": None,
        "labels": {"app": "x", "FC_TASK_INDEX": "99"},
        "annotations": {"note": "y", "FC_TASK_UID": "none"},
        "ownerReferences": [owner],
        "finalizers": ["example.com/keep"],
    }

    pod = a_rendered_pod({"metadata": metadata, "spec": {"containers": [CONTAINER]}})

    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    created = pod["metadata"]
    assert created.keys() == {"name", "namespace", "labels", "annotations", "ownerReferences", "finalizers"}
    assert (created["name"], created["namespace"]) == ("mnist-worker-3", "lab")
    assert created["labels"] == {
        "app": "x",
        "FC_FRAMEWORK_NAME": "mnist",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "3",
        "FC_FRAMEWORK_ATTEMPT_ID": "0",
        "FC_TASK_ATTEMPT_ID": "0",
    }
    assert created["annotations"] == {
        "note": "y",
        "FC_FRAMEWORK_NAMESPACE": "lab",
        "FC_FRAMEWORK_NAME": "mnist",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "3",
        "FC_CONFIGMAP_NAME": "mnist-attempt",
        "FC_POD_NAME": "mnist-worker-3",
        "FC_FRAMEWORK_UID": UID,
        "FC_FRAMEWORK_ATTEMPT_ID": "0",
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"0_{attempt_uid(UID, 0)}",
        "FC_CONFIGMAP_UID": attempt_uid(UID, 0),
        "FC_TASKROLE_UID": role_uid(UID, 0, WORKER),
        "FC_TASK_UID": task_uid(UID, 0, WORKER, 3, 0),
        "FC_TASK_ATTEMPT_ID": "0",
    }
    assert created["ownerReferences"][0] == owner
    assert created["ownerReferences"][1]["uid"] == UID
    assert created["finalizers"] == ["example.com/keep"]


def test_h3_the_variables_of_the_launcher_are_first_in_every_container() -> None:
    own = {"name": "X", "value": "1"}
    containers = [CONTAINER | {"env": [own]}, CONTAINER]

    spec = a_rendered_pod(
        {"spec": {"initContainers": [CONTAINER | {"env": [own]}], "containers": containers}}
    )["spec"]

    for container in (spec["initContainers"][0], spec["containers"][0]):
        assert [variable["name"] for variable in container["env"]] == [*VARIABLES, "X"]
    assert [variable["name"] for variable in spec["containers"][1]["env"]] == VARIABLES
    assert values(spec["containers"][0]) == {
        **{key.value: a_rendered_pod()["metadata"]["annotations"][key] for key in PodIdentityKey},
        "FC_POD_UID": "",
        "FC_TASK_ATTEMPT_INSTANCE_UID": "0_$(FC_POD_UID)",
        "taskindex": "3",
        "framework_name": "mnist",
        "taskrole": "worker",
        "worker_tasknum": "4",
        "ps_tasknum": "1",
        "X": "1",
    }
    pod_uid = spec["containers"][0]["env"][VARIABLES.index("FC_POD_UID")]
    assert pod_uid == {"name": "FC_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}


@pytest.mark.parametrize(
    "name", ["FC_TASK_INDEX", "taskindex", "framework_name", "taskrole", "worker_tasknum"]
)
def test_h4_a_variable_of_the_user_overrides_that_of_the_launcher(name: str) -> None:
    env = [{"name": "X", "value": "$(FC_TASK_INDEX)"}, {"name": name, "value": "mine"}]

    container = a_rendered_pod({"spec": {"containers": [CONTAINER | {"env": env}]}})["spec"]["containers"][0]

    assert container["env"][-2:] == env
    assert values(container)[name] == "mine"


def test_h5_placeholders_are_replaced_everywhere() -> None:
    every = "/".join(f"{{{{{placeholder}}}}}" for placeholder in PLACEHOLDERS)
    template = {
        "metadata": {"labels": {"{{FC_TASKROLE_NAME}}": "{{FC_TASK_INDEX}}"}},
        "spec": {
            "hostname": "{{FC_POD_NAME}}",
            "volumes": [
                {
                    "name": "x",
                    "persistentVolumeClaim": {"claimName": "c{{FC_TASK_INDEX}}-{{{FC_TASK_INDEX}}}"},
                }
            ],
            "containers": [
                CONTAINER | {"args": [every, "{{FC_UNKNOWN}} {{FC_TASK_UID}} {{ FC_TASK_INDEX }}"]}
            ],
        },
    }

    pod = a_rendered_pod(template)

    assert pod["metadata"]["labels"]["worker"] == "3"
    assert pod["spec"]["hostname"] == "mnist-worker-3"
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "c3-{3}"
    assert pod["spec"]["containers"][0]["args"] == [
        "lab/mnist/worker/3/mnist-attempt/mnist-worker-3",
        "{{FC_UNKNOWN}} {{FC_TASK_UID}} {{ FC_TASK_INDEX }}",
    ]


def test_a_placeholder_may_add_a_number_to_the_index() -> None:
    args = ["{{FC_TASK_INDEX+1}} of 9", "{{FC_TASK_INDEX+}} {{FC_TASK_INDEX-1}} {{FC_TASK_INDEX + 1}}"]

    pod = a_rendered_pod({"spec": {"containers": [CONTAINER | {"args": args}]}})

    assert pod["spec"]["containers"][0]["args"] == ["4 of 9", args[1]]


@pytest.mark.parametrize("group", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("template_policy", "policy"),
    [
        pytest.param({}, "FallbackToLogsOnError", id="H6 absent"),
        pytest.param({"terminationMessagePolicy": None}, "FallbackToLogsOnError", id="H6 null"),
        pytest.param({"terminationMessagePolicy": ""}, "FallbackToLogsOnError", id="H6 empty"),
        pytest.param({"terminationMessagePolicy": "File"}, "File", id="H6 the user's own"),
    ],
)
def test_the_termination_message_policy_falls_back_to_logs_unless_the_template_sets_another(
    group: str, template_policy: Json, policy: str
) -> None:
    pod = a_rendered_pod({"spec": {group: [CONTAINER | template_policy]}})

    assert pod["spec"][group][0]["terminationMessagePolicy"] == policy


def test_h7_the_template_is_not_changed_and_unknown_fields_survive() -> None:
    template = {
        "metadata": {"labels": {"a": "{{FC_TASK_INDEX}}"}, "futureField": [1]},
        "spec": {
            "containers": [CONTAINER | {"olumeMounts": [{"name": "v"}]}],
            "brandNew": {"deep": [1.5, None, True]},
        },
        "sideways": {"x": 2**53 + 1},
    }
    before = copy.deepcopy(template)

    pod = a_rendered_pod(template)
    pod["spec"]["brandNew"]["deep"].clear()

    assert template == before
    assert a_rendered_pod(template)["spec"]["brandNew"] == {"deep": [1.5, None, True]}
    assert pod["spec"]["containers"][0]["olumeMounts"] == [{"name": "v"}]
    assert pod["metadata"]["futureField"] == [1]
    assert pod["sideways"] == {"x": 2**53 + 1}


def test_h8_a_task_keeps_its_uid_over_its_attempts_and_gets_a_new_one_with_each_framework_attempt() -> None:
    template = a_template({"spec": {"containers": [CONTAINER]}})

    first, second = template.pod(3, 0, 0), template.pod(3, 0, 1)
    after_rescale = template.pod(3, 1, 0)
    next_attempt = a_template({"spec": {"containers": [CONTAINER]}}, attempt=1).pod(3, 0, 0)

    def uid(pod: Json) -> str:
        return values(pod["spec"]["containers"][0])["FC_TASK_UID"]

    assert second["metadata"]["annotations"]["FC_TASK_ATTEMPT_ID"] == "1"
    assert second["metadata"]["labels"]["FC_TASK_ATTEMPT_ID"] == "1"
    assert values(second["spec"]["containers"][0])["FC_TASK_ATTEMPT_INSTANCE_UID"] == "1_$(FC_POD_UID)"
    assert uid(first) == uid(second)
    assert len({uid(first), uid(after_rescale), uid(next_attempt)}) == 3
    assert next_attempt["metadata"]["labels"]["FC_FRAMEWORK_ATTEMPT_ID"] == "1"


def test_the_identity_of_a_created_pod_is_recognised() -> None:
    pod = a_template({"spec": {"containers": [CONTAINER]}}, attempt=2).pod(3, 1, 4)

    assert task_identity(pod) == TaskIdentity(MNIST, WORKER, 3, 2, 4, task_uid(UID, 2, WORKER, 3, 1))


def test_two_pods_share_no_data() -> None:
    template = a_template({"spec": {"containers": [CONTAINER]}})

    one, other = template.pod(0, 0, 0), template.pod(0, 0, 0)
    one["spec"]["containers"][0]["env"].clear()

    assert other["spec"]["containers"][0]["env"]


def test_a_role_whose_name_begins_with_a_digit_gets_no_task_number_variable() -> None:
    template = a_template({"spec": {"containers": [CONTAINER]}}, counts={RoleName("2nd"): 1, WORKER: 4})

    names = values(template.pod(0, 0, 0)["spec"]["containers"][0])

    assert "2nd_tasknum" not in names
    assert names["worker_tasknum"] == "4"


@pytest.mark.parametrize(
    "template",
    [
        pytest.param({}, id="an empty template"),
        pytest.param({"metadata": None, "spec": None}, id="no metadata, no spec"),
        pytest.param(
            {"metadata": {"labels": None, "annotations": None, "ownerReferences": None}}, id="null maps"
        ),
        pytest.param({"spec": {"containers": None, "initContainers": None}}, id="null containers"),
        pytest.param({"spec": {"containers": [{"name": "x", "env": None}], "volumes": None}}, id="null env"),
        pytest.param({"status": {"phase": "Running"}, "kind": "PodTemplate"}, id="a status and a kind"),
    ],
)
def test_nulls_in_a_template_mean_absent(template: Json) -> None:
    pod = a_rendered_pod(template)

    assert pod["metadata"]["name"] == "mnist-worker-3"
    assert pod["kind"] == "Pod"
    assert "status" not in pod
    assert len(pod["metadata"]["annotations"]) == len(PodIdentityKey)
    assert len(pod["metadata"]["labels"]) == len(LABELS)


#: Texts that resemble placeholders, markers, JSON or broken UTF-8.
malicious_texts = st.lists(
    st.sampled_from(
        [f"{{{{{mark}}}}}" for mark in PodIdentityKey]
        + [
            "{",
            "}",
            "{{",
            "}}",
            '"',
            "\\",
            "\\u00ff",
            "ÿindexÿ",
            "ÿ",
            "\x00",
            "\xffuid\xff",
            "index",
            "🙂",
            "\n",
        ]
    )
    | st.text(max_size=3),
    max_size=6,
).map("".join)
malicious_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | malicious_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(malicious_texts, inner, max_size=3),
    max_leaves=8,
)


def expected_replacement(value: Any, by: Mapping[str, str]) -> Any:
    """*value* with every known placeholder replaced in every string and key, by a simple implementation."""
    if isinstance(value, str):
        for mark in PLACEHOLDERS:
            value = value.replace(f"{{{{{mark}}}}}", by[mark])
        return value
    if isinstance(value, list):
        return [expected_replacement(one, by) for one in value]
    if isinstance(value, dict):
        return {expected_replacement(key, by): expected_replacement(one, by) for key, one in value.items()}
    return value


@given(malicious_values, malicious_texts, st.integers(0, 9999), st.integers(0, 3), st.integers(0, 3))
def test_only_placeholders_are_changed_in_the_template(
    data: Any, text: str, index: int, incarnation: int, attempt: int
) -> None:
    container = {"name": text, "env": [{"name": text, "value": text}], "data": data}
    template = {
        "metadata": {"annotations": {"x-" + text: text}},
        "spec": {"containers": [container], "data": data},
    }

    pod = a_template(template).pod(index, incarnation, attempt)

    placeholders = pod["metadata"]["annotations"]
    assert pod["spec"]["data"] == expected_replacement(data, placeholders)
    created = pod["spec"]["containers"][0]
    assert created["data"] == expected_replacement(data, placeholders)
    assert created["name"] == expected_replacement(text, placeholders)
    assert created["env"][-1] == expected_replacement({"name": text, "value": text}, placeholders)
    assert [variable["name"] for variable in created["env"][:-1]] == VARIABLES
    assert placeholders["x-" + expected_replacement(text, placeholders)] == expected_replacement(
        text, placeholders
    )
    assert task_identity(pod) == TaskIdentity(
        MNIST, WORKER, index, 0, attempt, task_uid(UID, 0, WORKER, index, incarnation)
    )
