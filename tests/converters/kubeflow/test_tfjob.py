"""TFJobs as Frameworks; the numbers are those of the specification's test cases."""

import json
from typing import Any

import pytest

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.tfjob import convert
from launcher.core.errors import InvalidObject
from launcher.core.manifest import framework_of, validate_framework
from launcher.core.rendered_pods import rendered_pods
from tests.job_kinds.samples import replicas

Json = dict[str, Any]


def a_tfjob(version: str = "v1", policy: Json | None = None, spec: Json | None = None, **types: Json) -> Json:
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "TFJob",
        "metadata": {"name": "dist", "namespace": "ns1"},
        "spec": {"tfReplicaSpecs": types, **({"runPolicy": policy} if policy else {}), **(spec or {})},
    }


def mapped(tfjob: Json, domain: str = "") -> Conversion:
    """The Framework, which breaks no rule and has no field that is unknown."""
    found = convert(tfjob, domain=domain)
    validate_framework(found.framework, strict=True)
    return found


def pods_of(tfjob: Json, domain: str = "") -> dict[str, Json]:
    framework = validate_framework(mapped(tfjob, domain).framework).object
    return {pod["metadata"]["name"]: pod for pod in rendered_pods(framework_of(framework))}


def config_of(tfjob: Json, pod: str, domain: str = "") -> str | None:
    env = pods_of(tfjob, domain)[pod]["spec"]["containers"][0]["env"]
    return next((each["value"] for each in env if each["name"] == "TF_CONFIG"), None)


def roles_of(tfjob: Json) -> dict[str, Json]:
    return {role["name"]: role for role in mapped(tfjob).framework["spec"]["taskRoles"]}


def policy_of(tfjob: Json, role: str) -> Json:
    policy: Json = roles_of(tfjob)[role]["frameworkAttemptCompletionPolicy"]
    return policy


DIST = a_tfjob(Chief=replicas(1), PS=replicas(1), Worker=replicas(2))


def test_41_tf_config_equals_that_of_the_operator() -> None:
    assert config_of(DIST, "dist-worker-1") == (
        '{"cluster":{"chief":["dist-chief-0.ns1.svc:2222"],"ps":["dist-ps-0.ns1.svc:2222"],'
        '"worker":["dist-worker-0.ns1.svc:2222","dist-worker-1.ns1.svc:2222"]},'
        '"task":{"type":"worker","index":1},"environment":"cloud"}'
    )


def test_42_types_may_be_written_in_any_case() -> None:
    roles = roles_of(a_tfjob(ps=replicas(), WORKER=replicas()))

    assert list(roles) == ["ps", "worker"]


def test_43_a_single_worker_has_no_tf_config() -> None:
    assert config_of(a_tfjob(Worker=replicas()), "dist-worker-0") is None


def test_43_a_single_worker_of_an_old_version_has_tf_config() -> None:
    assert config_of(a_tfjob("v1beta2", Worker=replicas()), "dist-worker-0") is not None


@pytest.mark.parametrize(
    ("version", "keys"), [("v1", ["chief", "evaluator", "worker"]), ("v1beta2", ["chief", "worker"])]
)
def test_44_evaluators_are_in_the_cluster_unless_the_version_is_old(version: str, keys: list[str]) -> None:
    tfjob = a_tfjob(version, Worker=replicas(), Evaluator=replicas(), Chief=replicas())

    config = json.loads(config_of(tfjob, "dist-evaluator-0") or "")

    assert list(config["cluster"]) == keys
    assert config["task"] == {"type": "evaluator", "index": 0}


def test_45_each_type_has_the_port_that_it_names() -> None:
    worker = replicas(
        1, ports=[{"name": "http", "containerPort": 80}, {"name": "tfjob-port", "containerPort": 3000}]
    )
    tfjob = a_tfjob(Worker=worker, PS=replicas(1, ports=[{"name": "x", "containerPort": 2222}]))

    cluster = json.loads(config_of(tfjob, "dist-ps-0") or "")["cluster"]

    assert cluster == {"ps": ["dist-ps-0.ns1.svc:2222"], "worker": ["dist-worker-0.ns1.svc:3000"]}
    ports = [pod["spec"]["containers"][0]["ports"][-1] for pod in pods_of(tfjob).values()]
    assert [(port["name"], port["containerPort"]) for port in ports] == [
        ("tfjob-port", 3000),
        ("tfjob-port", 2222),
    ]


def test_46_the_cluster_domain_can_be_set() -> None:
    config = json.loads(config_of(DIST, "dist-ps-0", "cluster.local") or "")

    assert config["cluster"]["ps"] == ["dist-ps-0.ns1.svc.cluster.local:2222"]


DYNAMIC = a_tfjob(
    spec={"enableDynamicWorker": True}, Worker=replicas(2), PS=replicas(2), Evaluator=replicas()
)


def test_47_tf_config_of_a_dynamic_worker_has_itself_and_the_parameter_servers() -> None:
    assert config_of(DYNAMIC, "dist-worker-1") == (
        '{"cluster":{"worker":{"1":"dist-worker-1.ns1.svc:2222"},'
        '"ps":["dist-ps-0.ns1.svc:2222","dist-ps-1.ns1.svc:2222"]},"task":{"type":"worker","index":1}}'
    )


def test_48_tf_config_of_a_parameter_server_of_dynamic_workers_has_itself() -> None:
    assert config_of(DYNAMIC, "dist-ps-0") == (
        '{"cluster":{"worker":{},"ps":["dist-ps-0.ns1.svc:2222"]},"task":{"type":"ps","index":0}}'
    )


def test_48_tf_config_of_an_evaluator_of_dynamic_workers_is_empty() -> None:
    assert json.loads(config_of(DYNAMIC, "dist-evaluator-0") or "")["cluster"] == {"worker": {}, "ps": []}


def test_49_a_master_is_called_master() -> None:
    assert (
        "master"
        in json.loads(config_of(a_tfjob(Master=replicas(), Worker=replicas()), "dist-worker-0") or "")[
            "cluster"
        ]
    )


def test_50_only_the_container_of_tensorflow_gets_tf_config() -> None:
    tfjob = a_tfjob(Worker=replicas(2))
    tfjob["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"].append(
        {"name": "side", "image": "b"}
    )

    main, side = pods_of(tfjob)["dist-worker-0"]["spec"]["containers"]

    assert "TF_CONFIG" in {each["name"] for each in main["env"]}
    assert "TF_CONFIG" not in {each["name"] for each in side["env"]}
    assert "ports" not in side


@pytest.mark.parametrize("shape", ["seed", "v1alpha1"])
def test_52_the_older_list_of_replicas_is_accepted(shape: str) -> None:
    names = ("ReplicaSpecs", "TfReplicaType", "Replicas", "Template")
    if shape == "v1alpha1":
        names = ("replicaSpecs", "tfReplicaType", "replicas", "template")
    of, type_, count, template = names
    pod = replicas()["template"]
    entries = [
        {type_: "Chief", template: pod},
        {type_: "Ps", count: 1, template: pod},
        {type_: "Worker", count: 2, template: pod},
    ]
    tfjob = {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "TFJob",
        "metadata": {"name": "m"},
        "spec": {of: entries},
    }

    assert list(pods_of(tfjob)) == ["m-chief-0", "m-ps-0", "m-worker-0", "m-worker-1"]
    assert json.loads(config_of(tfjob, "m-worker-1") or "")["task"] == {"type": "worker", "index": 1}


def test_52_a_type_that_is_left_out_of_the_list_is_the_master() -> None:
    entry = {"template": replicas()["template"], "tfPort": 3000}
    tfjob = {
        "apiVersion": "kubeflow.org/v1alpha1",
        "metadata": {"name": "m"},
        "spec": {"replicaSpecs": [entry]},
    }

    assert json.loads(config_of(tfjob, "m-master-0") or "")["cluster"] == {
        "master": ["m-master-0.default.svc:3000"]
    }


def test_57_any_failure_ends_the_job() -> None:
    assert {
        role["frameworkAttemptCompletionPolicy"]["minFailedTaskCount"] for role in roles_of(DIST).values()
    } == {1}
    assert mapped(DIST).framework["spec"]["retryPolicy"]["maxRetryCount"] == 0


def test_58_without_a_chief_worker_0_completes_the_job() -> None:
    policy = policy_of(a_tfjob(Worker=replicas(3), PS=replicas()), "worker")

    assert policy == {"minFailedTaskCount": 1, "minSucceededTaskCount": 3, "succeededIndexes": "0"}


def test_59_with_success_policy_all_workers_all_workers_must_succeed() -> None:
    policy = policy_of(a_tfjob(spec={"successPolicy": "AllWorkers"}, Worker=replicas(3)), "worker")

    assert policy == {"minFailedTaskCount": 1, "minSucceededTaskCount": 3}


def test_60_the_chief_completes_the_job() -> None:
    assert policy_of(DIST, "chief")["minSucceededTaskCount"] == 1
    assert policy_of(DIST, "worker") == {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}


def test_failures_of_dynamic_workers_are_ignored() -> None:
    assert policy_of(DYNAMIC, "worker")["minFailedTaskCount"] == -1


def test_pods_carry_the_labels_that_scripts_select_by() -> None:
    found = pods_of(DIST)

    marks = {
        name.removeprefix("training.kubeflow.org/"): value
        for name, value in found["dist-worker-1"]["metadata"]["labels"].items()
        if name.startswith("training.kubeflow.org/")
    }
    assert marks == {
        "operator-name": "tfjob-controller",
        "job-name": "dist",
        "replica-type": "worker",
        "replica-index": "1",
    }
    assert masters(DIST) == ["dist-chief-0"]


def test_without_a_chief_worker_0_has_the_label_of_the_master() -> None:
    assert masters(a_tfjob(PS=replicas(), Worker=replicas(2))) == ["dist-worker-0"]


def masters(tfjob: Json) -> list[str]:
    """The pods that scripts take for the master."""
    return [
        name
        for name, pod in pods_of(tfjob).items()
        if pod["metadata"]["labels"].get("training.kubeflow.org/job-role") == "master"
    ]


@pytest.mark.parametrize(
    ("restart", "policy", "pod", "retries"),
    [
        pytest.param(None, None, "Never", 0, id="Never is the default"),
        pytest.param("Never", {"backoffLimit": 3}, "Never", 0, id="backoffLimit does not count for Never"),
        pytest.param("OnFailure", None, "OnFailure", -1, id="OnFailure"),
        pytest.param("Always", None, "Always", -1, id="Always"),
        pytest.param("OnFailure", {"backoffLimit": 3}, "Never", 3, id="OnFailure, so many times"),
        pytest.param(
            "ExitCode", {"backoffLimit": 3}, "Never", -1, id="ExitCode, whose new pods are not counted"
        ),
    ],
)
def test_a_restart_policy_becomes_a_retry_policy(
    restart: str | None, policy: Json | None, pod: str, retries: int
) -> None:
    task = roles_of(a_tfjob(policy=policy, Worker=replicas(2, restart)))["worker"]["task"]

    assert (task["pod"]["spec"]["restartPolicy"], task["retryPolicy"]["maxRetryCount"]) == (pod, retries)


@pytest.mark.parametrize(
    ("version", "codes", "fancy"),
    [
        pytest.param("v1", "128-255", True, id="53 to 56 today"),
        pytest.param("v1beta2", "130,137-138,143", False, id="53 to 56 of old"),
    ],
)
def test_retryable_exit_codes_are_those_of_the_version(version: str, codes: str, fancy: bool) -> None:
    role = roles_of(a_tfjob(version, Worker=replicas(2, "ExitCode")))["worker"]

    assert role["task"]["retryPolicy"] == {
        "fancyRetryPolicy": fancy,
        "maxRetryCount": -1,
        "retryableExitCodes": codes,
    }


@pytest.mark.parametrize("shape", ["runPolicy", "loose"])
def test_policies_are_read_from_the_fields_of_their_version(shape: str) -> None:
    policies = {
        "cleanPodPolicy": "All",
        "ttlSecondsAfterFinished": 9,
        "activeDeadlineSeconds": 60,
        "suspend": True,
        "schedulingPolicy": {
            "minAvailable": 1,
            "scheduleTimeoutSeconds": 5,
            "queue": "team",
            "priorityClass": "high",
        },
        "managedBy": "kubeflow.org/training-operator",
    }
    given = {"runPolicy": policies} if shape == "runPolicy" else policies

    spec = mapped(a_tfjob(spec=given, Worker=replicas(2))).framework["spec"]

    assert (spec["cleanPodPolicy"], spec["ttlSecondsAfterFinished"], spec["activeDeadlineSeconds"]) == (
        "All",
        9,
        60,
    )
    assert spec["executionType"] == "Create"
    assert spec["gang"] == {"minTasks": 1, "timeoutSeconds": 5, "queue": "team"}
    assert spec["taskRoles"][0]["task"]["pod"]["spec"]["priorityClassName"] == "high"


@pytest.mark.parametrize(("version", "clean"), [("v1", "None"), ("v1beta2", "Running")])
def test_the_default_clean_pod_policy_is_that_of_the_version(version: str, clean: str) -> None:
    assert mapped(a_tfjob(version, Worker=replicas())).framework["spec"]["cleanPodPolicy"] == clean


def test_an_unknown_type_runs_and_does_not_complete_the_job() -> None:
    role = roles_of(a_tfjob(Worker=replicas(), Sidekick=replicas()))["sidekick"]

    assert role["background"] is True
    assert "frameworkAttemptCompletionPolicy" not in role


def test_a_tf_config_of_the_template_is_overridden_with_a_note() -> None:
    tfjob = a_tfjob(
        Worker=replicas(2, env=[{"name": "TF_CONFIG", "value": "mine"}, {"name": "A", "value": "b"}])
    )

    assert (config_of(tfjob, "dist-worker-0") or "").startswith('{"cluster"')
    assert any(
        note.startswith("worker: TF_CONFIG of the template is overridden") for note in mapped(tfjob).notes
    )


@pytest.mark.parametrize(
    ("tfjob", "note"),
    [
        pytest.param(
            a_tfjob(policy={"backoffLimit": 3}, Worker=replicas(2, "OnFailure")),
            "worker: backoffLimit 3 applies to each task, not to the job",
            id="backoffLimit",
        ),
        pytest.param(
            a_tfjob(policy={"backoffLimit": 3}, Worker=replicas(2, "Always")),
            "worker: backoffLimit 3 does not apply to pods with restartPolicy Always",
            id="backoffLimit of Always",
        ),
        pytest.param(
            a_tfjob(policy={"suspend": True}, Worker=replicas()),
            "suspend: the job starts when",
            id="suspend",
        ),
        pytest.param(a_tfjob(PS=replicas()), "neither chief nor worker", id="no role decides"),
        pytest.param(a_tfjob(X=replicas()), "x: not a replica type of TFJob", id="a type of one's own"),
    ],
)
def test_differences_in_behaviour_are_noted(tfjob: Json, note: str) -> None:
    assert any(each.startswith(note) for each in mapped(tfjob).notes)


def test_the_restart_policy_of_the_pod_is_overridden_with_a_note() -> None:
    tfjob = a_tfjob(Chief=replicas(1, "Never"))
    tfjob["spec"]["tfReplicaSpecs"]["Chief"]["template"]["spec"]["restartPolicy"] = "Always"

    assert mapped(tfjob).notes == (
        "chief: restartPolicy Always of the pod is overridden by Never of the replicas",
    )


@pytest.mark.parametrize(
    ("tfjob", "problem"),
    [
        pytest.param(
            a_tfjob(Chief=replicas(), Master=replicas()),
            'spec.tfReplicaSpecs.Master: Duplicate value: "master": each type may occur once, '
            "and only one of chief and master",
            id="51 chief and master",
        ),
        pytest.param(
            a_tfjob(PS=replicas(), ps=replicas()),
            'spec.tfReplicaSpecs.ps: Duplicate value: "ps": each type may occur once, and only one of chief and master',
            id="a type twice",
        ),
        pytest.param(
            a_tfjob(Worker=replicas(1, "Sometimes")),
            'spec.tfReplicaSpecs.Worker.restartPolicy: Unsupported value: "Sometimes": supported values: "Never", '
            '"OnFailure", "Always", "ExitCode"',
            id="no restart policy",
        ),
        pytest.param(
            a_tfjob(Worker=replicas(-1)),
            "spec.tfReplicaSpecs.Worker.replicas: Invalid value: -1: must be at least 0",
            id="too few",
        ),
        pytest.param(
            a_tfjob(Worker=replicas(1, name="tf")),
            "spec.tfReplicaSpecs.Worker.template.spec.containers: Required value: "
            "must contain a container named tensorflow",
            id="no container of TensorFlow",
        ),
        pytest.param(
            a_tfjob(policy={"schedulingPolicy": {"minResources": {"cpu": 1}}}, Worker=replicas()),
            "spec.runPolicy.schedulingPolicy.minResources: Forbidden: not supported by Frameworks; remove it",
            id="resources of a gang",
        ),
        pytest.param(
            a_tfjob(policy={"managedBy": "kueue.x-k8s.io/multikueue"}, Worker=replicas()),
            'spec.runPolicy.managedBy: Invalid value: "kueue.x-k8s.io/multikueue": '
            "must be kubeflow.org/training-operator or absent",
            id="owned by another controller",
        ),
        pytest.param(
            a_tfjob(spec={"tfImage": "x"}, Worker=replicas()),
            "spec.tfImage: Forbidden: not supported by Frameworks; remove it",
            id="an image for all",
        ),
        pytest.param(
            a_tfjob(),
            "spec.tfReplicaSpecs: Required value: must have at least one replica type",
            id="no replica types",
        ),
        pytest.param(
            a_tfjob(policy={"suspend": "yes"}, Worker=replicas()),
            'spec.runPolicy.suspend: Invalid value: "string": must be of type boolean',
            id="a word where there is none",
        ),
    ],
)
def test_unsupported_fields_are_rejected_by_name(tfjob: Json, problem: str) -> None:
    with pytest.raises(InvalidObject) as raised:
        convert(tfjob)

    assert [str(each) for each in raised.value.errors] == [problem]


@pytest.mark.parametrize(
    "container",
    [
        {"ports": "x"},
        {"ports": ["x"]},
        {"env": {"a": 1}},
        {"env": ["x"]},
        {"ports": [{"name": "tfjob-port"}]},
    ],
)
def test_a_malformed_pod_is_rejected_by_the_validation_of_pods(container: Json) -> None:
    found = convert(a_tfjob(Worker=replicas(2, **container)))

    with pytest.raises(InvalidObject):
        validate_framework(found.framework)


@pytest.mark.parametrize(
    "template", [{"metadata": {"labels": "x"}}, {"metadata": 1}, {"spec": {"containers": [1]}}]
)
def test_an_invalid_template_is_rejected(template: Json) -> None:
    tfjob = a_tfjob(Worker=replicas())
    tfjob["spec"]["tfReplicaSpecs"]["Worker"]["template"].update(template)

    with pytest.raises(InvalidObject):
        convert(tfjob)


def test_a_generated_name_is_in_tf_config() -> None:
    tfjob = a_tfjob(Worker=replicas(2))
    tfjob["metadata"] = {"generateName": "dist-", "uid": "1", "creationTimestamp": None}

    assert "dist-xxxxx-worker-1.default.svc:2222" in str(config_of(tfjob, "dist-xxxxx-worker-0"))
