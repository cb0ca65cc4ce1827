"""What kubectl changes: create, apply, edit, patch, scale, label, replace, delete."""

import re
import stat
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.clients.kubectl import Kubectl
from tests.clients.space import Space, once
from tests.core.manifests import PROJECT, Json, a_role

FRAMEWORK = "framework.launcher.microsoft.com/mnist"


def field(kubectl: Kubectl, path: str) -> str:
    """One field of the Framework as it is stored."""
    return kubectl("get", "fw", "mnist", "-o", f"jsonpath={{{path}}}")


def settled(kubectl: Kubectl) -> None:
    """Wait until the launcher has said what it has to say, so that a held Framework stays as it is."""
    kubectl("wait", "fw/mnist", "--for=condition=Suspended", "--timeout=30s")


def test_create_says_what_it_made(space: Space, kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", given=space.held()) == f"{FRAMEWORK} created\n"


def test_create_by_a_prefix_makes_up_the_rest_of_the_name(space: Space, kubectl: Kubectl) -> None:
    framework = space.held()
    framework["metadata"] = {"generateName": "run-"}

    names = {kubectl("create", "-f", "-", "-o", "name", given=framework) for _ in range(2)}

    assert len(names) == 2
    assert all(re.fullmatch(r"framework.launcher.microsoft.com/run-[a-z0-9]{5}\n", name) for name in names)


def test_create_as_a_rehearsal_stores_nothing(space: Space, kubectl: Kubectl) -> None:
    said = kubectl("create", "-f", "-", "--dry-run=server", given=space.held())

    assert said == f"{FRAMEWORK} created (server dry run)\n"
    assert kubectl("get", "fw", "-o", "name") == ""


def test_create_twice_says_that_it_is_there_already(space: Space, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=space.held())

    complaint = kubectl.refused("create", "-f", "-", given=space.held())

    assert "Error from server (AlreadyExists)" in complaint
    assert 'frameworks.launcher.microsoft.com "mnist" already exists' in complaint


def test_a_misspelt_field_is_refused_by_its_name(space: Space, kubectl: Kubectl) -> None:
    framework = space.held()
    framework["spec"]["taskRoles"][0]["taskNumbr"] = 2

    complaint = kubectl.refused("create", "-f", "-", given=framework)

    assert complaint.startswith("Error from server (BadRequest): ")
    assert 'strict decoding error: unknown field "spec.taskRoles[0].taskNumbr"' in complaint


def test_a_misspelt_field_is_only_warned_of_when_the_user_says_so(space: Space, kubectl: Kubectl) -> None:
    framework = space.held()
    framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]["olumeMounts"] = []

    done = kubectl.run("create", "-f", "-", "--validate=warn", given=framework)

    assert done.stdout == f"{FRAMEWORK} created\n"
    path = "spec.taskRoles[0].task.pod.spec.containers[0].olumeMounts"
    assert re.search(rf'^Warning: unknown field "{re.escape(path)}".*volumeMounts', done.stderr, re.MULTILINE)


def test_a_refused_spec_comes_with_every_cause(space: Space, kubectl: Kubectl) -> None:
    framework = space.held()
    framework["spec"]["taskRoles"] = [a_role("Worker", -1), a_role("ps", 1), a_role("ps", 1)]

    complaint = kubectl.refused("create", "-f", "-", given=framework)

    lines = complaint.splitlines()
    assert lines[0].startswith('The Framework "mnist" is invalid: ')
    assert [line.partition(": ")[0] for line in lines[1:]] == [
        "* spec.taskRoles[0].name",
        "* spec.taskRoles[0].taskNumber",
        "* spec.taskRoles[2].name",
    ]


def test_what_is_not_there_is_not_found(kubectl: Kubectl) -> None:
    complaint = kubectl.refused("get", "fw", "nosuch")

    assert complaint == 'Error from server (NotFound): frameworks.launcher.microsoft.com "nosuch" not found\n'
    assert kubectl.refused("delete", "fw", "nosuch") == complaint
    assert kubectl("delete", "fw", "nosuch", "--ignore-not-found") == ""


def test_a_kind_that_is_not_served_is_told_as_such(kubectl: Kubectl) -> None:
    assert 'the server doesn\'t have a resource type "deployments"' in kubectl.refused("get", "deployments")


def test_apply_creates_then_leaves_alone_then_changes(space: Space, kubectl: Kubectl) -> None:
    whole = with_defaults(kubectl, space.held())

    assert kubectl("apply", "-f", "-", given=whole) == f"{FRAMEWORK} created\n"
    assert kubectl("apply", "-f", "-", given=whole) == f"{FRAMEWORK} unchanged\n"
    whole["spec"]["taskRoles"][0]["taskNumber"] = 3
    assert kubectl("apply", "-f", "-", given=whole) == f"{FRAMEWORK} configured\n"

    assert field(kubectl, ".spec.taskRoles[0].taskNumber") == "3"
    assert field(kubectl, ".metadata.generation") == "2"


def with_defaults(kubectl: Kubectl, framework: Json) -> Json:
    """The Framework with all that the server would add to its spec."""
    stored = orjson.loads(kubectl("create", "-f", "-", "--dry-run=server", "-o", "json", given=framework))
    return {**framework, "spec": stored["spec"]}


def test_apply_of_the_same_file_changes_nothing(space: Space, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=space.held())
    settled(kubectl)
    before = field(kubectl, ".metadata")

    # kubectl says "configured": it compares the list of task roles as a whole, and the stored one has its defaults.
    kubectl("apply", "-f", "-", given=space.held())

    assert field(kubectl, ".metadata") == before


def test_apply_takes_away_what_is_no_longer_in_the_file(space: Space, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=space.held(description="old"))

    kubectl("apply", "-f", "-", given=space.held())

    assert field(kubectl, ".spec.description") == ""


def test_apply_on_the_server_creates_and_changes(space: Space, kubectl: Kubectl) -> None:
    def apply(tasks: int) -> str:
        return kubectl("apply", "--server-side", "-f", "-", given=space.held(tasks=tasks))

    assert [apply(1), apply(1), apply(2)] == [f"{FRAMEWORK} serverside-applied\n"] * 3
    assert field(kubectl, ".spec.taskRoles[0].taskNumber") == "2"
    assert field(kubectl, ".metadata.generation") == "2"


def owners(kubectl: Kubectl) -> dict[str, str]:
    """Each manager, and what it owns, as text."""
    stored = orjson.loads(kubectl("get", "fw", "mnist", "-o", "json", "--show-managed-fields"))
    entries = stored["metadata"].get("managedFields", [])
    return {f"{entry['manager']} {entry['operation']}": str(entry["fieldsV1"]) for entry in entries}


def test_apply_on_the_server_tells_of_other_managers_and_can_be_forced(
    space: Space, kubectl: Kubectl
) -> None:
    ours = ("apply", "--server-side", "-f", "-")
    theirs = (*ours, "--field-manager=other")
    kubectl(*ours, given=space.held(description="ours"))

    complaint = kubectl.refused(*theirs, given=space.held(description="theirs"))
    kubectl(*theirs, "--force-conflicts", given=space.held(description="theirs"))

    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.description' in complaint
    assert "--force-conflicts" in complaint
    assert field(kubectl, ".spec.description") == "theirs"
    owning = [name for name, fields in owners(kubectl).items() if "f:description" in fields]
    assert owning == ["other Apply"]


def test_apply_on_the_server_takes_away_what_is_no_longer_in_the_file(space: Space, kubectl: Kubectl) -> None:
    kubectl("apply", "--server-side", "-f", "-", given=space.held(description="old"))
    kubectl("label", "fw", "mnist", "added=later")

    kubectl("apply", "--server-side", "-f", "-", given=space.held())

    assert field(kubectl, ".spec.description") == ""
    assert field(kubectl, ".metadata.labels.added") == "later"
    assert "f:added" in owners(kubectl)["kubectl-label Update"]


def test_apply_may_go_to_the_server_and_back(space: Space, kubectl: Kubectl) -> None:
    def apply(*way: str, **spec: Any) -> None:
        kubectl("apply", *way, "-f", "-", given=space.held(**spec))

    apply(description="first")
    kubectl("label", "fw", "mnist", "added=later")
    assert owners(kubectl) == {}
    apply("--server-side", description="second")
    apply(description="third", cleanPodPolicy="All")
    assert "f:description" in owners(kubectl)["kubectl-client-side-apply Update"]
    # Now kubectl moves what it did by itself to what the server did for it.
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


def test_apply_of_several_objects_at_once(space: Space, kubectl: Kubectl) -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    text = yaml.safe_dump_all([settings, space.held(), space.held("other")])

    said = kubectl("apply", "-f", "-", given=text)

    assert said.splitlines() == [
        "configmap/settings created",
        f"{FRAMEWORK} created",
        "framework.launcher.microsoft.com/other created",
    ]


@pytest.mark.parametrize("way", [(), ("--server-side",)], ids=["by the client", "by the server"])
def test_diff_shows_the_line_that_would_change(space: Space, kubectl: Kubectl, way: tuple[str, ...]) -> None:
    kubectl("apply", *way, "-f", "-", given=space.held(description="before"))
    settled(kubectl)

    same = kubectl.run("diff", *way, "-f", "-", given=space.held(description="before"))
    other = kubectl.run("diff", *way, "-f", "-", given=space.held(description="after"))

    assert (same.returncode, same.stdout) == (0, "")
    assert other.returncode == 1
    changed = [line for line in other.stdout.splitlines() if re.match(r"[-+] *description:", line)]
    assert [line.replace(" ", "") for line in changed] == ["-description:before", "+description:after"]
    assert field(kubectl, ".spec.description") == "before"


def editor(directory: Path, command: str) -> str:
    """A program that edits a file as *command* does."""
    program = directory / "editor"
    program.write_text(f'#!/bin/sh\n{command} "$1"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_edit_stores_what_the_editor_leaves(space: Space, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", given=space.held(description="before"))

    edit = editor(tmp_path, "sed -i 's/description: before/description: after/'")
    said = kubectl("edit", "fw", "mnist", KUBE_EDITOR=edit)

    assert said == f"{FRAMEWORK} edited\n"
    assert field(kubectl, ".spec.description") == "after"


def test_edit_that_breaks_a_rule_is_refused_with_the_reason(
    space: Space, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl("create", "-f", "-", given=space.held())

    # kubectl offers the file again with the complaint on top; whoever leaves it alone then gives up.
    edit = editor(tmp_path, f"sed -i -e 's/taskNumber: 1/taskNumber: -7/' -e 'w {tmp_path}/offered'")
    done = kubectl.run("edit", "fw", "mnist", KUBE_EDITOR=edit)

    assert done.returncode == 1
    complaint = [line for line in (tmp_path / "offered").read_text().splitlines() if line.startswith("#")]
    assert [line for line in complaint if "spec.taskRoles[0].taskNumber" in line]
    assert field(kubectl, ".spec.taskRoles[0].taskNumber") == "1"


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", '{"spec": {"description": "patched"}}'),
        ("json", '[{"op": "add", "path": "/spec/description", "value": "patched"}]'),
    ],
)
def test_patch_changes_one_field(space: Space, kubectl: Kubectl, kind: str, patch: str) -> None:
    kubectl("create", "-f", "-", given=space.held())

    assert kubectl("patch", "fw", "mnist", f"--type={kind}", "-p", patch) == f"{FRAMEWORK} patched\n"
    # Until the launcher has seen it, it may write its status just between what kubectl reads and what it writes.
    kubectl("wait", "fw/mnist", "--for=jsonpath={.status.observedGeneration}=2", "--timeout=30s")
    assert (
        kubectl("patch", "fw", "mnist", f"--type={kind}", "-p", patch) == f"{FRAMEWORK} patched (no change)\n"
    )
    assert field(kubectl, ".spec.description") == "patched"


def test_patch_without_a_type_says_which_there_are(space: Space, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=space.held())

    complaint = kubectl.refused("patch", "fw", "mnist", "-p", '{"spec": {"description": "x"}}')

    assert "application/merge-patch+json" in complaint
    assert "application/json-patch+json" in complaint


def test_patch_of_the_status_leaves_the_spec_alone(space: Space, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=space.held())
    settled(kubectl)

    patch = '{"spec": {"description": "no"}, "status": {"message": "by hand"}}'
    kubectl("patch", "fw", "mnist", "--subresource=status", "--type=merge", "-p", patch)

    assert field(kubectl, ".spec.description") == ""


def test_start_and_stop_are_patches_of_one_word(space: Space, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=space.framework(script=once("never"), executionType="Create"))
    settled(kubectl)

    kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec": {"executionType": "Start"}}')
    kubectl("wait", "fw/mnist", "--for=condition=Running", "--timeout=30s")
    kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec": {"executionType": "Stop"}}')

    kubectl("wait", "fw/mnist", "--for=jsonpath={.status.state}=Completed", "--timeout=30s")


def test_scale_changes_the_number_of_tasks(space: Space, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=space.held())

    assert kubectl("scale", "fw/mnist", "--replicas=4") == f"{FRAMEWORK} scaled\n"
    assert field(kubectl, ".spec.taskRoles[0].taskNumber") == "4"
    assert kubectl("scale", "fw/mnist", "--current-replicas=4", "--replicas=2") == f"{FRAMEWORK} scaled\n"
    assert field(kubectl, ".spec.taskRoles[0].taskNumber") == "2"


def test_scale_of_several_roles_says_what_to_do_instead(space: Space, kubectl: Kubectl) -> None:
    framework = space.held()
    framework["spec"]["taskRoles"].append(a_role("ps", 1))
    kubectl("create", "-f", "-", given=framework)

    complaint = kubectl.refused("scale", "fw/mnist", "--replicas=4")

    assert "taskNumber" in complaint


def test_labels_and_annotations_come_and_go_without_a_new_generation(space: Space, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=space.held())

    assert kubectl("label", "fw", "mnist", "team=vision") == f"{FRAMEWORK} labeled\n"
    assert kubectl("annotate", "fw", "mnist", "note=first try") == f"{FRAMEWORK} annotated\n"
    assert field(kubectl, ".metadata.labels.team") == "vision"
    assert kubectl("label", "fw", "mnist", "team-") == f"{FRAMEWORK} unlabeled\n"

    assert field(kubectl, ".metadata.labels") == ""
    assert field(kubectl, ".metadata.annotations.note") == "first try"
    assert field(kubectl, ".metadata.generation") == "1"


def test_replace_puts_the_whole_object(space: Space, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=space.held(description="old"))
    settled(kubectl)
    uid = field(kubectl, ".metadata.uid")

    assert kubectl("replace", "-f", "-", given=space.held()) == f"{FRAMEWORK} replaced\n"

    assert field(kubectl, ".spec.description") == ""
    assert field(kubectl, ".metadata.uid") == uid


def test_replace_by_force_makes_a_new_object(space: Space, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", given=space.held())
    uid = field(kubectl, ".metadata.uid")
    file = tmp_path / "framework.json"
    file.write_bytes(orjson.dumps(space.held()))

    kubectl("replace", "--force", "-f", str(file))

    assert field(kubectl, ".metadata.uid") != uid


def test_a_stale_version_is_a_conflict(space: Space, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=space.held())
    old = orjson.loads(kubectl("get", "fw", "mnist", "-o", "json"))
    kubectl("label", "fw", "mnist", "a=b")

    complaint = kubectl.refused(
        "replace", "-f", "-", given={**old, "spec": {**old["spec"], "description": "x"}}
    )

    assert "Error from server (Conflict)" in complaint


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_delete_waits_until_it_is_gone_and_takes_the_pods_along(
    space: Space, kubectl: Kubectl, cascade: str
) -> None:
    kubectl("create", "-f", "-", given=space.framework(script=once("never")))
    kubectl("wait", "fw/mnist", "--for=condition=Running", "--timeout=30s")

    said = kubectl("delete", "fw", "mnist", f"--cascade={cascade}")

    assert said == 'framework.launcher.microsoft.com "mnist" deleted\n'
    assert kubectl("get", "fw", "-o", "name") == ""
    kubectl("wait", "pod/mnist-worker-0", "--for=delete", "--timeout=30s")


def test_delete_by_label_and_all_of_them(space: Space, kubectl: Kubectl) -> None:
    items = [space.held(name) for name in ("a", "b", "c")]
    kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": items})
    kubectl("label", "fw", "b", "gone=yes")

    kubectl("delete", "fw", "-l", "gone=yes")
    assert kubectl("get", "fw", "-o", "name").split() == [
        f"framework.launcher.microsoft.com/{name}" for name in "ac"
    ]
    kubectl("delete", "fw", "--all")

    assert kubectl("get", "fw", "-o", "name") == ""


def test_delete_of_a_namespace_takes_everything_in_it(space: Space, kubectl: Kubectl) -> None:
    kubectl("create", "namespace", space.namespace)
    kubectl("create", "-f", "-", given=space.held())
    kubectl("create", "configmap", "settings", "--from-literal=a=1")

    kubectl("delete", "namespace", space.namespace, "--timeout=30s")

    assert kubectl("get", "fw,cm", "-o", "name") == ""


def test_config_maps_and_secrets_are_kept_and_shown(space: Space, kubectl: Kubectl) -> None:
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


def test_config_maps_are_applied_like_anything_else(space: Space, kubectl: Kubectl) -> None:
    def settings(rate: str) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings"},
            "data": {"rate": rate},
        }

    said = [kubectl("apply", "-f", "-", given=settings(rate)).split()[1] for rate in ("1", "1", "2")]

    assert said == ["created", "unchanged", "configured"]
    assert kubectl("get", "cm", "settings", "-o", "jsonpath={.data.rate}") == "2"


def test_the_examples_are_accepted_as_they_stand(space: Space, kubectl: Kubectl) -> None:
    said = kubectl("create", "--dry-run=server", "-f", str(PROJECT / "examples"))

    assert len(said.splitlines()) == len(list((PROJECT / "examples").glob("*.yaml")))
