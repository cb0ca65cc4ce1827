"""What kubectl shows of Frameworks: tables, texts, descriptions and events."""

import re

import orjson
import pytest
import yaml

from launcher.core.validation.schema import framework_schema
from tests.clients.kubectl import Kubectl, fits
from tests.clients.space import Space, once

AGE = re.compile(r"\d+[sm]\d*s?")


def put(kubectl: Kubectl, *objects: object) -> None:
    """Create them, and wait until the launcher has said a first word about each Framework."""
    kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": list(objects)})
    if any(obj["kind"] == "Framework" for obj in objects if isinstance(obj, dict)):
        kubectl("wait", "fw", "--all", "--for=jsonpath={.status.state}", "--timeout=30s")


def succeeded(kubectl: Kubectl, name: str = "mnist") -> None:
    """Wait until the Framework has."""
    kubectl("wait", f"fw/{name}", "--for=condition=Succeeded", "--timeout=60s")


def test_get_shows_state_tasks_and_age(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.framework(tasks=2))
    succeeded(kubectl)

    table = kubectl("get", "fw")

    headings, row = (line.split() for line in table.splitlines())
    assert headings == ["NAME", "STATE", "TASKS", "AGE"]
    assert row[:3] == ["mnist", "Succeeded", "2/2"]
    assert AGE.fullmatch(row[3])
    assert fits(table)


@pytest.mark.parametrize("name", ["framework", "frameworks", "frameworks.launcher.microsoft.com", "fw"])
def test_get_knows_the_kind_by_each_of_its_names(space: Space, kubectl: Kubectl, name: str) -> None:
    put(kubectl, space.held())

    assert kubectl("get", name, "-o", "name") == "framework.launcher.microsoft.com/mnist\n"


def test_get_wide_adds_retries_wish_and_message(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.held())

    headings, row = kubectl.table("get", "fw", "mnist", "-o", "wide")

    assert headings == ["NAME", "STATE", "TASKS", "AGE", "RETRIES", "EXECUTION", "MESSAGE"]
    assert row[:3] == ["mnist", "AttemptCreationPending", "0/1"]
    assert row[4:] == ["0", "Create", "held: executionType is Create"]


def test_get_of_nothing_says_so(kubectl: Kubectl) -> None:
    done = kubectl.run("get", "fw")

    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(r"No resources found in test-\d+ namespace\.\n", done.stderr)


def test_get_prints_json_and_yaml_with_the_same_content(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.held(description="by hand"))

    from_json = orjson.loads(kubectl("get", "fw", "mnist", "-o", "json"))
    from_yaml = yaml.safe_load(kubectl("get", "fw", "mnist", "-o", "yaml"))

    assert from_json == from_yaml
    assert (from_json["apiVersion"], from_json["kind"]) == ("launcher.microsoft.com/v1", "Framework")
    assert from_json["spec"]["description"] == "by hand"
    assert from_json["status"]["state"] == "AttemptCreationPending"


def test_get_prints_one_field_by_its_path(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.held(), space.held("other"))

    paths = "jsonpath={range .items[*]}{.metadata.name}:{.spec.taskRoles[0].taskNumber} {end}"

    assert kubectl("get", "fw", "-o", paths) == "mnist:1 other:1 "


def test_get_prints_columns_of_the_users_choice(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.held())

    columns = "custom-columns=WHO:.metadata.name,WISH:.spec.executionType,STATE:.status.state"

    assert kubectl.table("get", "fw", "-o", columns) == [
        ["WHO", "WISH", "STATE"],
        ["mnist", "Create", "AttemptCreationPending"],
    ]


def test_get_watch_prints_a_row_for_each_state(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.held("before"))
    watching = kubectl.follow("get", "fw", "--watch")
    watching.until_said("before")

    kubectl("create", "-f", "-", given=space.framework(script=once("go")))
    watching.until_said("AttemptRunning")
    space.open("go")
    watching.until_said("Succeeded")

    rows = [line.split() for line in watching.lines()]
    assert rows[0] == ["NAME", "STATE", "TASKS", "AGE"]
    assert [row for row in rows if row[0] == "NAME"] == [rows[0]]
    states = [row[1] for row in rows if row[0] == "mnist" and len(row) == 4]
    assert states.index("AttemptRunning") < states.index("Succeeded")


def test_get_watch_of_one_ignores_the_others(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.held("mine"))
    watching = kubectl.follow("get", "fw", "mine", "--watch", "--output-watch-events")
    watching.until_said("mine")

    put(kubectl, space.held("other"))
    kubectl("delete", "fw", "mine")
    watching.until_said("DELETED")

    assert not [line for line in watching.lines() if "other" in line]


def test_get_all_shows_frameworks_beside_their_pods(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.framework())
    succeeded(kubectl)

    shown = kubectl("get", "all")

    assert re.search(r"^pod/mnist-worker-0 +0/1 +Completed +0 ", shown, re.MULTILINE)
    assert re.search(r"^framework.launcher.microsoft.com/mnist +Succeeded +1/1 ", shown, re.MULTILINE)


def test_get_in_all_namespaces_names_them(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.held())

    rows = [line.split() for line in kubectl("get", "fw", "--all-namespaces").splitlines()]

    assert rows[0] == ["NAMESPACE", "NAME", "STATE", "TASKS", "AGE"]
    assert [space.namespace, "mnist", "AttemptCreationPending", "0/1"] in [row[:4] for row in rows]


def test_get_shows_labels_as_columns_and_selects_by_them(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.held("red"), space.held("blue"))
    kubectl("label", "fw", "red", "colour=red")
    kubectl("label", "fw", "blue", "colour=blue")

    rows = [line.split() for line in kubectl("get", "fw", "-L", "colour").splitlines()]

    assert rows[0][-1] == "COLOUR"
    assert [(row[0], row[-1]) for row in rows[1:]] == [("blue", "blue"), ("red", "red")]
    assert kubectl("get", "fw", "-l", "colour notin (red)", "-o", "name").split("/")[-1] == "blue\n"
    assert kubectl("get", "fw", "--show-labels", "red").splitlines()[1].split()[-1] == "colour=red"


def test_get_sorts_by_any_field(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, *(space.held(name, tasks=tasks) for name, tasks in (("a", 3), ("b", 1), ("c", 2))))

    rows = kubectl.table("get", "fw", "--sort-by={.spec.taskRoles[0].taskNumber}")

    assert [row[0] for row in rows[1:]] == ["b", "c", "a"]


def test_get_selects_by_fields(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.held("held"), space.framework("done"))
    succeeded(kubectl, "done")

    def names(selector: str) -> list[str]:
        return [
            line.split("/")[1]
            for line in kubectl("get", "fw", f"--field-selector={selector}", "-o", "name").split()
        ]

    assert names("metadata.name=held") == ["held"]
    assert names("metadata.name!=held") == ["done"]
    assert names("status.state=Completed") == ["done"]
    assert names("spec.executionType=Create") == ["held"]
    complaint = kubectl.refused("get", "fw", "--field-selector=spec.nope=1")
    assert "(BadRequest)" in complaint
    assert "spec.nope" in complaint


def test_get_pages_through_more_than_it_asks_for_at_once(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, *(space.held(f"many-{number}") for number in range(5)))

    rows = kubectl.table("get", "fw", "--chunk-size=2")

    assert [row[0] for row in rows[1:]] == [f"many-{number}" for number in range(5)]


def test_get_of_the_status_alone(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.held())

    status = kubectl("get", "fw", "mnist", "--subresource=status", "-o", "jsonpath={.status.state}")

    assert status == "AttemptCreationPending"


def test_describe_shows_the_spec_the_conditions_and_what_happened(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.framework())
    succeeded(kubectl)

    shown = kubectl("describe", "fw", "mnist")

    assert re.search(r"^Kind: +Framework$", shown, re.MULTILINE)
    assert re.search(r"^ +Type: +Succeeded$", shown, re.MULTILINE)
    assert re.search(r"^ +Task Number: +1$", shown, re.MULTILINE)
    assert re.search(r"^ +Normal +FrameworkSucceeded ", shown.partition("Events:")[2], re.MULTILINE)


def test_events_tell_what_happened_to_one_framework(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.framework("mine"), space.framework("other"))
    succeeded(kubectl, "mine")
    succeeded(kubectl, "other")

    headings, *rows = kubectl.table("events", "--for=fw/mine")

    assert headings == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert {row[3] for row in rows} == {"Framework/mine"}
    assert "FrameworkSucceeded" in {row[2] for row in rows}


def test_get_events_tells_of_frameworks_and_pods(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.framework())
    succeeded(kubectl)

    headings, *rows = kubectl.table("get", "events")

    assert headings == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    told = {(row[3], row[2]) for row in rows}
    assert {("framework/mnist", "FrameworkSucceeded"), ("pod/mnist-worker-0", "Scheduled")} <= told


def test_explain_describes_every_field_of_a_task_role(kubectl: Kubectl) -> None:
    shown = " ".join(kubectl("explain", "frameworks.spec.taskRoles").split())

    roles = framework_schema()["properties"]["spec"]["properties"]["taskRoles"]
    assert roles["description"] in shown
    for name, field in roles["items"]["properties"].items():
        assert re.search(rf" {name} <\S+> (-required- )?{re.escape(field['description'])}", shown), name


def test_explain_goes_down_into_the_pod(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "fw.spec.taskRoles.task.pod.spec.containers.command")

    assert re.search(r"^FIELD: command <\[\]string>$", shown, re.MULTILINE)


def test_explain_recursive_lists_the_whole_tree(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "framework", "--recursive")

    for field in ("roleSequence", "succeededIndexes", "podGracefulDeletionTimeoutSec", "initContainers"):
        assert re.search(rf"^ +{field}\t<", shown, re.MULTILINE), field


def test_explain_describes_the_status_too(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "fw.status.conditions")

    assert re.search(r"^ +lastTransitionTime\t<string>", shown, re.MULTILINE)


def test_explain_of_a_field_that_is_not_there_says_so(kubectl: Kubectl) -> None:
    assert 'field "taskRole" does not exist' in kubectl.refused("explain", "fw.spec.taskRole")


def test_api_resources_lists_what_is_served(kubectl: Kubectl) -> None:
    rows = [line.split() for line in kubectl("api-resources", "--no-headers").splitlines()]

    assert ["frameworks", "fw", "launcher.microsoft.com/v1", "true", "Framework"] in rows
    assert ["pods", "po", "v1", "true", "Pod"] in rows
    assert ["nodes", "no", "v1", "false", "Node"] in rows
    assert ["tfjobs", "kubeflow.org/v1", "true", "TFJob"] in rows
    served = kubectl("api-versions").split()
    assert {"launcher.microsoft.com/v1", "kubeflow.org/v1", "kubeflow.org/v1beta2", "v1"} <= set(served)


def test_version_tells_both_sides(kubectl: Kubectl) -> None:
    version = orjson.loads(kubectl("version", "-o", "json"))

    assert "+launcher." in version["serverVersion"]["gitVersion"]


def test_the_node_is_this_machine(kubectl: Kubectl) -> None:
    headings, *rows = kubectl.table("get", "nodes")

    assert headings == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [row[1] for row in rows] == ["Ready"]
    described = kubectl("describe", "node", rows[0][0])
    assert re.search(r"^ +cpu: +\d", described, re.MULTILINE)
    assert re.search(r"^ +Ready +True ", described, re.MULTILINE)


def test_every_namespace_with_something_in_it_is_listed(space: Space, kubectl: Kubectl) -> None:
    put(kubectl, space.held())

    rows = kubectl.table("get", "namespaces")

    assert rows[0] == ["NAME", "STATUS", "AGE"]
    assert {"default", space.namespace} <= {row[0] for row in rows if row[1] == "Active"}
    assert kubectl("get", "ns", "never-heard-of", "-o", "jsonpath={.status.phase}") == "Active"


def test_auth_says_who_may_do_what(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "frameworks") == "yes\n"
    assert ["*.*", "[]", "[]", "[*]"] in [
        line.split() for line in kubectl("auth", "can-i", "--list").splitlines()
    ]
    assert ["Username", "admin"] in kubectl.table("auth", "whoami")


def test_top_says_that_there_are_no_measurements(kubectl: Kubectl) -> None:
    assert kubectl.refused("top", "pods") == "error: Metrics API not available\n"


def test_raw_paths_are_answered(kubectl: Kubectl) -> None:
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert orjson.loads(kubectl("get", "--raw", "/api/v1"))["kind"] == "APIResourceList"
