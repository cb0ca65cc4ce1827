"""kubectl with FrameworkController's API group and files."""

import orjson
import yaml

from tests.builders import Json
from tests.clients.isolated_namespace import IsolatedNamespace
from tests.clients.kubectl import Kubectl

SECOND = "frameworks.frameworkcontroller.microsoft.com"


def an_alias_framework(framework: Json) -> Json:
    return {**framework, "apiVersion": "frameworkcontroller.microsoft.com/v1"}


def test_frameworkcontroller_files_are_created_read_and_deleted(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    created = kubectl("create", "-f", "-", stdin=an_alias_framework(isolated.framework()))
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


def test_the_short_resource_name_means_the_launchers_group(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    kubectl("create", "-f", "-", stdin=an_alias_framework(isolated.suspended()))

    names = [kubectl("get", word, "-o", "name") for word in ("frameworks", "fw", "all")]

    assert names == ["framework.launcher.microsoft.com/mnist\n"] * 3


def test_an_applied_file_may_be_changed_and_applied_again(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    framework = an_alias_framework(isolated.suspended())

    created = kubectl("apply", "-f", "-", stdin=yaml.safe_dump(framework))
    framework["spec"]["description"] = "another"
    changed = kubectl("apply", "-f", "-", stdin=yaml.safe_dump(framework))
    served = kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump(framework)
    )

    name = "framework.frameworkcontroller.microsoft.com/mnist"
    assert [created, changed, served] == [
        f"{name} {action}\n" for action in ("created", "configured", "serverside-applied")
    ]
    assert kubectl("get", "fw", "mnist", "-o", "jsonpath={.spec.description}") == "another"


def test_a_stateful_service_with_a_misspelled_deadline_is_created_with_a_warning(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    framework = an_alias_framework(isolated.suspended())
    framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["ActiveDeadlineSeconds"] = 60
    selector = {"FC_FRAMEWORK_NAME": "mnist", "FC_TASKROLE_NAME": "worker"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "serverstateful"},
        "spec": {"selector": selector, "ports": [{"port": 80}], "type": "NodePort"},
    }

    done = kubectl.run("create", "-f", "-", stdin=yaml.safe_dump_all([framework, service]))

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "framework.frameworkcontroller.microsoft.com/mnist created",
        "service/serverstateful created",
    ]
    assert 'pod.spec.ActiveDeadlineSeconds" ignored' in done.stderr


def test_a_framework_of_openpai_is_created_with_a_warning(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    framework = an_alias_framework(isolated.suspended())
    framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["privileged"] = False

    done = kubectl.run("create", "-f", "-", stdin=framework)

    assert done.returncode == 0, done.stderr
    assert 'pod.spec.privileged" ignored' in done.stderr


def test_a_misspelled_field_is_rejected_in_the_alias_group(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    framework = an_alias_framework(isolated.suspended())
    framework["spec"]["taskRole"] = []

    assert 'unknown field "spec.taskRole"' in kubectl.error_output("create", "-f", "-", stdin=framework)


def test_a_framework_is_stopped_and_rescaled_by_frameworkcontrollers_patches(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    kubectl("create", "-f", "-", stdin=an_alias_framework(isolated.suspended()))
    patch = [
        {"op": "test", "path": "/spec/taskRoles/0/name", "value": "worker"},
        {"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 3},
    ]

    kubectl("patch", SECOND, "mnist", "--type=json", "-p", orjson.dumps(patch).decode())
    kubectl("scale", f"{SECOND}/mnist", "--replicas=2")

    assert kubectl("get", SECOND, "mnist", "-o", "jsonpath={.spec.taskRoles[0].taskNumber}") == "2"


def test_explain_describes_the_fields_of_the_alias(kubectl: Kubectl) -> None:
    assert "fancyRetryPolicy" in kubectl("explain", f"{SECOND}.spec.retryPolicy")
