"""What flags of ``arena submit tfjob`` become beyond the specification's test cases, and that none is passed over."""

import pytest

from launcher.converters.arena.flags import FLAGS, FlagType
from launcher.converters.arena.job_spec import JobEnvironment
from tests.converters.arena.flags import (
    AROUND,
    Value,
    container,
    distributed,
    mounts,
    pod,
    problems,
    roles,
    services,
    submit,
    volumes,
)


def test_the_chief_decides_and_failed_workers_are_retried() -> None:
    found = distributed(chief=True)

    assert roles(found)["chief"]["frameworkAttemptCompletionPolicy"]["minSucceededTaskCount"] == 1
    assert pod(found, "worker")["spec"]["restartPolicy"] == "OnFailure"
    assert [pod(found, role)["spec"]["restartPolicy"] for role in ("ps", "chief")] == ["Never", "Never"]


def test_without_a_chief_worker_0_decides_or_all_workers() -> None:
    first, every = (
        roles(distributed(success_policy=policy))["worker"]["frameworkAttemptCompletionPolicy"]
        for policy in ("ChiefWorker", "AllWorkers")
    )

    assert first["succeededIndexes"] == "0"
    assert "succeededIndexes" not in every
    assert every["minSucceededTaskCount"] == 2
    assert pod(distributed(), "worker")["spec"]["restartPolicy"] == "Never"


def test_cpu_and_memory_are_requests_and_limits_unless_limits_are_named() -> None:
    found = distributed(worker_cpu="1", worker_memory="1Gi", worker_cpu_limit="2", ps_memory_limit="3Gi")

    assert container(found, "worker")["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    }
    assert container(found, "ps")["resources"] == {"limits": {"memory": "3Gi"}}
    for flag in ("chief_cpu", "chief_memory_limit", "share_memory"):
        (problem,) = problems(**{flag: "much"})
        assert problem.startswith(f'--{flag.replace("_", "-")}: Invalid value: "much"')


def test_all_errors_of_flags_are_reported_at_once() -> None:
    found = problems(name="A", image="", env=["X"], gpus=-1, model_name="m")

    flags = [problem.partition(":")[0] for problem in found]
    assert flags == ["--model-name", "--name", "--gpus", "--env", "--image"]


def test_a_job_without_a_command_is_rejected() -> None:
    (problem,) = problems(AROUND, "")

    assert problem.startswith("COMMAND: Required value")


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        ({"priority": "high"}, "priorityClassName", "high"),
        ({"scheduler": "mine"}, "schedulerName", "mine"),
        ({"hostIPC": True}, "hostIPC", True),
        ({"hostPID": True}, "hostPID", True),
        ({"hostNetwork": True}, "hostNetwork", True),
        ({"hostNetwork": True}, "dnsPolicy", "ClusterFirstWithHostNet"),
        ({"image_pull_secret": ["s"]}, "imagePullSecrets", [{"name": "s"}]),
    ],
)
def test_a_flag_is_a_field_of_every_pod(flags: dict[str, Value], field: str, value: object) -> None:
    found = distributed(**flags)

    assert [pod(found, role)["spec"][field] for role in roles(found)] == [value, value]


def test_pull_secrets_of_the_config_file_are_the_default() -> None:
    around = JobEnvironment("joe", {"imagePullSecrets": "a, b"})

    assert pod(submit(around), "chief")["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
    assert pod(submit(around, image_pull_secret=["c"]), "chief")["spec"]["imagePullSecrets"] == [
        {"name": "c"}
    ]


def test_all_roles_except_the_evaluator_get_rdma() -> None:
    found = distributed(rdma=True, evaluator=True)

    assert container(found, "worker")["resources"]["limits"] == {"rdma/hca": "1"}
    assert container(found, "ps")["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert "securityContext" not in container(found, "evaluator")


def test_shared_memory_has_a_size() -> None:
    found = submit(share_memory="1Gi")

    assert volumes(found, "chief")["dshm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}
    assert mounts(found, "chief")["dshm"] == "/dev/shm"


def test_a_queued_job_is_suspended() -> None:
    found = submit(queue=True)

    assert found.framework["spec"]["executionType"] == "Create"
    assert found.framework["metadata"]["annotations"]["scheduling.x-k8s.io/suspend"] == "true"
    assert "--queue: the job starts with: launcher start NAME" in found.notes


def test_labels_and_annotations_of_the_user_are_added_to_those_of_arena() -> None:
    found = distributed(label=["team=a"], annotation=["why=b"])

    for metadata in (found.framework["metadata"], pod(found, "ps")["metadata"]):
        assert metadata["labels"]["team"] == "a"
        assert metadata["labels"]["app"] == "tfjob"
        assert metadata["annotations"]["why"] == "b"
        assert metadata["annotations"]["arena.kubeflow.org/username"] == "joe"
    labels = pod(found, "worker")["metadata"]["labels"]
    assert (labels["tf-job-name"], labels["tf-replica-type"]) == ("tf", "worker")
    assert labels["tf-replica-index"] == "{{FC_TASK_INDEX}}"


@pytest.mark.parametrize("flags", [{"label": ["app=mine"]}, {"annotation": ["requestGPUsOfJobOwner=9"]}])
def test_labels_and_annotations_that_arena_sets_are_rejected(flags: dict[str, Value]) -> None:
    (problem,) = problems(**flags)

    assert "is set by arena" in problem


def test_files_of_a_directory_are_a_config_map_and_other_files_of_the_mount_path_stay() -> None:
    around = JobEnvironment("joe", files={"~/a": b"1", "/etc/b.bin": b"\xff"})

    found = submit(around, config_file=["~/a:/etc/a", "/etc/b.bin"])

    (config_map,) = found.config_maps
    assert config_map["metadata"]["name"] == "tf-182f153bd948039"
    assert (config_map["data"], config_map["binaryData"]) == ({"a": "1"}, {"b.bin": "/w=="})
    mounted = [each for each in container(found, "chief")["volumeMounts"] if "subPath" in each]
    assert [(each["mountPath"], each["subPath"]) for each in mounted] == [
        ("/etc/a", "a"),
        ("/etc/b.bin", "b.bin"),
    ]
    for entries in (["~/a"], ["~/a:etc"], ["~/a:/x", "/etc/b.bin:/x"]):
        (problem,) = problems(around, config_file=entries)
        assert problem.startswith("--config-file: ")


@pytest.mark.parametrize(
    ("policy", "constraint", "kind", "terms"),
    [
        ("spread", "preferred", "podAntiAffinity", [(100, "worker")]),
        ("spread", "required", "podAntiAffinity", [(None, "worker")]),
        ("binpack", "preferred", "podAffinity", [(100, None), (60, "ps"), (30, "worker")]),
        ("binpack", "required", "podAffinity", [(None, "worker")]),
    ],
)
def test_workers_are_spread_or_packed(
    policy: str, constraint: str, kind: str, terms: list[tuple[int | None, str | None]]
) -> None:
    found = distributed(worker_affinity_policy=policy, worker_affinity_constraint=constraint)

    ((name, written),) = pod(found, "worker")["spec"]["affinity"][kind].items()
    assert name.startswith(constraint)
    got = [(each.get("weight"), each.get("podAffinityTerm", each)) for each in written]
    roles_named = [
        (weight, term["labelSelector"]["matchLabels"].get("FC_TASKROLE_NAME")) for weight, term in got
    ]
    assert roles_named == terms
    assert "affinity" not in pod(found, "ps")["spec"]


def test_affinity_of_workers_without_parameter_servers_has_no_effect_and_a_note() -> None:
    found = submit(workers=2, worker_affinity_policy="spread")

    assert "affinity" not in pod(found, "worker")["spec"]
    assert any(note.startswith("--worker-affinity-policy: ") for note in found.notes)


def test_instances_with_tf_config_have_services() -> None:
    found = distributed(worker_port=1000, ps_port=2000)

    made = services(found)
    ports = {name: service["spec"]["ports"][0]["port"] for name, service in made.items()}
    assert ports == {"tf-ps-0": 2000, "tf-worker-0": 1000, "tf-worker-1": 1000}
    assert made["tf-worker-1"]["spec"]["selector"] == {
        "FC_FRAMEWORK_NAME": "tf",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "1",
    }
    assert found.config_maps == ()


@pytest.mark.parametrize(
    ("chief", "labels", "annotation"),
    [
        pytest.param(True, {"chief": "master", "worker": None}, None, id="the chief is the master"),
        pytest.param(False, {"worker": None}, "tf-job-role=master,", id="else the first worker"),
    ],
)
def test_scripts_find_the_master_by_its_label(
    chief: bool, labels: dict[str, str | None], annotation: str | None
) -> None:
    found = distributed(chief=chief)

    metadata = {role: pod(found, role)["metadata"] for role in labels}
    assert {role: each["labels"].get("tf-job-role") for role, each in metadata.items()} == labels
    first = metadata["worker"]["annotations"].get("launcher.microsoft.com/labels-of-task-0")
    assert first == (annotation and f"{annotation}training.kubeflow.org/job-role=master")


def test_the_retry_flag_is_ignored_with_a_note() -> None:
    assert any(note.startswith("--retry: ") for note in submit(retry=3).notes)


@pytest.mark.parametrize("name", FLAGS)
def test_every_flag_has_an_effect_or_a_note(name: str) -> None:
    around = JobEnvironment("joe", files={"/f": b"x"}, number=123)
    base: dict[str, Value] = {"chief": True, "evaluator": True, "workers": 2, "ps": 1, "tensorboard": True}
    base |= {"sync-mode": "git", "sync-source": "a.git"}
    values_by_name: dict[str, Value] = {
        "name": "other",
        "workers": 3,
        "data": ["c:/c"],
        "data-dir": ["/d"],
        "toleration": ["all"],
        "config-file": ["/f"],
        "image-pull-policy": "Never",
        "success-policy": "AllWorkers",
        "clean-task-policy": "All",
        "role-sequence": "p",
        "sync-mode": "rsync",
        "chief": False,
        "evaluator": False,
        "tensorboard": False,
    }
    if name.endswith(("timeout", "finished")):
        values_by_name[name] = "5s"
    if name.endswith("affinity-policy"):
        values_by_name[name] = "spread"
    if name.endswith("affinity-constraint"):
        values_by_name[name] = "required"
        base[name.replace("constraint", "policy")] = "spread"
    if name in ("image", "success-policy"):
        base |= {"chief": name == "image", "ps-image": "p"}
    values_by_type: dict[FlagType, Value] = {
        FlagType.TEXT: "7",
        FlagType.NUMBER: 7,
        FlagType.SWITCH: True,
        FlagType.REPEATED: ["x=7"],
    }
    value = values_by_name.get(name, values_by_type[FLAGS[name].kind])

    def known(flags: dict[str, Value]) -> object:
        values = {each.replace("-", "_"): flags[each] for each in flags}
        errors = problems(around, **values)
        return errors or submit(around, **values)

    assert known({**base, name: value}) != known(base)
