"""FrameworkController's users with kubectl: their files, their name for Frameworks, and what they look at."""

import orjson
import yaml

from tests.clients.kubectl import Kubectl
from tests.clients.space import Space
from tests.core.manifests import Json

SECOND = "frameworks.frameworkcontroller.microsoft.com"


def second(framework: Json) -> Json:
    return {**framework, "apiVersion": "frameworkcontroller.microsoft.com/v1"}


def test_their_files_are_created_read_and_deleted_as_they_know_it(space: Space, kubectl: Kubectl) -> None:
    created = kubectl("create", "-f", "-", given=second(space.framework()))
    kubectl("wait", f"{SECOND}/mnist", "--for=jsonpath={.status.state}=Completed", "--timeout=60s")
    read = orjson.loads(kubectl("get", SECOND, "mnist", "-o", "json"))
    listed = kubectl.table("get", SECOND)
    described = kubectl("describe", SECOND, "mnist")
    deleted = kubectl("delete", SECOND, "mnist")

    assert created == "framework.frameworkcontroller.microsoft.com/mnist created\n"
    assert read["apiVersion"] == "frameworkcontroller.microsoft.com/v1"
    assert read["status"]["attemptStatus"]["completionStatus"]["code"] == 0
    assert [row[0] for row in listed] == ["NAME", "mnist"]
    assert "frameworkcontroller.microsoft.com/v1" in described
    assert deleted.startswith('framework.frameworkcontroller.microsoft.com "mnist" deleted')


def test_the_plain_word_means_the_first_name(space: Space, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=second(space.held()))

    names = [kubectl("get", word, "-o", "name") for word in ("frameworks", "fw", "all")]

    assert names == ["framework.launcher.microsoft.com/mnist\n"] * 3


def test_an_applied_file_may_be_changed_and_applied_again(space: Space, kubectl: Kubectl) -> None:
    framework = second(space.held())

    created = kubectl("apply", "-f", "-", given=yaml.safe_dump(framework))
    framework["spec"]["description"] = "another"
    changed = kubectl("apply", "-f", "-", given=yaml.safe_dump(framework))
    served = kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", given=yaml.safe_dump(framework)
    )

    name = "framework.frameworkcontroller.microsoft.com/mnist"
    assert [created, changed, served] == [
        f"{name} {how}\n" for how in ("created", "configured", "serverside-applied")
    ]
    assert kubectl("get", "fw", "mnist", "-o", "jsonpath={.spec.description}") == "another"


def test_a_stateful_service_with_a_misspelled_deadline_is_created_with_a_warning(
    space: Space, kubectl: Kubectl
) -> None:
    framework = second(space.held())
    framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["ActiveDeadlineSeconds"] = 60
    selector = {"FC_FRAMEWORK_NAME": "mnist", "FC_TASKROLE_NAME": "worker"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "serverstateful"},
        "spec": {"selector": selector, "ports": [{"port": 80}], "type": "NodePort"},
    }

    done = kubectl.run("create", "-f", "-", given=yaml.safe_dump_all([framework, service]))

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "framework.frameworkcontroller.microsoft.com/mnist created",
        "service/serverstateful created",
    ]
    assert 'pod.spec.ActiveDeadlineSeconds"; it is ignored' in done.stderr


def test_a_framework_of_openpai_is_created_with_a_warning(space: Space, kubectl: Kubectl) -> None:
    framework = second(space.held())
    framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["privileged"] = False

    done = kubectl.run("create", "-f", "-", given=framework)

    assert done.returncode == 0, done.stderr
    assert 'pod.spec.privileged"; it is ignored' in done.stderr


def test_a_misspelt_field_is_refused_under_this_name_too(space: Space, kubectl: Kubectl) -> None:
    framework = second(space.held())
    framework["spec"]["taskRole"] = []

    assert 'unknown field "spec.taskRole"' in kubectl.refused("create", "-f", "-", given=framework)


def test_it_is_stopped_and_rescaled_by_their_patches(space: Space, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=second(space.held()))
    patch = [
        {"op": "test", "path": "/spec/taskRoles/0/name", "value": "worker"},
        {"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 3},
    ]

    kubectl("patch", SECOND, "mnist", "--type=json", "-p", orjson.dumps(patch).decode())
    kubectl("scale", f"{SECOND}/mnist", "--replicas=2")

    assert kubectl("get", SECOND, "mnist", "-o", "jsonpath={.spec.taskRoles[0].taskNumber}") == "2"


def test_explain_knows_its_fields(kubectl: Kubectl) -> None:
    assert "fancyRetryPolicy" in kubectl("explain", f"{SECOND}.spec.retryPolicy")
