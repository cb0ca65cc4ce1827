"""kubectl create, apply, edit, patch, scale, label, replace and delete with Frameworks."""

import re
import stat
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.builders import Json, a_role
from tests.clients.isolated_namespace import IsolatedNamespace, wait_for_file
from tests.clients.kubectl import Kubectl
from tests.core.manifests import PROJECT

FRAMEWORK = "framework.launcher.microsoft.com/mnist"


def field(kubectl: Kubectl, path: str) -> str:
    """One field of the stored Framework."""
    return kubectl("get", "fw", "mnist", "-o", f"jsonpath={{{path}}}")


def wait_for_status(kubectl: Kubectl) -> None:
    """Waits until the Framework has a status; afterwards it does not change."""
    kubectl("wait", "fw/mnist", "--for=condition=Suspended", "--timeout=30s")


def test_create_prints_the_created_object(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", stdin=isolated.suspended()) == f"{FRAMEWORK} created\n"


def test_create_with_generatename_generates_a_name(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    framework = isolated.suspended()
    framework["metadata"] = {"generateName": "run-"}

    names = {kubectl("create", "-f", "-", "-o", "name", stdin=framework) for _ in range(2)}

    assert len(names) == 2
    assert all(re.fullmatch(r"framework.launcher.microsoft.com/run-[a-z0-9]{5}\n", name) for name in names)


def test_create_with_dry_run_stores_nothing(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    output = kubectl("create", "-f", "-", "--dry-run=server", stdin=isolated.suspended())

    assert output == f"{FRAMEWORK} created (server dry run)\n"
    assert kubectl("get", "fw", "-o", "name") == ""


def test_create_of_an_existing_object_is_an_error(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.suspended())

    error = kubectl.error_output("create", "-f", "-", stdin=isolated.suspended())

    assert "Error from server (AlreadyExists)" in error
    assert 'frameworks.launcher.microsoft.com "mnist" already exists' in error


def test_a_misspelled_field_is_rejected_by_its_name(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    framework = isolated.suspended()
    framework["spec"]["taskRoles"][0]["taskNumbr"] = 2

    error = kubectl.error_output("create", "-f", "-", stdin=framework)

    assert error.startswith("Error from server (BadRequest): ")
    assert 'strict decoding error: unknown field "spec.taskRoles[0].taskNumbr"' in error


def test_a_misspelled_field_is_a_warning_with_validate_warn(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    framework = isolated.suspended()
    framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]["olumeMounts"] = []

    done = kubectl.run("create", "-f", "-", "--validate=warn", stdin=framework)

    assert done.stdout == f"{FRAMEWORK} created\n"
    path = "spec.taskRoles[0].task.pod.spec.containers[0].olumeMounts"
    assert re.search(rf'^Warning: unknown field "{re.escape(path)}".*volumeMounts', done.stderr, re.MULTILINE)


def test_a_rejected_spec_has_all_causes(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    framework = isolated.suspended()
    framework["spec"]["taskRoles"] = [a_role("Worker", -1), a_role("ps", 1), a_role("ps", 1)]

    error = kubectl.error_output("create", "-f", "-", stdin=framework)

    lines = error.splitlines()
    assert lines[0].startswith('The Framework "mnist" is invalid: ')
    assert [line.partition(": ")[0] for line in lines[1:]] == [
        "* spec.taskRoles[0].name",
        "* spec.taskRoles[0].taskNumber",
        "* spec.taskRoles[2].name",
    ]


def test_a_missing_object_is_not_found(kubectl: Kubectl) -> None:
    error = kubectl.error_output("get", "fw", "nosuch")

    assert error == 'Error from server (NotFound): frameworks.launcher.microsoft.com "nosuch" not found\n'
    assert kubectl.error_output("delete", "fw", "nosuch") == error
    assert kubectl("delete", "fw", "nosuch", "--ignore-not-found") == ""


def test_an_unknown_kind_is_reported(kubectl: Kubectl) -> None:
    assert 'the server doesn\'t have a resource type "deployments"' in kubectl.error_output(
        "get", "deployments"
    )


def test_apply_creates_and_then_changes_an_object(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    whole = with_defaults(kubectl, isolated.suspended())

    assert kubectl("apply", "-f", "-", stdin=whole) == f"{FRAMEWORK} created\n"
    assert kubectl("apply", "-f", "-", stdin=whole) == f"{FRAMEWORK} unchanged\n"
    whole["spec"]["taskRoles"][0]["taskNumber"] = 3
    assert kubectl("apply", "-f", "-", stdin=whole) == f"{FRAMEWORK} configured\n"

    assert field(kubectl, ".spec.taskRoles[0].taskNumber") == "3"
    assert field(kubectl, ".metadata.generation") == "2"


def with_defaults(kubectl: Kubectl, framework: Json) -> Json:
    """The Framework with the defaults of the server."""
    stored = orjson.loads(kubectl("create", "-f", "-", "--dry-run=server", "-o", "json", stdin=framework))
    return {**framework, "spec": stored["spec"]}


def test_apply_of_the_same_file_changes_nothing(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=isolated.suspended())
    wait_for_status(kubectl)
    before = field(kubectl, ".metadata")

    # kubectl prints "configured": it compares the whole list of task roles, and the stored one has defaults.
    kubectl("apply", "-f", "-", stdin=isolated.suspended())

    assert field(kubectl, ".metadata") == before


def test_apply_removes_fields_that_are_no_longer_in_the_file(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    kubectl("apply", "-f", "-", stdin=isolated.suspended(description="old"))

    kubectl("apply", "-f", "-", stdin=isolated.suspended())

    assert field(kubectl, ".spec.description") == ""


def test_apply_on_the_server_creates_and_changes(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    def apply(tasks: int) -> str:
        return kubectl("apply", "--server-side", "-f", "-", stdin=isolated.suspended(tasks=tasks))

    assert [apply(1), apply(1), apply(2)] == [f"{FRAMEWORK} serverside-applied\n"] * 3
    assert field(kubectl, ".spec.taskRoles[0].taskNumber") == "2"
    assert field(kubectl, ".metadata.generation") == "2"


def owners(kubectl: Kubectl) -> dict[str, str]:
    """The managed fields of each manager, as text."""
    stored = orjson.loads(kubectl("get", "fw", "mnist", "-o", "json", "--show-managed-fields"))
    entries = stored["metadata"].get("managedFields", [])
    return {f"{entry['manager']} {entry['operation']}": str(entry["fieldsV1"]) for entry in entries}


def test_server_side_apply_reports_conflicts_and_can_be_forced(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    apply_as_other = (*apply, "--field-manager=other")
    kubectl(*apply, stdin=isolated.suspended(description="ours"))

    error = kubectl.error_output(*apply_as_other, stdin=isolated.suspended(description="theirs"))
    kubectl(*apply_as_other, "--force-conflicts", stdin=isolated.suspended(description="theirs"))

    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.description' in error
    assert "--force-conflicts" in error
    assert field(kubectl, ".spec.description") == "theirs"
    managers = [name for name, fields in owners(kubectl).items() if "f:description" in fields]
    assert managers == ["other Apply"]


def test_server_side_apply_removes_fields_that_are_no_longer_in_the_file(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    kubectl("apply", "--server-side", "-f", "-", stdin=isolated.suspended(description="old"))
    kubectl("label", "fw", "mnist", "added=later")

    kubectl("apply", "--server-side", "-f", "-", stdin=isolated.suspended())

    assert field(kubectl, ".spec.description") == ""
    assert field(kubectl, ".metadata.labels.added") == "later"
    assert "f:added" in owners(kubectl)["kubectl-label Update"]


def test_apply_may_change_between_client_and_server_side(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    def apply(*apply_flags: str, **spec: Any) -> None:
        kubectl("apply", *apply_flags, "-f", "-", stdin=isolated.suspended(**spec))

    apply(description="first")
    kubectl("label", "fw", "mnist", "added=later")
    assert owners(kubectl) == {}
    apply("--server-side", description="second")
    apply(description="third", cleanPodPolicy="All")
    assert "f:description" in owners(kubectl)["kubectl-client-side-apply Update"]
    # kubectl migrates the fields of client-side apply to server-side apply.
    apply("--server-side", description="fourth")

    assert field(kubectl, ".spec.description") == "fourth"
    assert field(kubectl, ".spec.cleanPodPolicy") == "Running"
    assert field(kubectl, ".metadata.labels.added") == "later"
    assert owners(kubectl).keys() == {
        "kubectl Apply",
        "before-first-apply Update",
        "kubectl-last-applied Apply",
    }
    apply()
    assert field(kubectl, ".spec.description") == ""


def test_apply_of_several_objects_at_once(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    text = yaml.safe_dump_all([settings, isolated.suspended(), isolated.suspended("other")])

    output = kubectl("apply", "-f", "-", stdin=text)

    assert output.splitlines() == [
        "configmap/settings created",
        f"{FRAMEWORK} created",
        "framework.launcher.microsoft.com/other created",
    ]


@pytest.mark.parametrize(
    "apply_flags", [(), ("--server-side",)], ids=["client-side apply", "server-side apply"]
)
def test_diff_shows_the_line_that_would_change(
    isolated: IsolatedNamespace, kubectl: Kubectl, apply_flags: tuple[str, ...]
) -> None:
    kubectl("apply", *apply_flags, "-f", "-", stdin=isolated.suspended(description="before"))
    wait_for_status(kubectl)

    same = kubectl.run("diff", *apply_flags, "-f", "-", stdin=isolated.suspended(description="before"))
    changed_file = kubectl.run("diff", *apply_flags, "-f", "-", stdin=isolated.suspended(description="after"))

    assert (same.returncode, same.stdout) == (0, "")
    assert changed_file.returncode == 1
    changed = [line for line in changed_file.stdout.splitlines() if re.match(r"[-+] *description:", line)]
    assert [line.replace(" ", "") for line in changed] == ["-description:before", "+description:after"]
    assert field(kubectl, ".spec.description") == "before"


def editor(directory: Path, command: str) -> str:
    """A program that edits a file with *command*."""
    program = directory / "editor"
    program.write_text(f'#!/bin/sh\n{command} "$1"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_edit_stores_the_edited_object(isolated: IsolatedNamespace, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", stdin=isolated.suspended(description="before"))

    edit = editor(tmp_path, "sed -i 's/description: before/description: after/'")
    output = kubectl("edit", "fw", "mnist", KUBE_EDITOR=edit)

    assert output == f"{FRAMEWORK} edited\n"
    assert field(kubectl, ".spec.description") == "after"


def test_an_invalid_edit_is_rejected_with_the_reason(
    isolated: IsolatedNamespace, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl("create", "-f", "-", stdin=isolated.suspended())

    # kubectl opens the file again with the error on top; a second unchanged save cancels the edit.
    edit = editor(tmp_path, f"sed -i -e 's/taskNumber: 1/taskNumber: -7/' -e 'w {tmp_path}/offered'")
    done = kubectl.run("edit", "fw", "mnist", KUBE_EDITOR=edit)

    assert done.returncode == 1
    error = [line for line in (tmp_path / "offered").read_text().splitlines() if line.startswith("#")]
    assert [line for line in error if "spec.taskRoles[0].taskNumber" in line]
    assert field(kubectl, ".spec.taskRoles[0].taskNumber") == "1"


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", '{"spec": {"description": "patched"}}'),
        ("json", '[{"op": "add", "path": "/spec/description", "value": "patched"}]'),
    ],
)
def test_patch_changes_one_field(
    isolated: IsolatedNamespace, kubectl: Kubectl, kind: str, patch: str
) -> None:
    kubectl("create", "-f", "-", stdin=isolated.suspended())

    assert kubectl("patch", "fw", "mnist", f"--type={kind}", "-p", patch) == f"{FRAMEWORK} patched\n"
    # Before that, the launcher may write the status between the read and the write of kubectl.
    kubectl("wait", "fw/mnist", "--for=jsonpath={.status.observedGeneration}=2", "--timeout=30s")
    assert (
        kubectl("patch", "fw", "mnist", f"--type={kind}", "-p", patch) == f"{FRAMEWORK} patched (no change)\n"
    )
    assert field(kubectl, ".spec.description") == "patched"


def test_patch_without_a_type_lists_the_supported_types(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    kubectl("create", "-f", "-", stdin=isolated.suspended())

    error = kubectl.error_output("patch", "fw", "mnist", "-p", '{"spec": {"description": "x"}}')

    assert "application/merge-patch+json" in error
    assert "application/json-patch+json" in error


def test_a_status_patch_does_not_change_the_spec(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.suspended())
    wait_for_status(kubectl)

    patch = '{"spec": {"description": "no"}, "status": {"message": "by hand"}}'
    kubectl("patch", "fw", "mnist", "--subresource=status", "--type=merge", "-p", patch)

    assert field(kubectl, ".spec.description") == ""


def test_start_and_stop_are_patches_of_one_field(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl(
        "create", "-f", "-", stdin=isolated.framework(script=wait_for_file("never"), executionType="Create")
    )
    wait_for_status(kubectl)

    kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec": {"executionType": "Start"}}')
    kubectl("wait", "fw/mnist", "--for=condition=Running", "--timeout=30s")
    kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec": {"executionType": "Stop"}}')

    kubectl("wait", "fw/mnist", "--for=jsonpath={.status.state}=Completed", "--timeout=30s")


def test_scale_changes_the_number_of_tasks(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.suspended())

    assert kubectl("scale", "fw/mnist", "--replicas=4") == f"{FRAMEWORK} scaled\n"
    assert field(kubectl, ".spec.taskRoles[0].taskNumber") == "4"
    assert kubectl("scale", "fw/mnist", "--current-replicas=4", "--replicas=2") == f"{FRAMEWORK} scaled\n"
    assert field(kubectl, ".spec.taskRoles[0].taskNumber") == "2"


def test_scale_of_several_roles_is_rejected_with_a_hint(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    framework = isolated.suspended()
    framework["spec"]["taskRoles"].append(a_role("ps", 1))
    kubectl("create", "-f", "-", stdin=framework)

    error = kubectl.error_output("scale", "fw/mnist", "--replicas=4")

    assert "taskNumber" in error


def test_labels_and_annotations_do_not_change_the_generation(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    kubectl("create", "-f", "-", stdin=isolated.suspended())

    assert kubectl("label", "fw", "mnist", "team=vision") == f"{FRAMEWORK} labeled\n"
    assert kubectl("annotate", "fw", "mnist", "note=first try") == f"{FRAMEWORK} annotated\n"
    assert field(kubectl, ".metadata.labels.team") == "vision"
    assert kubectl("label", "fw", "mnist", "team-") == f"{FRAMEWORK} unlabeled\n"

    assert field(kubectl, ".metadata.labels") == ""
    assert field(kubectl, ".metadata.annotations.note") == "first try"
    assert field(kubectl, ".metadata.generation") == "1"


def test_replace_replaces_the_whole_object(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.suspended(description="old"))
    wait_for_status(kubectl)
    uid = field(kubectl, ".metadata.uid")

    assert kubectl("replace", "-f", "-", stdin=isolated.suspended()) == f"{FRAMEWORK} replaced\n"

    assert field(kubectl, ".spec.description") == ""
    assert field(kubectl, ".metadata.uid") == uid


def test_replace_with_force_recreates_the_object(
    isolated: IsolatedNamespace, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl("create", "-f", "-", stdin=isolated.suspended())
    uid = field(kubectl, ".metadata.uid")
    file = tmp_path / "framework.json"
    file.write_bytes(orjson.dumps(isolated.suspended()))

    kubectl("replace", "--force", "-f", str(file))

    assert field(kubectl, ".metadata.uid") != uid


def test_a_stale_version_is_a_conflict(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.suspended())
    old = orjson.loads(kubectl("get", "fw", "mnist", "-o", "json"))
    kubectl("label", "fw", "mnist", "a=b")

    error = kubectl.error_output(
        "replace", "-f", "-", stdin={**old, "spec": {**old["spec"], "description": "x"}}
    )

    assert "Error from server (Conflict)" in error


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_delete_waits_until_the_framework_and_its_pods_are_deleted(
    isolated: IsolatedNamespace, kubectl: Kubectl, cascade: str
) -> None:
    kubectl("create", "-f", "-", stdin=isolated.framework(script=wait_for_file("never")))
    kubectl("wait", "fw/mnist", "--for=condition=Running", "--timeout=30s")

    output = kubectl("delete", "fw", "mnist", f"--cascade={cascade}")

    assert output.startswith('framework.launcher.microsoft.com "mnist" deleted')
    assert kubectl("get", "fw", "-o", "name") == ""
    kubectl("wait", "pod/mnist-worker-0", "--for=delete", "--timeout=30s")


def test_delete_by_label_and_delete_all(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    items = [isolated.suspended(name) for name in ("a", "b", "c")]
    kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})
    kubectl("label", "fw", "b", "delete=yes")

    kubectl("delete", "fw", "-l", "delete=yes")
    assert kubectl("get", "fw", "-o", "name").split() == [
        f"framework.launcher.microsoft.com/{name}" for name in "ac"
    ]
    kubectl("delete", "fw", "--all")

    assert kubectl("get", "fw", "-o", "name") == ""


def test_delete_of_a_namespace_deletes_its_content(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "namespace", isolated.namespace)
    kubectl("create", "-f", "-", stdin=isolated.suspended())
    kubectl("create", "configmap", "settings", "--from-literal=a=1")

    kubectl("delete", "namespace", isolated.namespace, "--timeout=30s")

    assert kubectl("get", "fw,cm", "-o", "name") == ""


def test_config_maps_and_secrets_are_stored_and_shown(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "settings", "--from-literal=rate=0.1", "--from-literal=steps=7")
    kubectl("create", "secret", "generic", "key", "--from-literal=token=quiet")

    assert kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.rate}") == "0.1"
    assert kubectl("get", "secret", "key", "-o", "jsonpath={.data.token}") == "cXVpZXQ="
    assert [row[:2] for row in kubectl.table("get", "cm")] == [["NAME", "DATA"], ["settings", "2"]]
    assert [row[:3] for row in kubectl.table("get", "secret")] == [
        ["NAME", "TYPE", "DATA"],
        ["key", "Opaque", "1"],
    ]
    described = kubectl("describe", "secret", "key")
    assert re.search(r"^token: +5 bytes$", described, re.MULTILINE)
    assert "quiet" not in described


def test_config_maps_can_be_applied(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    def settings(rate: str) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings"},
            "data": {"rate": rate},
        }

    output = [kubectl("apply", "-f", "-", stdin=settings(rate)).split()[1] for rate in ("1", "1", "2")]

    assert output == ["created", "unchanged", "configured"]
    assert kubectl("get", "cm", "settings", "-o", "jsonpath={.data.rate}") == "2"


def test_the_examples_are_accepted_unchanged(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    output = kubectl("create", "--dry-run=server", "-f", str(PROJECT / "examples"))

    assert len(output.splitlines()) == len(list((PROJECT / "examples").glob("*.yaml")))
