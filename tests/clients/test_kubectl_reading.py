"""kubectl get, describe, explain and events with Frameworks."""

import re

import orjson
import pytest
import yaml

from launcher.core.validation.schema import framework_schema
from tests.clients.isolated_namespace import IsolatedNamespace, wait_for_file
from tests.clients.kubectl import Kubectl, fits_terminal

AGE = re.compile(r"\d+[sm]\d*s?")


def create(kubectl: Kubectl, *objects: object) -> None:
    """Creates objects, and waits until each Framework has a status."""
    kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": list(objects)})
    if any(obj["kind"] == "Framework" for obj in objects if isinstance(obj, dict)):
        kubectl("wait", "fw", "--all", "--for=jsonpath={.status.state}", "--timeout=30s")


def test_get_shows_state_tasks_and_age(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, isolated.framework(tasks=2))
    kubectl.wait_succeeded()

    table = kubectl("get", "fw")

    headings, row = (line.split() for line in table.splitlines())
    assert headings == ["NAME", "STATE", "TASKS", "AGE"]
    assert row[:3] == ["mnist", "Succeeded", "2/2"]
    assert AGE.fullmatch(row[3])
    assert fits_terminal(table)


@pytest.mark.parametrize("name", ["framework", "frameworks", "frameworks.launcher.microsoft.com", "fw"])
def test_get_accepts_each_name_of_the_kind(isolated: IsolatedNamespace, kubectl: Kubectl, name: str) -> None:
    create(kubectl, isolated.suspended())

    assert kubectl("get", name, "-o", "name") == "framework.launcher.microsoft.com/mnist\n"


def test_get_wide_adds_retries_execution_type_message_and_task_states(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    create(kubectl, isolated.suspended())

    headings, row = kubectl.table("get", "fw", "mnist", "-o", "wide")

    assert headings == ["NAME", "STATE", "TASKS", "AGE", "RETRIES", "EXECUTION", "MESSAGE", "TASK STATES"]
    assert row[:3] == ["mnist", "AttemptCreationPending", "0/1"]
    assert row[4:7] == ["0", "Create", "Suspended: executionType is Create."]
    assert orjson.loads(row[7]) == {"AttemptCreationPending": 1}


def test_get_of_an_empty_list_reports_no_resources(kubectl: Kubectl) -> None:
    done = kubectl.run("get", "fw")

    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(r"No resources found in test-\d+ namespace\.\n", done.stderr)


def test_get_prints_json_and_yaml_with_the_same_content(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    create(kubectl, isolated.suspended(description="by hand"))

    from_json = orjson.loads(kubectl("get", "fw", "mnist", "-o", "json"))
    from_yaml = yaml.safe_load(kubectl("get", "fw", "mnist", "-o", "yaml"))

    assert from_json == from_yaml
    assert (from_json["apiVersion"], from_json["kind"]) == ("launcher.microsoft.com/v1", "Framework")
    assert from_json["spec"]["description"] == "by hand"
    assert from_json["status"]["state"] == "AttemptCreationPending"


def test_get_prints_one_field_by_its_path(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, isolated.suspended(), isolated.suspended("other"))

    paths = "jsonpath={range .items[*]}{.metadata.name}:{.spec.taskRoles[0].taskNumber} {end}"

    assert kubectl("get", "fw", "-o", paths) == "mnist:1 other:1 "


def test_get_prints_custom_columns(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, isolated.suspended())

    columns = "custom-columns=JOB:.metadata.name,TYPE:.spec.executionType,STATE:.status.state"

    assert kubectl.table("get", "fw", "-o", columns) == [
        ["JOB", "TYPE", "STATE"],
        ["mnist", "Create", "AttemptCreationPending"],
    ]


def test_get_watch_prints_a_row_for_each_state(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, isolated.suspended("before"))
    watching = kubectl.follow("get", "fw", "--watch")
    watching.wait_for_line("before")

    kubectl("create", "-f", "-", stdin=isolated.framework(script=wait_for_file("go")))
    watching.wait_for_line("AttemptRunning")
    isolated.create_file("go")
    watching.wait_for_line("Succeeded")

    rows = [line.split() for line in watching.lines()]
    assert rows[0] == ["NAME", "STATE", "TASKS", "AGE"]
    assert [row for row in rows if row[0] == "NAME"] == [rows[0]]
    states = [row[1] for row in rows if row[0] == "mnist" and len(row) == 4]
    assert states.index("AttemptRunning") < states.index("Succeeded")


def test_get_watch_of_one_framework_ignores_others(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, isolated.suspended("mine"))
    watching = kubectl.follow("get", "fw", "mine", "--watch", "--output-watch-events")
    watching.wait_for_line("mine")

    create(kubectl, isolated.suspended("other"))
    kubectl("delete", "fw", "mine")
    watching.wait_for_line("DELETED")

    assert not [line for line in watching.lines() if "other" in line]


def test_get_all_shows_frameworks_beside_their_pods(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, isolated.framework())
    kubectl.wait_succeeded()

    shown = kubectl("get", "all")

    assert re.search(r"^pod/mnist-worker-0 +0/1 +Completed +0 ", shown, re.MULTILINE)
    assert re.search(r"^framework.launcher.microsoft.com/mnist +Succeeded +1/1 ", shown, re.MULTILINE)


def test_get_in_all_namespaces_shows_the_namespace(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, isolated.suspended())

    rows = [line.split() for line in kubectl("get", "fw", "--all-namespaces").splitlines()]

    assert rows[0] == ["NAMESPACE", "NAME", "STATE", "TASKS", "AGE"]
    assert [isolated.namespace, "mnist", "AttemptCreationPending", "0/1"] in [row[:4] for row in rows]


def test_get_shows_labels_as_columns_and_selects_by_them(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    create(kubectl, isolated.suspended("red"), isolated.suspended("blue"))
    kubectl("label", "fw", "red", "colour=red")
    kubectl("label", "fw", "blue", "colour=blue")

    rows = [line.split() for line in kubectl("get", "fw", "-L", "colour").splitlines()]

    assert rows[0][-1] == "COLOUR"
    assert [(row[0], row[-1]) for row in rows[1:]] == [("blue", "blue"), ("red", "red")]
    assert kubectl("get", "fw", "-l", "colour notin (red)", "-o", "name").split("/")[-1] == "blue\n"
    assert kubectl("get", "fw", "--show-labels", "red").splitlines()[1].split()[-1] == "colour=red"


def test_get_sorts_by_any_field(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(
        kubectl, *(isolated.suspended(name, tasks=tasks) for name, tasks in (("a", 3), ("b", 1), ("c", 2)))
    )

    rows = kubectl.table("get", "fw", "--sort-by={.spec.taskRoles[0].taskNumber}")

    assert [row[0] for row in rows[1:]] == ["b", "c", "a"]


def test_get_selects_by_fields(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, isolated.suspended("held"), isolated.framework("done"))
    kubectl.wait_succeeded("done")

    def names(selector: str) -> list[str]:
        return [
            line.split("/")[1]
            for line in kubectl("get", "fw", f"--field-selector={selector}", "-o", "name").split()
        ]

    assert names("metadata.name=held") == ["held"]
    assert names("metadata.name!=held") == ["done"]
    assert names("status.state=Completed") == ["done"]
    assert names("spec.executionType=Create") == ["held"]
    error = kubectl.error_output("get", "fw", "--field-selector=spec.nope=1")
    assert "(BadRequest)" in error
    assert "spec.nope" in error


def test_get_follows_pages(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, *(isolated.suspended(f"many-{number}") for number in range(5)))

    rows = kubectl.table("get", "fw", "--chunk-size=2")

    assert [row[0] for row in rows[1:]] == [f"many-{number}" for number in range(5)]


def test_get_of_the_status_alone(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, isolated.suspended())

    status = kubectl("get", "fw", "mnist", "--subresource=status", "-o", "jsonpath={.status.state}")

    assert status == "AttemptCreationPending"


def test_describe_shows_spec_conditions_and_events(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, isolated.framework())
    kubectl.wait_succeeded()

    shown = kubectl("describe", "fw", "mnist")

    assert re.search(r"^Kind: +Framework$", shown, re.MULTILINE)
    assert re.search(r"^ +Type: +Succeeded$", shown, re.MULTILINE)
    assert re.search(r"^ +Task Number: +1$", shown, re.MULTILINE)
    assert re.search(r"^ +Normal +FrameworkSucceeded ", shown.partition("Events:")[2], re.MULTILINE)


def test_events_are_listed_for_one_framework(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, isolated.framework("mine"), isolated.framework("other"))
    kubectl.wait_succeeded("mine")
    kubectl.wait_succeeded("other")

    headings, *rows = kubectl.table("events", "--for=fw/mine")

    assert headings == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert {row[3] for row in rows} == {"Framework/mine"}
    assert "FrameworkSucceeded" in {row[2] for row in rows}


def test_get_events_lists_events_of_frameworks_and_pods(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    create(kubectl, isolated.framework())
    kubectl.wait_succeeded()

    headings, *rows = kubectl.table("get", "events")

    assert headings == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    reported = {(row[3], row[2]) for row in rows}
    assert {("framework/mnist", "FrameworkSucceeded"), ("pod/mnist-worker-0", "Scheduled")} <= reported


def test_explain_describes_every_field_of_a_task_role(kubectl: Kubectl) -> None:
    shown = " ".join(kubectl("explain", "frameworks.spec.taskRoles").split())

    roles = framework_schema()["properties"]["spec"]["properties"]["taskRoles"]
    assert roles["description"] in shown
    for name, field in roles["items"]["properties"].items():
        assert re.search(rf" {name} <\S+> (-required- )?{re.escape(field['description'])}", shown), name


def test_explain_describes_fields_of_the_pod(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "fw.spec.taskRoles.task.pod.spec.containers.command")

    assert re.search(r"^FIELD: command <\[\]string>$", shown, re.MULTILINE)


def test_explain_recursive_lists_the_whole_tree(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "framework", "--recursive")

    for field in ("roleSequence", "succeededIndexes", "podGracefulDeletionTimeoutSec", "initContainers"):
        assert re.search(rf"^ +{field}\t<", shown, re.MULTILINE), field


def test_explain_describes_the_status_too(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "fw.status.conditions")

    assert re.search(r"^ +lastTransitionTime\t<string>", shown, re.MULTILINE)


def test_explain_of_an_unknown_field_is_an_error(kubectl: Kubectl) -> None:
    assert 'field "taskRole" does not exist' in kubectl.error_output("explain", "fw.spec.taskRole")


def test_api_resources_lists_the_served_resources(kubectl: Kubectl) -> None:
    rows = [line.split() for line in kubectl("api-resources", "--no-headers").splitlines()]

    assert ["frameworks", "fw", "launcher.microsoft.com/v1", "true", "Framework"] in rows
    assert ["pods", "po", "v1", "true", "Pod"] in rows
    assert ["nodes", "no", "v1", "false", "Node"] in rows
    assert ["tfjobs", "kubeflow.org/v1", "true", "TFJob"] in rows
    served = kubectl("api-versions").split()
    assert {"launcher.microsoft.com/v1", "kubeflow.org/v1", "kubeflow.org/v1beta2", "v1"} <= set(served)


def test_version_shows_client_and_server(kubectl: Kubectl) -> None:
    version = orjson.loads(kubectl("version", "-o", "json"))

    assert "+launcher." in version["serverVersion"]["gitVersion"]


def test_the_node_is_this_machine(kubectl: Kubectl) -> None:
    headings, *rows = kubectl.table("get", "nodes")

    assert headings == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [row[1] for row in rows] == ["Ready"]
    described = kubectl("describe", "node", rows[0][0])
    assert re.search(r"^ +cpu: +\d", described, re.MULTILINE)
    assert re.search(r"^ +Ready +True ", described, re.MULTILINE)


def test_every_namespace_with_objects_is_listed(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    create(kubectl, isolated.suspended())

    rows = kubectl.table("get", "namespaces")

    assert rows[0] == ["NAME", "STATUS", "AGE"]
    assert {"default", isolated.namespace} <= {row[0] for row in rows if row[1] == "Active"}
    assert kubectl("get", "ns", "not-created", "-o", "jsonpath={.status.phase}") == "Active"


def test_auth_can_i_and_whoami_work(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "frameworks") == "yes\n"
    assert ["*.*", "[]", "[]", "[*]"] in [
        line.split() for line in kubectl("auth", "can-i", "--list").splitlines()
    ]
    assert ["Username", "admin"] in kubectl.table("auth", "whoami")


def test_raw_paths_are_served(kubectl: Kubectl) -> None:
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert orjson.loads(kubectl("get", "--raw", "/api/v1"))["kind"] == "APIResourceList"
