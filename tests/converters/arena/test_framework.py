"""Flags of ``arena submit tfjob`` into a Framework; the numbers are those of the specification's test cases."""

from typing import Any

import orjson
import pytest

from launcher.converters.arena.job_spec import JobEnvironment
from launcher.converters.arena.ports import used_ports
from tests.converters.arena.flags import (
    Value,
    container,
    distributed,
    env,
    mounts,
    pod,
    problems,
    roles,
    services,
    submit,
    volumes,
)

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def test_14_a_job_has_roles_with_gpus_and_a_tensorboard() -> None:
    found = submit(chief=True, evaluator=True, gpus=1, workers=1, ps=1, tensorboard=True)

    counts = {name: role["taskNumber"] for name, role in roles(found).items()}
    assert counts == {"ps": 1, "worker": 1, "chief": 1, "evaluator": 1, "tensorboard": 1}
    assert found.framework["metadata"]["annotations"]["requestGPUsOfJobOwner"] == "3"
    assert pod(found, "worker")["metadata"]["annotations"]["requestGPUsOfJobOwner"] == "3"
    assert roles(found)["tensorboard"]["background"] is True
    service = services(found)["tf-tensorboard"]
    assert (service["spec"]["type"], service["spec"]["ports"][0]["port"]) == ("NodePort", 6006)
    assert (service["metadata"]["labels"]["role"], service["metadata"]["labels"]["app"]) == (
        "tensorboard",
        "tfjob",
    )


@pytest.mark.parametrize("chief", [pytest.param(False, id="15"), pytest.param(True, id="16 with a chief")])
def test_a_single_worker_is_a_chief_without_tf_config_and_a_note(chief: bool) -> None:
    found = submit(workers=1, chief=chief)

    assert {name: role["taskNumber"] for name, role in roles(found).items()} == {"chief": 1}
    assert "TF_CONFIG" not in env(found, "chief")
    assert env(found, "chief")["workers"] == "1"
    assert found.framework["metadata"]["annotations"]["arena.kubeflow.org/disable-tf-config"] == "true"
    assert "runs as tf-chief-0" in found.notes[0]
    assert ("besides the chief" in found.notes[0]) is chief


def test_one_worker_and_an_evaluator_have_no_tf_config() -> None:
    found = submit(evaluator=True, env=["TF_CONFIG=mine"])

    assert list(roles(found)) == ["chief", "evaluator"]
    assert [env(found, role)["TF_CONFIG"] for role in roles(found)] == ["mine", "mine"]
    assert found.config_maps == ()


def test_17_workers_get_gpus_and_parameter_servers_do_not() -> None:
    found = distributed(gpus=1)

    assert container(found, "worker")["resources"]["limits"] == {GPU: "1"}
    assert "resources" not in container(found, "ps")
    assert env(found, "ps")["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NVIDIA_VISIBLE_DEVICES" not in env(found, "worker")
    assert found.framework["metadata"]["annotations"]["requestGPUsOfJobOwner"] == "2"


def test_18_a_job_without_worker_and_chief_is_rejected() -> None:
    (problem,) = problems(workers=0, ps=1)

    assert problem == "--workers: Invalid value: 0: must be at least 1, unless there is a chief (--chief)"


@pytest.mark.parametrize("name", ["n" * 50, "Tf", "a_b", "-a", "a-", ""])
def test_19_an_invalid_name_is_rejected(name: str) -> None:
    (problem,) = problems(name=name)

    assert problem.startswith("--name: ")


def test_19_the_longest_name_is_short_enough_for_every_pod_name() -> None:
    found = distributed(name="n" * 49, tensorboard=True, chief=True, evaluator=True)

    assert found.framework["metadata"]["name"] == "n" * 49


def test_20_code_is_cloned_from_git() -> None:
    found = distributed(sync_mode="git", sync_source="https://h/u/p.git", env=["GIT_SYNC_BRANCH=b"])

    (init,) = pod(found, "ps")["spec"]["initContainers"]
    variables = {each["name"]: each["value"] for each in init["env"]}
    assert init["name"] == "init-code"
    assert variables == {
        "GIT_SYNC_BRANCH": "b",
        "GIT_SYNC_REPO": "https://h/u/p.git",
        "GIT_SYNC_DEST": "p",
        "GIT_SYNC_ROOT": "/code",
        "GIT_SYNC_ONE_TIME": "true",
    }
    assert init["volumeMounts"] == [{"name": "code-sync", "mountPath": "/code"}]
    assert mounts(found, "ps")["code-sync"] == "/root/code"


def test_code_is_copied_by_rsync_into_the_working_directory() -> None:
    found = submit(sync_mode="rsync", sync_source="h::m/p", sync_image="mine", working_dir="/w/")

    (init,) = pod(found, "chief")["spec"]["initContainers"]
    assert (init["image"], init["command"]) == ("mine", ["rsync", "-avP", "h::m/p", "/code"])
    assert mounts(found, "chief")["code-sync"] == "/w/code"
    assert container(found, "chief")["workingDir"] == "/w/"


@pytest.mark.parametrize(
    ("flags", "flag"),
    [
        pytest.param({"sync_mode": "git"}, "--sync-source", id="no source"),
        pytest.param({"sync_mode": "hdfs", "sync_source": "z"}, "--sync-mode", id="no such mode"),
        pytest.param({"sync_source": "z"}, "--sync-source", id="no mode"),
    ],
)
def test_21_code_without_a_source_is_rejected(flags: dict[str, Value], flag: str) -> None:
    (problem,) = problems(**flags)

    assert problem.startswith(f"{flag}: ")


def test_22_tensorboard_mounts_the_claim_with_the_logs() -> None:
    found = distributed(data=["pvc1:/data"], logdir="/data/logs", tensorboard=True)

    assert volumes(found, "tensorboard") == {
        "pvc1": {"name": "pvc1", "persistentVolumeClaim": {"claimName": "pvc1"}}
    }
    assert mounts(found, "tensorboard") == {"pvc1": "/data"}
    assert container(found, "tensorboard")["command"][:3] == ["tensorboard", "--logdir", "/data/logs"]
    assert "training-logs-volume" not in volumes(found, "worker")


@pytest.mark.parametrize(("chief", "writer"), [(True, "chief"), (False, "worker")])
def test_23_tensorboard_mounts_the_host_path_with_the_logs(chief: bool, writer: str) -> None:
    found = distributed(tensorboard=True, chief=chief)

    for role in (writer, "tensorboard"):
        assert (
            volumes(found, role)["training-logs-volume"]["hostPath"]["path"]
            == "/arena_logs/training000000123"
        )
    assert mounts(found, writer)["training-logs-volume"] == "/training_logs"
    assert mounts(found, "tensorboard") == {"training-logs-volume": "/output/training_logs"}
    assert container(found, "tensorboard")["command"][2] == "/output/training_logs"
    (term,) = pod(found, "tensorboard")["spec"]["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["labelSelector"]["matchLabels"] == {
        "FC_FRAMEWORK_NAME": "tf",
        "FC_TASKROLE_NAME": writer,
        "FC_TASK_INDEX": "0",
    }
    others = {"ps", "worker", "chief"} & set(roles(found)) - {writer}
    assert all("training-logs-volume" not in volumes(found, role) for role in others)


def test_tensorboard_is_not_an_instance_of_the_job() -> None:
    found = distributed(tensorboard=True)

    assert "tf-job-name" not in pod(found, "tensorboard")["metadata"]["labels"]
    assert any(note.startswith("--tensorboard: stops with the job") for note in found.notes)


def test_24_claims_are_mounted_once_and_not_everywhere() -> None:
    assert problems(data=["a:/x", "a:/y"]) == ['--data: Duplicate value: "a": a claim may be mounted once']
    for entry in ("a:/", "a", "a:x", ":/x", "a:/x:ro"):
        (problem,) = problems(data=[entry])
        assert problem.startswith(f'--data: Invalid value: "{entry}"')


def test_25_directories_of_the_node_are_mounted() -> None:
    found = submit(data_dir=["/d", "/h:/c"])

    assert volumes(found, "chief")["training-data-0"]["hostPath"] == {"path": "/d"}
    assert volumes(found, "chief")["training-data-1"]["hostPath"] == {"path": "/h"}
    assert mounts(found, "chief")["training-data-0"] == "/d"
    assert mounts(found, "chief")["training-data-1"] == "/c"
    for entry in ("rel", "/", "/h:c"):
        (problem,) = problems(data_dir=[entry])
        assert problem.startswith("--data-dir: ")


@pytest.mark.parametrize(
    ("entries", "tolerations"),
    [
        pytest.param(["all"], [{"operator": "Exists"}], id="all"),
        pytest.param(["k=v:NoSchedule,Equal", "all"], [{"operator": "Exists"}], id="all after another"),
        pytest.param(
            ["k=v:NoSchedule,Equal"],
            [{"key": "k", "value": "v", "effect": "NoSchedule", "operator": "Equal"}],
            id="one",
        ),
        pytest.param(["k=:,Exists"], [{"key": "k", "operator": "Exists"}], id="any value and effect"),
    ],
)
def test_26_taints_are_tolerated(entries: list[str], tolerations: list[Json]) -> None:
    assert pod(submit(toleration=entries), "chief")["spec"]["tolerations"] == tolerations


@pytest.mark.parametrize("entry", ["bad", "k=v:Never,Equal", "k=v:NoSchedule,Like", "k=v:NoSchedule"])
def test_26_an_invalid_toleration_is_rejected(entry: str) -> None:
    (problem,) = problems(toleration=[entry])

    assert problem.startswith("--toleration: ")


def test_27_the_selector_of_a_role_replaces_that_of_all() -> None:
    found = distributed(selector=["a=1"], ps_selector=["b=2"])

    assert pod(found, "ps")["spec"]["nodeSelector"] == {"b": "2"}
    assert pod(found, "worker")["spec"]["nodeSelector"] == {"a": "1"}


def test_28_variables_are_split_at_the_first_equals_sign_and_rejected_without() -> None:
    assert env(submit(env=["A=b=c"]), "chief")["A"] == "b=c"
    assert problems(env=["A=b=c", "X"]) == ['--env: Invalid value: "X": must be NAME=VALUE']


def test_29_ports_that_are_not_set_are_the_first_free_ones() -> None:
    pods: list[Json] = [
        {
            "spec": {
                "nodeName": "n",
                "hostNetwork": True,
                "containers": [{"ports": [{"containerPort": 20000}]}],
            }
        },
        {"spec": {"nodeName": "n", "containers": [{"ports": [{"containerPort": 20001}]}]}},
        {"spec": {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 20002}]}]}},
        {
            "spec": {"nodeName": "n", "containers": [{"ports": [{"containerPort": 1, "hostPort": 20003}]}]},
            "status": {"phase": "Succeeded"},
        },
    ]
    others = [{"spec": {"type": "ClusterIP", "ports": [{"port": 20001, "nodePort": 20001}]}}]

    found = distributed(JobEnvironment("joe", used_ports=used_ports(pods, others)), chief=True)

    ports = {role: container(found, role)["ports"][0]["containerPort"] for role in roles(found)}
    assert ports == {"worker": 20001, "chief": 20002, "ps": 20003}
    cluster = orjson.loads(env(found, "worker")["TF_CONFIG"].replace("{{FC_TASK_INDEX}}", "0"))["cluster"]
    assert cluster["ps"] == ["{{FC_FRAMEWORK_NAME}}-ps-0.{{FC_FRAMEWORK_NAMESPACE}}.svc:20003"]


def test_29_host_ports_and_node_ports_in_use_are_avoided() -> None:
    pods = [{"spec": {"nodeName": "n", "containers": [{"ports": [{"containerPort": 1, "hostPort": 20000}]}]}}]
    others = [{"spec": {"type": "NodePort", "ports": [{"port": 1, "nodePort": 20001}]}}]

    found = distributed(JobEnvironment("joe", used_ports=used_ports(pods, others)), ps_port=7)

    assert container(found, "worker")["ports"][0]["containerPort"] == 20002
    assert container(found, "ps")["ports"][0]["containerPort"] == 7


def test_29_if_no_port_is_free_a_port_must_be_set() -> None:
    full = JobEnvironment("joe", used_ports=frozenset(range(20000, 30000)))

    (problem,) = problems(full)
    assert problem.startswith("--worker-port: ")
    assert problems(full, chief_port=7) == []


@pytest.mark.parametrize(
    ("flags", "flag"),
    [
        ({"clean_task_policy": "Never"}, "--clean-task-policy"),
        ({"success_policy": "Any"}, "--success-policy"),
        ({"image_pull_policy": "Sometimes"}, "--image-pull-policy"),
        ({"ps": 1, "ps_affinity_policy": "near"}, "--ps-affinity-policy"),
    ],
)
def test_30_unknown_values_are_rejected(flags: dict[str, Value], flag: str) -> None:
    (problem,) = problems(**flags)

    assert problem.startswith(f"{flag}: Unsupported value")


def test_31_durations_are_whole_seconds() -> None:
    found = submit(running_timeout="1h2m", ttl_after_finished="30s", starting_timeout="1.5m")

    assert found.framework["spec"]["activeDeadlineSeconds"] == 3720
    assert found.framework["spec"]["ttlSecondsAfterFinished"] == 30
    assert roles(found)["chief"]["task"]["pendingDeadlineSeconds"] == 90
    assert "activeDeadlineSeconds" not in submit(running_timeout="0s").framework["spec"]


@pytest.mark.parametrize("text", ["-1s", "5", "1h2", "soon"])
def test_31_an_invalid_duration_is_rejected(text: str) -> None:
    (problem,) = problems(running_timeout=text)

    assert problem.startswith(f'--running-timeout: Invalid value: "{text}"')


def test_32_a_gang_is_all_instances_and_carries_the_labels_of_arena() -> None:
    found = distributed(gang=True, tensorboard=True)

    assert found.framework["spec"]["gang"] == {"minTasks": 3}
    for role in ("ps", "worker"):
        labels = pod(found, role)["metadata"]["labels"]
        assert labels["pod-group.scheduling.sigs.k8s.io/name"] == "tfjob-tf"
        assert labels["pod-group.scheduling.sigs.k8s.io/min-available"] == "3"
    assert not any("pod-group" in label for label in pod(found, "tensorboard")["metadata"]["labels"])


def test_33_gpus_cannot_be_requested_as_devices() -> None:
    (problem,) = problems(gpus=1, device=[f"{GPU}=1"])

    assert problem == f"--device: Forbidden: use --gpus=1 for {GPU}"


def test_devices_are_limits_and_then_gpus_are_not_hidden() -> None:
    found = submit(device=["amd.com/gpu=2"])

    assert container(found, "chief")["resources"]["limits"] == {"amd.com/gpu": "2"}
    assert "NVIDIA_VISIBLE_DEVICES" not in env(found, "chief")
    assert problems(device=["a=many"])[0].startswith('--device: Invalid value: "a=many"')
